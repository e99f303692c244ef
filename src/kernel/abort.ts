/** Calls `run` when the signal aborts, also if it has already. The returned function takes that back. */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal.aborted) {
    run();
    return () => undefined;
  }
  signal.addEventListener('abort', run, { once: true });
  return () => signal.removeEventListener('abort', run);
}

/** Settles as `work` does, or rejects with the signal's reason where that aborts first. */
export async function firstOf<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const takeBack = onAbort(signal, () => reject(signal.reason as Error));
  try {
    return await Promise.race([work, aborted]);
  } finally {
    takeBack();
  }
}
