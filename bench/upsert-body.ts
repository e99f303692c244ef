/** Bodies whose keys are overwritten in place: encoding 100 rows anew costs more than serving them. */
import type { Table } from 'apache-arrow';
import { type Body, bodyOf, range, vectorTable } from './workloads.ts';

const firstMark = 0x1122_3344_5566;

/** The bytes of a body, and where its int64 keys lie. */
class PatchableKeys {
  readonly bytes: Buffer;
  readonly #keysAt: number;
  readonly #high: number;

  constructor(bytes: Uint8Array, firstKey: number) {
    this.bytes = Buffer.from(bytes);
    const mark = Buffer.alloc(8);
    mark.writeBigInt64LE(BigInt(firstKey));
    this.#keysAt = this.bytes.indexOf(mark);
    this.#high = 2 ** 32;
    if (this.#keysAt < 0) throw new Error('the keys are not where they were written');
  }

  set(keys: readonly number[]): void {
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as number;
      this.bytes.writeUInt32LE(key % this.#high, this.#keysAt + 8 * i);
      this.bytes.writeUInt32LE(Math.floor(key / this.#high), this.#keysAt + 8 * i + 4);
    }
  }
}

const marked = (rows: number, floatsPerRow: number): Table =>
  vectorTable({ keys: range(firstMark, rows), floatsPerRow });

/** One client's upsert in both framings; keys are set before each request. */
export class UpsertBody {
  readonly #request: PatchableKeys;
  readonly #file: PatchableKeys;

  constructor(rows: number, floatsPerRow: number, headOf: (bodyBytes: number) => string) {
    const { stream, file }: Body = bodyOf(marked(rows, floatsPerRow));
    this.#request = new PatchableKeys(Buffer.concat([Buffer.from(headOf(stream.length)), stream]), firstMark);
    this.#file = new PatchableKeys(file, firstMark);
  }

  /** The whole HTTP request. */
  requestWith(keys: readonly number[]): Buffer {
    this.#request.set(keys);
    return this.#request.bytes;
  }

  /** The IPC file for the bare engine. */
  fileWith(keys: readonly number[]): Buffer {
    this.#file.set(keys);
    return this.#file.bytes;
  }
}
