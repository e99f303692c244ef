/** Nothing was sent: there are no credentials, or the process has stood still. */
export class NothingSent extends Error {}

/** Milliseconds since its call. Only one of the clocks may know of a machine that stood still, or of a clock that was set. */
export function stopwatch(): () => number {
  const [wallMs, monotonicMs] = [Date.now(), performance.now()];
  return () => Math.max(Date.now() - wallMs, performance.now() - monotonicMs);
}

/**
 * What it returns is to be called once a request is signed, and throws `NothingSent` where that took longer. Else a process that stood
 * still would give a fresh signature to what it had decided before.
 */
export function mustBeSignedWithin(mostMs: number): () => void {
  const elapsedMs = stopwatch();
  return () => {
    if (elapsedMs() >= mostMs) throw new NothingSent('the process stood still, or its credentials came too late');
  };
}
