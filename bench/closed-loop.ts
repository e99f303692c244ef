/** Clients that each send their next request when the last one is answered. */
import { setTimeout as pause } from 'node:timers/promises';
import { countStolenTime } from './stolen-time.ts';

export interface Outcome {
  /** Milliseconds of every accepted request, in the order of their answers. */
  readonly acceptedMs: readonly number[];
  /** Milliseconds of every refused request. */
  readonly refusedMs: readonly number[];
  /** From the first request to the last answer. */
  readonly elapsedMs: number;
  /** Of the processor time asked for during the load, the part that other machines took; undefined where it is not known. */
  readonly stolenPart: number | undefined;
}

/** What became of one request. */
export interface Served {
  readonly isAccepted: boolean;
  /** How long a client stays away after a refusal. */
  readonly pauseMs: number;
}

export const accepted: Served = { isAccepted: true, pauseMs: 0 };

interface Load {
  readonly clients: number;
  /** No request begins after this; those under way are waited for. */
  readonly durationMs: number;
  readonly request: (client: number) => Promise<Served>;
  readonly maxRequestsPerClient?: number;
}

export async function runClosedLoop(load: Load): Promise<Outcome> {
  const acceptedMs: number[] = [];
  const refusedMs: number[] = [];
  const stolenPart = countStolenTime();
  const start = performance.now();
  const end = start + load.durationMs;
  const client = async (index: number): Promise<void> => {
    for (let i = 0; i < (load.maxRequestsPerClient ?? Number.POSITIVE_INFINITY); i++) {
      const sent = performance.now();
      if (sent >= end) return;
      const { isAccepted, pauseMs } = await load.request(index);
      (isAccepted ? acceptedMs : refusedMs).push(performance.now() - sent);
      if (!isAccepted) await pause(Math.max(0, Math.min(pauseMs, end - performance.now())));
    }
  };
  await Promise.all(Array.from({ length: load.clients }, (_, index) => client(index)));
  return { acceptedMs, refusedMs, elapsedMs: performance.now() - start, stolenPart: stolenPart() };
}
