/** Calls `run` when the signal aborts, at once if it has aborted already. The returned function removes the listener. */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal.aborted) {
    run();
    return () => undefined;
  }
  signal.addEventListener('abort', run, { once: true });
  return () => signal.removeEventListener('abort', run);
}

/** Settles as `work` does, or rejects with the signal's reason if that aborts first. */
export async function firstOf<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const stopListening = onAbort(signal, () => reject(signal.reason as Error));
  try {
    return await Promise.race([work, aborted]);
  } finally {
    stopListening();
  }
}
