/**
 * Protobuf messages by tables. A table names the fields of one message that this package knows, with their numbers and types;
 * the functions here work with every table. `edit` keeps all other fields byte for byte, so what a newer writer added
 * survives. A field that is absent decodes to `undefined`, also where its default would be 0.
 */

/** How one value is read from a field and written to it. */
interface ValueType<Value> {
  read(reader: WireReader): Value;
  write(to: WireWriter, field: number, value: Value): void;
}

interface Single<Value> extends ValueType<Value> {
  readonly number: number;
  readonly isRepeated: false;
}

interface Repeated<Value> extends ValueType<Value> {
  readonly number: number;
  readonly isRepeated: true;
}

type Fields = Readonly<Record<string, Single<unknown> | Repeated<unknown>>>;

export interface MessageTable<Known extends Fields> {
  readonly fields: Known;
  /** By field number. */
  readonly names: readonly (keyof Known | undefined)[];
}

type ValueOf<Field> =
  Field extends Repeated<infer Value> ? readonly Value[] : Field extends Single<infer Value> ? Value : never;

/** The values of a message's fields by name. */
export type Decoded<Table> =
  Table extends MessageTable<infer Known>
    ? { readonly [Name in keyof Known]?: ValueOf<Known[Name]> | undefined }
    : never;

const single =
  <Value>(type: ValueType<Value>) =>
  (number: number): Single<Value> => ({ ...type, number, isRepeated: false });

/** Sizes, versions and identifiers that count up; JavaScript's numbers hold them exactly. */
export const uint = single<number>({
  read: (from) => from.number(),
  write: (to, field, value) => to.number(field, value),
});
export const uint64 = single<bigint>({
  read: (from) => from.uint64(),
  write: (to, field, value) => to.uint64(field, value),
});
export const flag = single<boolean>({
  read: (from) => from.flag(),
  write: (to, field, value) => to.flag(field, value),
});
export const text = single<string>({ read: (from) => from.text(), write: (to, field, value) => to.text(field, value) });
/** Also for a message that is decoded where it is needed, or passed on as it is. */
export const bytes = single<Uint8Array>({
  read: (from) => from.bytes(),
  write: (to, field, value) => to.bytes(field, value),
});
/** Numbers that writers pack into one field, or into several. */
export const packed = (number: number): Repeated<readonly number[]> =>
  repeated({ ...bytes(number), read: (from) => from.numbers(), write: (to, field, value) => to.packed(field, value) });

export const repeated = <Value>(field: Single<Value>): Repeated<Value> => ({ ...field, isRepeated: true });

export function messageTable<Known extends Fields>(fields: Known): MessageTable<Known> {
  const names: (keyof Known | undefined)[] = [];
  for (const name of Object.keys(fields)) names[fields[name]?.number ?? 0] = name;
  return { fields, names };
}

/** Throws `MalformedFile`. `only`: the other fields are skipped. */
export function decode<Known extends Fields>(
  { fields, names }: MessageTable<Known>,
  encoded: Uint8Array,
  only?: readonly (keyof Known)[],
): Decoded<MessageTable<Known>> {
  const decoded: { [Name in keyof Known]?: unknown } = {};
  const reader = new WireReader(encoded);
  for (let number = reader.next(); number !== undefined; number = reader.next()) {
    const name = names[number];
    const field = name === undefined || only?.includes(name) === false ? undefined : fields[name];
    if (name === undefined || field === undefined) reader.skip();
    else if (!field.isRepeated) decoded[name] = field.read(reader);
    else if (decoded[name] === undefined) decoded[name] = [field.read(reader)];
    else (decoded[name] as unknown[]).push(field.read(reader));
  }
  return decoded as Decoded<MessageTable<Known>>;
}

/** All fields, also those that no table names, each as it stands in the message. */
export function fieldsIn(encoded: Uint8Array): readonly { readonly number: number; readonly raw: Uint8Array }[] {
  const fields: { number: number; raw: Uint8Array }[] = [];
  const reader = new WireReader(encoded);
  for (let number = reader.next(); number !== undefined; number = reader.next())
    fields.push({ number, raw: reader.raw() });
  return fields;
}

/** In the order of the table. A field that is `undefined` is left out. */
export function encode<Known extends Fields>(table: MessageTable<Known>, values: Decoded<MessageTable<Known>>): Buffer {
  const writer = new WireWriter();
  for (const name of Object.keys(table.fields)) write(writer, table.fields[name], values[name as keyof typeof values]);
  return writer.finish();
}

/** The message with other values in the fields that `changes` names; one that is `undefined` there is removed. */
export function edit<Known extends Fields>(
  { fields, names }: MessageTable<Known>,
  encoded: Uint8Array,
  changes: Decoded<MessageTable<Known>>,
): Buffer {
  const writer = new WireWriter();
  const reader = new WireReader(encoded);
  const left = new Set(Object.keys(changes));
  for (let number = reader.next(); number !== undefined; number = reader.next()) {
    const name = names[number] as string | undefined;
    if (name === undefined || !Object.hasOwn(changes, name)) {
      writer.raw(reader.raw());
      continue;
    }
    reader.skip();
    if (left.delete(name)) write(writer, fields[name], changes[name as keyof typeof changes]);
  }
  for (const name of left) write(writer, fields[name], changes[name as keyof typeof changes]);
  return writer.finish();
}

function write(writer: WireWriter, field: Fields[string] | undefined, value: unknown): void {
  if (field === undefined || value === undefined) return;
  if (!field.isRepeated) field.write(writer, field.number, value);
  else for (const each of value as readonly unknown[]) field.write(writer, field.number, each);
}

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
