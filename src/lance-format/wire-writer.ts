/** As in wire-reader.ts. */
const firstBytes = 64;

/**
 * Builds one protobuf message (https://protobuf.dev/programming-guides/encoding/) of fields in the order of the calls;
 * `WireReader` reads it back. What has its default value is written like all else: whoever calls leaves it out.
 *
 * All goes into one buffer that doubles when it is full, so a message costs as much as its bytes, however many fields
 * it has; a message within it is copied once more.
 */
export class WireWriter {
  #buffer = Buffer.allocUnsafe(firstBytes);
  #length = 0;

  /** Throws `RangeError` for what `WireReader.number` would not read. */
  number(field: number, value: number): this {
    this.#tag(field, wireType.varint);
    this.#varint(value);
    return this;
  }

  uint64(field: number, value: bigint): this {
    if (value >= 0n && value <= Number.MAX_SAFE_INTEGER) return this.number(field, Number(value));
    if (BigInt.asUintN(64, value) !== value) throw new RangeError(`${value} does not fit 64 bits`);
    this.#tag(field, wireType.varint);
    this.#reserve(maxVarintBytes);
    let rest = value;
    for (; rest > 127n; rest >>= 7n) this.#byte(Number(rest & 127n) | 128);
    this.#byte(Number(rest));
    return this;
  }

  flag(field: number, value: boolean): this {
    return this.number(field, value ? 1 : 0);
  }

  bytes(field: number, value: Uint8Array): this {
    this.#tag(field, wireType.bytes);
    this.#varint(value.length);
    return this.raw(value);
  }

  text(field: number, value: string): this {
    return this.bytes(field, Buffer.from(value));
  }

  message(field: number, value: WireWriter): this {
    return this.bytes(field, value.finish());
  }

  /** All parts of a repeated number, in one field. */
  packed(field: number, values: Iterable<number>): this {
    const packed = new WireWriter();
    for (const value of values) packed.#varint(value);
    return this.message(field, packed);
  }

  /** Any fields that are encoded already, numbers and all. */
  raw(fields: Uint8Array): this {
    this.#reserve(fields.length);
    this.#buffer.set(fields, this.#length);
    this.#length += fields.length;
    return this;
  }

  /** The message so far. Fields that follow do not change it. */
  finish(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  #tag(field: number, type: number): void {
    this.#varint(field * 8 + type);
  }

  #varint(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${value} is no size, version or identifier`);
    this.#reserve(maxVarintBytes);
    let rest = value;
    for (; rest > 127; rest = Math.floor(rest / 128)) this.#byte((rest % 128) + 128);
    this.#byte(rest);
  }

  /** Within what is reserved. */
  #byte(value: number): void {
    this.#buffer[this.#length] = value;
    this.#length += 1;
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2));
    larger.set(this.finish());
    this.#buffer = larger;
  }
}
