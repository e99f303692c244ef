import type { TableRef } from '../kernel/ids.ts';

/** A name that this replica owns, or is about to. */
export interface HeldName {
  readonly table: TableRef;
  /** `closing`: requests that were told that this replica is the owner may still lock the table, and no further request is told so. */
  status: 'claiming' | 'held' | 'closing' | 'leaving';
  /** Until it is held, or has been handed over. Never rejects. */
  steady: Promise<void>;
  /** When it was claimed, or last could not be handed over for what was under way. */
  sinceMs: number;
  /** How many works need it that acquired it. It is not handed over meanwhile. */
  works: number;
}

/** Until the returned function is called, the name is handed over only at the end of the process. */
export function keepForWork(held: HeldName): () => void {
  held.works += 1;
  return () => {
    held.works -= 1;
  };
}

/** Who asks for the owner from now on waits, until the returned function is called. */
export function beginClosing(held: HeldName): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  held.status = 'closing';
  held.steady = promise;
  return resolve;
}
