/**
 * A thread reads and converts a file of rows, of any format, while this one sends what it made: its young values stay few, and a
 * hostile file ends nothing but the thread.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { invalidInput } from '../kernel/errors.ts';
import { freeMemory } from './free-memory.ts';
import type { InputFile, InputFormat } from './input-file.ts';
import { type KnownColumns, messagesByFormat } from './messages-by-format.ts';
import type { RowMessage } from './row-messages.ts';

/** The thread gets it. */
export interface FileToRead {
  readonly name: string;
  readonly path: string;
  readonly format: InputFormat;
  readonly delimiter: string;
  readonly known: Omit<KnownColumns, 'leftOut'>;
  readonly leavesOut: boolean;
}

/** An answer of the thread. */
export type FromFile =
  | { readonly messages: readonly RowMessage[]; readonly leftOut: readonly string[]; readonly isEnd: boolean }
  | { readonly fault: string };

/** `InvalidInput` names the file and the place at fault. */
export async function* messagesOfFile(input: InputFile, known: KnownColumns): AsyncGenerator<RowMessage> {
  const { name, path, format, delimiter } = input;
  try {
    yield* path === undefined
      ? messagesByFormat(input, known)
      : messagesOfThread({ name, path, format, delimiter }, known);
  } catch (error) {
    throw invalidInput(`${name}: ${error instanceof Error ? error.message : String(error)}`, error);
  }
}

async function* messagesOfThread(
  file: Omit<FileToRead, 'known' | 'leavesOut'>,
  { leftOut, ...known }: KnownColumns,
): AsyncGenerator<RowMessage> {
  const workerData: FileToRead = { ...file, known, leavesOut: leftOut !== undefined };
  const thread = new Worker(new URL('./file-thread.ts', import.meta.url), {
    workerData,
    execArgv: [],
    stderr: true,
    // V8 would otherwise keep some hundred megabytes of values that died young before it looks.
    resourceLimits: { maxYoungGenerationSizeMb: 4 },
  });
  try {
    for (let isEnd = false; !isEnd; ) {
      const answer = await nextOf(thread);
      if ('fault' in answer) throw invalidInput(answer.fault);
      leftOut?.push(...answer.leftOut);
      yield* answer.messages;
      for (const { bytes } of answer.messages) freeMemory(bytes);
      isEnd = answer.isEnd;
    }
  } finally {
    await thread.terminate();
  }
}

async function nextOf(thread: Worker): Promise<FromFile> {
  const ended = new AbortController();
  const ends = once(thread, 'exit', { signal: ended.signal }).then((): FromFile => ({ fault: damaged }));
  ends.catch(() => undefined); // it is not waited for once there is an answer
  thread.postMessage('next');
  try {
    const answers = once(thread, 'message').then(([answer]) => answer as FromFile);
    return await Promise.race([answers, ends]);
  } catch (error) {
    // translated: it is what the thread could not catch
    return { fault: error instanceof Error && error.name !== 'RuntimeError' ? error.message : damaged };
  } finally {
    ended.abort();
  }
}

const damaged = 'it is damaged so that it cannot be read';
