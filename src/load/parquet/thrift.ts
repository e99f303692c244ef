/**
 * Thrift's compact protocol, of which Parquet makes its footer and the headers of its pages: structs whose values stay the bytes that
 * they are, so that what this program does not know is written as it was read. Whatever a file has made of them ends in an error.
 */
import { invalidInput } from '../../kernel/errors.ts';

/** The numbers of the types that this writes. */
const written = { int32: 5, int64: 6, binary: 8, list: 9, struct: 12 } as const;

interface ThriftValue {
  readonly type: number;
  readonly bytes: Buffer;
}

export class Thrift {
  readonly #values: ReadonlyMap<number, ThriftValue>;

  private constructor(values: ReadonlyMap<number, ThriftValue>) {
    this.#values = values;
  }

  static readonly empty = new Thrift(new Map());

  /** Reads the struct that `bytes` begin with, and says its length. */
  static read(bytes: Buffer): { readonly struct: Thrift; readonly length: number } {
    const walk = new Walk(bytes);
    const values = new Map<number, ThriftValue>();
    for (const [id, type] of walk.fields()) {
      const from = walk.at;
      walk.skip(type, 0);
      values.set(id, { type, bytes: bytes.subarray(from, walk.at) });
    }
    return { struct: new Thrift(values), length: walk.at };
  }

  number(id: number): number | undefined {
    const value = this.#values.get(id);
    return value === undefined ? undefined : new Walk(value.bytes).integer();
  }

  bytes(id: number): Buffer | undefined {
    const value = this.#values.get(id);
    return value === undefined ? undefined : new Walk(value.bytes).binary();
  }

  struct(id: number): Thrift | undefined {
    const value = this.#values.get(id);
    return value === undefined ? undefined : Thrift.read(value.bytes).struct;
  }

  structs(id: number): readonly Thrift[] {
    const value = this.#values.get(id);
    if (value === undefined) return [];
    const walk = new Walk(value.bytes);
    const { type, length } = walk.listHead();
    if (length > 0 && type !== written.struct) throw invalidInput('a list that is not of structs');
    return Array.from({ length }, () => {
      const { struct, length: taken } = Thrift.read(value.bytes.subarray(walk.at));
      walk.at += taken;
      return struct;
    });
  }

  only(...ids: readonly number[]): Thrift {
    return new Thrift(new Map([...this.#values].filter(([id]) => ids.includes(id))));
  }

  with(other: Thrift): Thrift {
    return new Thrift(new Map([...this.#values, ...other.#values]));
  }

  withInt32(id: number, value: number): Thrift {
    return this.#with(id, written.int32, varint(zigzag(value)));
  }

  withInt64(id: number, value: number): Thrift {
    return this.#with(id, written.int64, varint(zigzag(value)));
  }

  withBytes(id: number, value: Uint8Array): Thrift {
    return this.#with(id, written.binary, Buffer.concat([varint(BigInt(value.length)), value]));
  }

  withStruct(id: number, value: Thrift): Thrift {
    return this.#with(id, written.struct, value.written());
  }

  withStructs(id: number, values: readonly Thrift[]): Thrift {
    const head = Buffer.concat([Buffer.of(0xf0 | written.struct), varint(BigInt(values.length))]);
    return this.#with(id, written.list, Buffer.concat([head, ...values.map((value) => value.written())]));
  }

  written(): Buffer {
    const sorted = [...this.#values].toSorted(([one], [other]) => one - other);
    const fields = sorted.flatMap(([id, { type, bytes }]) => [Buffer.of(type), varint(zigzag(id)), bytes]);
    return Buffer.concat([...fields, Buffer.of(0)]);
  }

  #with(id: number, type: number, bytes: Buffer): Thrift {
    return new Thrift(new Map([...this.#values, [id, { type, bytes }]]));
  }
}

const zigzag = (value: number): bigint => BigInt(value) * 2n;

/** `value` is not negative. */
function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}

class Walk {
  readonly #bytes: Buffer;
  at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Goes up to the end of the struct. What is yielded is to be skipped before the next. */
  *fields(): Generator<readonly [id: number, type: number]> {
    for (let id = 0; ; ) {
      const head = this.#byte();
      const type = head & 0x0f;
      if (type === 0) return;
      id = head < 0x10 ? this.integer() : id + (head >> 4);
      yield [id, type];
    }
  }

  /** The types stand here by their numbers. That of a boolean, where it is no element of a list, is its value. */
  skip(type: number, depth: number): void {
    if (depth > 32) throw invalidInput('it is nested too deep');
    switch (type) {
      case 1:
      case 2: // booleans
        break;
      case 3: // int8
        this.#pass(1);
        break;
      case 4: // int16, and those of 32 and 64 bits
      case 5:
      case 6:
        this.#varint();
        break;
      case 7: // double
        this.#pass(8);
        break;
      case written.binary:
        this.binary();
        break;
      case written.list:
      case 10: // set
        this.#skipList(depth);
        break;
      case written.struct:
        for (const [, each] of this.fields()) this.skip(each, depth + 1);
        break;
      case 13: // uuid
        this.#pass(16);
        break;
      default:
        throw invalidInput(`a value of the unknown type ${type}`);
    }
  }

  integer(): number {
    const value = this.#varint();
    return Number((value >> 1n) ^ -(value & 1n));
  }

  binary(): Buffer {
    const length = Number(this.#varint());
    this.#pass(length);
    return this.#bytes.subarray(this.at - length, this.at);
  }

  listHead(): { readonly type: number; readonly length: number } {
    const head = this.#byte();
    const length = head >> 4 === 0xf ? Number(this.#varint()) : head >> 4;
    if (length > this.#bytes.length - this.at) throw invalidInput('a list that is longer than its bytes');
    return { type: head & 0x0f, length };
  }

  #skipList(depth: number): void {
    const { type, length } = this.listHead();
    for (let i = 0; i < length; i += 1) {
      if (type === 1 || type === 2) this.#pass(1);
      else this.skip(type, depth + 1);
    }
  }

  #varint(): bigint {
    let value = 0n;
    for (let i = 0; i < 10; i += 1) {
      const byte = this.#byte();
      value |= BigInt(byte & 0x7f) << BigInt(7 * i);
      if (byte < 0x80) return value;
    }
    throw invalidInput('a number that does not end');
  }

  #byte(): number {
    const byte = this.#bytes[this.at];
    if (byte === undefined) throw new EndsEarly();
    this.at += 1;
    return byte;
  }

  #pass(count: number): void {
    if (count > this.#bytes.length - this.at) throw new EndsEarly();
    this.at += count;
  }
}

/** More bytes may hold the rest. */
export class EndsEarly extends Error {
  constructor() {
    super('it ends too early');
  }
}
