/** Bytes that are not what they should be; `message` says how, for the log. */
export class MalformedFile extends Error {
  override readonly name = 'MalformedFile';
}

const wireType = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;
const maxVarintBytes = 10;

/**
 * Walks the fields of one protobuf message (https://protobuf.dev/programming-guides/encoding/), every length checked
 * against the bytes there are: it reads files that a power cut may have torn. Groups, which nobody writes any more, count
 * as malformed. Read or skip each field's value before asking for the next.
 */
export class WireReader {
  readonly #bytes: Uint8Array;
  #at = 0;
  #fieldAt = 0;
  #type = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** The number of the next field; undefined at the end of the message. */
  next(): number | undefined {
    if (this.#at === this.#bytes.length) return undefined;
    this.#fieldAt = this.#at;
    const tag = this.#varint();
    const field = Math.floor(tag / 8);
    if (field === 0) throw new MalformedFile('a field without a number');
    this.#type = tag % 8;
    return field;
  }

  /** Sizes, versions, identifiers that count up: what JavaScript's numbers hold exactly. */
  number(): number {
    this.#expect(wireType.varint);
    const value = this.#varint();
    if (!Number.isSafeInteger(value)) throw new MalformedFile('a number out of range');
    return value;
  }

  /** A part of a repeated number: many in one field, as writers pack them, or one. */
  numbers(): readonly number[] {
    if (this.#type !== wireType.bytes) return [this.number()];
    const packed = new WireReader(this.bytes());
    const numbers: number[] = [];
    while (packed.#at < packed.#bytes.length) numbers.push(packed.#varint());
    return numbers;
  }

  uint64(): bigint {
    this.#expect(wireType.varint);
    const start = this.#at;
    this.#varint();
    let value = 0n;
    for (let at = this.#at - 1; at >= start; at -= 1) value = value * 128n + BigInt(this.#byteAt(at) % 128);
    return BigInt.asUintN(64, value);
  }

  flag(): boolean {
    return this.number() !== 0;
  }

  bytes(): Uint8Array {
    this.#expect(wireType.bytes);
    return this.#take(this.#varint());
  }

  text(): string {
    return Buffer.from(this.bytes()).toString();
  }

  message(): WireReader {
    return new WireReader(this.bytes());
  }

  /** The whole field with its number, as it stands in the message: for whoever writes it again. */
  raw(): Uint8Array {
    this.skip();
    return this.#bytes.subarray(this.#fieldAt, this.#at);
  }

  skip(): void {
    if (this.#type === wireType.varint) this.#varint();
    else if (this.#type === wireType.bytes) this.bytes();
    else if (this.#type === wireType.fixed64) this.#take(8);
    else if (this.#type === wireType.fixed32) this.#take(4);
    else throw new MalformedFile(`wire type ${this.#type}`);
  }

  #expect(type: number): void {
    if (this.#type !== type) throw new MalformedFile(`wire type ${this.#type} in place of ${type}`);
  }

  #take(length: number): Uint8Array {
    if (length > this.#bytes.length - this.#at) throw new MalformedFile('a field is longer than its message');
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** Exact up to 2 ** 53. */
  #varint(): number {
    let value = 0;
    for (let index = 0; index < maxVarintBytes; index += 1) {
      const byte = this.#byteAt(this.#at);
      this.#at += 1;
      value += (byte % 128) * 2 ** (7 * index);
      if (byte < 128) return value;
    }
    throw new MalformedFile('a number that does not end');
  }

  #byteAt(at: number): number {
    const byte = this.#bytes[at];
    if (byte === undefined) throw new MalformedFile('a number ends early');
    return byte;
  }
}
