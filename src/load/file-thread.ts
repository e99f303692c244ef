/** The thread of `messages-of-file.ts` reads the next rows of one file whenever it is asked for them. */
import { parentPort, workerData } from 'node:worker_threads';
import { leastOwnBytes } from './free-memory.ts';
import { openInput } from './input-file.ts';
import { messagesByFormat } from './messages-by-format.ts';
import type { FileToRead, FromFile } from './messages-of-file.ts';
import type { RowMessage } from './row-messages.ts';

const { known, leavesOut, ...file } = workerData as FileToRead;
const leftOut: string[] | undefined = leavesOut ? [] : undefined;

async function* messages(): AsyncGenerator<RowMessage> {
  await using input = await openInput({ ...file, stdin: nothing() });
  const { totalBytes } = input;
  for await (const message of messagesByFormat(input, { ...known, leftOut })) {
    const readShare = message.readShare ?? (totalBytes === undefined ? undefined : input.bytesRead / totalBytes);
    yield { ...message, ...(readShare !== undefined && { readShare }) };
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

const all = messages();

/** A batch goes with its dictionaries, whose memory it may share. */
async function next(): Promise<FromFile> {
  const ready: RowMessage[] = [];
  try {
    // An answer has about a megabyte.
    for (let bytes = 0; bytes < 1 << 20 || ready.at(-1)?.kind === 'dictionary batch'; ) {
      const { done, value } = await all.next();
      if (done) return { messages: ready, leftOut: leftOut?.splice(0) ?? [], isEnd: true };
      ready.push(value);
      bytes += value.bytes.length;
    }
    return { messages: ready, leftOut: leftOut?.splice(0) ?? [], isEnd: false };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}

function answer(said: FromFile): void {
  const large = 'messages' in said ? said.messages.filter(({ bytes }) => bytes.length >= leastOwnBytes) : [];
  const memory = large.flatMap(({ bytes: { buffer } }) => (buffer instanceof ArrayBuffer ? [buffer] : []));
  parentPort?.postMessage(said, [...new Set(memory)]);
}

parentPort?.on('message', () => void next().then(answer));
