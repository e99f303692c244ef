/**
 * Cuts the rows of a file into parts, each of which one request loads. How it is cut, and with it every byte of every part, follows from
 * the file and the table's columns alone: a second run makes the same parts, and with the same keys the service takes none of them twice.
 */
import { createHash } from 'node:crypto';
import { endMarker } from '../arrow/format/ipc-file.ts';
import { freeMemory } from './free-memory.ts';
import type { RowMessage } from './row-messages.ts';

export interface RowsPart {
  /** The part is an Arrow IPC stream, in memory that is the reader's own. */
  readonly body: Buffer<ArrayBuffer>;
  readonly rows: number;
  /** How many rows of the file are before the part. */
  readonly rowsBefore: number;
  /** The share of the last message. */
  readonly readShare: number | undefined;
}

/** A part is so large that a commit is a small share of the work, and so small that a process holds three. */
const partBytes = 4 << 20;

export async function* partsOf(messages: AsyncIterable<RowMessage>, mostBytes = partBytes): AsyncGenerator<RowsPart> {
  let schema = Buffer.alloc(0);
  let body = new JoinedBytes(mostBytes);
  let [bytes, rows, rowsBefore] = [0, 0, 0];
  let readShare: number | undefined;
  const part = (): RowsPart => ({ body: body.with(endMarker), rows, rowsBefore, readShare });
  for await (const message of messages) {
    body.add(message.bytes);
    if (message.kind === 'schema') {
      schema = Buffer.from(message.bytes);
      continue;
    }
    bytes += message.bytes.length;
    rows += message.rows;
    readShare = message.readShare;
    if (bytes < mostBytes || message.kind !== 'record batch') continue;
    yield part();
    rowsBefore += rows;
    [bytes, rows] = [0, 0];
    body = new JoinedBytes(mostBytes);
    body.add(schema);
  }
  if (rows > 0) yield part();
}

class JoinedBytes {
  #bytes: Buffer<ArrayBuffer>;
  #length = 0;

  constructor(expectedBytes: number) {
    this.#bytes = Buffer.allocUnsafeSlow(2 * expectedBytes); // what is not written takes no memory
  }

  add(added: Uint8Array): void {
    const length = this.#length + added.length;
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(length + length / 4);
      this.#bytes.copy(larger, 0, 0, this.#length);
      freeMemory(this.#bytes);
      this.#bytes = larger;
    }
    this.#bytes.set(added, this.#length);
    this.#length = length;
  }

  with(last: Uint8Array): Buffer<ArrayBuffer> {
    this.add(last);
    return this.#bytes.subarray(0, this.#length);
  }
}

/**
 * The key of a part stands for it and for all before it, so that a file with two equal parts has both
 * of them loaded.
 */
export class PartKeys {
  #digest: string;

  /** `what` is the table, and how it is loaded. */
  constructor(what: readonly (string | undefined)[]) {
    this.#digest = digestOf(JSON.stringify(what));
  }

  next({ body }: Pick<RowsPart, 'body'>): string {
    this.#digest = digestOf(this.#digest + digestOf(body));
    return `load-${this.#digest}`;
  }
}

const digestOf = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('base64url');
