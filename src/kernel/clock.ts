import type { TransactionId } from './ids.ts';

/** Time, injected so that tests own it. */
export interface Clock {
  /** Milliseconds since 1970 (UTC). */
  nowMs(): number;
  /** Calls `run` once after `afterMs`; the returned function cancels it. Never keeps the process alive. */
  schedule(afterMs: number, run: () => void): () => void;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  schedule(afterMs, run) {
    const timer = setTimeout(run, afterMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Random identifiers, injected for the same reason. */
export type NewId = () => string;

export const newTransactionId = (newId: NewId): TransactionId => newId() as TransactionId;
