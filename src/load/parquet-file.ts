/** Rows of a Parquet file, a row group at a time: memory follows from the largest one, since its columns are read side by side. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { invalidInput } from '../kernel/errors.ts';
import { messagesIn, type RowMessage } from './row-messages.ts';

/** An answer of the thread. */
export type FromParquet =
  | { readonly stream: Uint8Array; readonly readShare: number }
  | { readonly isEnd: true }
  | { readonly fault: string };

/**
 * The decoder is compiled to a machine of its own (wasm). A hostile file can make it fail where nothing can catch that, so it has a
 * thread, which ends with it. What it cannot read is `InvalidInput`.
 */
export async function* messagesOfParquet(path: string): AsyncGenerator<RowMessage> {
  const thread = new Worker(new URL('./parquet-thread.ts', import.meta.url), {
    workerData: path,
    execArgv: [], resourceLimits: { maxYoungGenerationSizeMb: 4 },
    stderr: true,
  });
  let isFirst = true;
  try {
    for (;;) {
      const answer = await nextOf(thread);
      if ('isEnd' in answer) return;
      if ('fault' in answer) throw invalidInput(answer.fault);
      const messages = messagesIn(answer.stream).slice(isFirst ? 0 : 1);
      isFirst = false;
      for (const message of messages) yield { ...message, readShare: answer.readShare };
    }
  } finally {
    await thread.terminate();
  }
}

async function nextOf(thread: Worker): Promise<FromParquet> {
  const ended = new AbortController();
  const ends = once(thread, 'exit', { signal: ended.signal }).then((): FromParquet => ({ fault: damaged }));
  ends.catch(() => undefined); // nobody waits for it once there is an answer
  thread.postMessage('next');
  try {
    const answers = once(thread, 'message').then(([answer]) => answer as FromParquet);
    return await Promise.race([answers, ends]);
  } catch (error) {
    // translated: it is what the thread could not catch
    return { fault: error instanceof Error && error.name !== 'RuntimeError' ? error.message : damaged };
  } finally {
    ended.abort();
  }
}

const damaged = 'it is damaged so that it cannot be read';
