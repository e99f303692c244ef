/**
 * Tables describe protobuf messages. A table names the fields of one message that this package knows, with their numbers and kinds;
 * the functions here work with every table. `edit` and `editEach` keep all other fields byte for byte, so what a newer writer
 * added survives. A field that is absent decodes to `undefined`, also where its default would be 0.
 */

/** A field holds this, by its kind: `WireReader` and `WireWriter` have a method of that name. */
interface FieldValues {
  readonly number: number;
  readonly uint64: bigint;
  readonly flag: boolean;
  readonly text: string;
  readonly bytes: Uint8Array;
  readonly packed: readonly number[];
}

interface MessageField<Kind extends keyof FieldValues = keyof FieldValues, IsRepeated extends boolean = boolean> {
  readonly number: number;
  readonly kind: Kind;
  readonly isRepeated: IsRepeated;
}

type Fields = Readonly<Record<string, MessageField>>;

interface MessageTable<Known extends Fields> {
  readonly fields: Known;
  /** They stand in the order of the table. */
  readonly all: readonly NamedField[];
  /** Each stands at its number. */
  readonly known: readonly (NamedField | undefined)[];
}

interface NamedField {
  readonly name: string;
  readonly field: MessageField;
}

type ValueOf<Of> =
  Of extends MessageField<infer Kind, infer IsRepeated>
    ? IsRepeated extends true
      ? readonly FieldValues[Kind][]
      : FieldValues[Kind]
    : never;

/** It has the values of a message's fields by name. */
export type Decoded<Table> =
  Table extends MessageTable<infer Known>
    ? { readonly [Name in keyof Known]?: ValueOf<Known[Name]> | undefined }
    : never;

const single =
  <Kind extends keyof FieldValues>(kind: Kind) =>
  (number: number): MessageField<Kind, false> => ({ number, kind, isRepeated: false });

/** They are sizes, versions and identifiers that count up; JavaScript's numbers hold them exactly. */
export const uint = single('number');
export const uint64 = single('uint64');
export const flag = single('flag');
export const text = single('text');
/** A message that is decoded where it is needed, or passed on as it is, is one too. */
export const bytes = single('bytes');

export const repeated = <Kind extends keyof FieldValues>({
  number,
  kind,
}: MessageField<Kind, false>): MessageField<Kind, true> => ({
  number,
  kind,
  isRepeated: true,
});

/** Numbers that writers pack into one field, or into several. */
export const packed = (number: number): MessageField<'packed', true> => repeated(single('packed')(number));

export function messageTable<Known extends Fields>(fields: Known): MessageTable<Known> {
  const all = Object.entries(fields).map(([name, field]) => ({ name, field }));
  const known: NamedField[] = [];
  for (const each of all) known[each.field.number] = each;
  return { fields, all, known };
}

/** Throws `MalformedFile`. `only`: the other fields are skipped. */
export function decode<Known extends Fields>(
  { known }: MessageTable<Known>,
  encoded: Uint8Array,
  only?: readonly (keyof Known)[],
): Decoded<MessageTable<Known>> {
  const decoded: Record<string, unknown> = {};
  const reader = new WireReader(encoded);
  for (let number = reader.next(); number !== undefined; number = reader.next()) {
    const found = known[number];
    if (found === undefined || only?.includes(found.name) === false) {
      reader.skip();
      continue;
    }
    const { kind, isRepeated } = found.field;
    const value = reader[kind]();
    const before = decoded[found.name];
    if (isRepeated && Array.isArray(before)) before.push(value);
    else decoded[found.name] = isRepeated ? [value] : value;
  }
  return decoded as Decoded<MessageTable<Known>>;
}

/** Gives all fields, also those that no table names, each as it stands in the message. */
export function fieldsIn(encoded: Uint8Array): readonly { readonly number: number; readonly raw: Uint8Array }[] {
  const fields: { number: number; raw: Uint8Array }[] = [];
  const reader = new WireReader(encoded);
  for (let number = reader.next(); number !== undefined; number = reader.next())
    fields.push({ number, raw: reader.raw() });
  return fields;
}

/** Finds the first field whose number is not among these; undefined where there is none. */
export function fieldOtherThan(numbers: readonly number[], encoded: Uint8Array): number | undefined {
  const reader = new WireReader(encoded);
  for (let number = reader.next(); number !== undefined; number = reader.next()) {
    if (!numbers.includes(number)) return number;
    reader.skip();
  }
  return undefined;
}

/** The fields stand in the order of the table. One that is `undefined` is left out. */
export function encode<Known extends Fields>(table: MessageTable<Known>, values: Decoded<MessageTable<Known>>): Buffer {
  const writer = new WireWriter();
  for (const { name, field } of table.all) write(writer, field, valueIn(values, name));
  return writer.finish();
}

/** Puts other values into the fields that `changes` names; one that is `undefined` there is removed. */
export function edit<Known extends Fields>(
  { fields, known }: MessageTable<Known>,
  encoded: Uint8Array,
  changes: Decoded<MessageTable<Known>>,
): Buffer {
  const writer = new WireWriter();
  const reader = new WireReader(encoded);
  const left = new Set(Object.keys(changes));
  for (let number = reader.next(); number !== undefined; number = reader.next()) {
    const found = known[number];
    if (found === undefined || !Object.hasOwn(changes, found.name)) {
      writer.raw(reader.raw());
      continue;
    }
    reader.skip();
    if (left.delete(found.name)) write(writer, found.field, valueIn(changes, found.name));
  }
  for (const name of left) {
    const field = fields[name];
    if (field !== undefined) write(writer, field, valueIn(changes, name));
  }
  return writer.finish();
}

type Edits<Known extends Fields> = {
  readonly [Name in keyof Known as Known[Name]['kind'] extends 'bytes' ? Name : never]?: (
    message: Uint8Array,
  ) => Uint8Array;
};

/** Edits each message that the fields named in `edits` hold. */
export function editEach<Known extends Fields>(
  { known }: MessageTable<Known>,
  encoded: Uint8Array,
  edits: Edits<Known>,
): Buffer {
  const writer = new WireWriter();
  const reader = new WireReader(encoded);
  for (let number = reader.next(); number !== undefined; number = reader.next()) {
    const editOne = edits[known[number]?.name as keyof Edits<Known>];
    if (editOne === undefined) writer.raw(reader.raw());
    else writer.bytes(number, editOne(reader.bytes()));
  }
  return writer.finish();
}

function write(writer: WireWriter, { number, kind, isRepeated }: MessageField, value: unknown): void {
  if (value === undefined) return;
  if (isRepeated && Array.isArray(value)) for (const each of value) writer[kind](number, each as never);
  else writer[kind](number, value as never);
}

const valueIn = <Values extends object>(values: Values, name: string): unknown => values[name as keyof Values];

/** The bytes are not what they should be; `message` says how, for the log. */
export class MalformedFile extends Error {
  override readonly name = 'MalformedFile';
}

const wireType = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;
const maxVarintBytes = 10;

/**
 * Walks the fields of one protobuf message (https://protobuf.dev/programming-guides/encoding/). It checks every length against
 * the bytes there are, since a power cut may have torn the file. Groups, which are deprecated, count as malformed. Each field's
 * value is to be read or skipped before `next`.
 */
export class WireReader {
  readonly #bytes: Uint8Array;
  #at = 0;
  #fieldAt = 0;
  #type = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Goes to the next field, and answers its number; undefined at the end of the message. */
  next(): number | undefined {
    if (this.#at === this.#bytes.length) return undefined;
    this.#fieldAt = this.#at;
    const tag = this.#varint();
    const field = Math.floor(tag / 8);
    if (field === 0) throw new MalformedFile('a field without a number');
    this.#type = tag % 8;
    return field;
  }

  /** Reads sizes, versions, identifiers that count up: what JavaScript's numbers hold exactly. */
  number(): number {
    this.#expect(wireType.varint);
    const value = this.#varint();
    if (!Number.isSafeInteger(value)) throw new MalformedFile('a number out of range');
    return value;
  }

  /** Reads a part of a repeated number: many in one field, as writers pack them, or one. */
  packed(): readonly number[] {
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

  /** Reads the whole field with its number, as `WireWriter.raw` writes it again. */
  raw(): Uint8Array {
    this.skip();
    return this.#bytes.subarray(this.#fieldAt, this.#at);
  }

  skip(): void {
    if (this.#type === wireType.varint) this.#varint();
    else if (this.#type === wireType.bytes) this.#pass(this.#varint());
    else if (this.#type === wireType.fixed64) this.#pass(8);
    else if (this.#type === wireType.fixed32) this.#pass(4);
    else throw new MalformedFile(`wire type ${this.#type}`);
  }

  #expect(type: number): void {
    if (this.#type !== type) throw new MalformedFile(`wire type ${this.#type} in place of ${type}`);
  }

  #take(length: number): Uint8Array {
    this.#pass(length);
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  #pass(length: number): void {
    if (length > this.#bytes.length - this.#at) throw new MalformedFile('a field is longer than its message');
    this.#at += length;
  }

  /** Reads a varint, exact up to 2 ** 53. */
  #varint(): number {
    let value = 0;
    for (let index = 0; index < maxVarintBytes; index += 1) {
      const byte = this.#byteAt(this.#at);
      this.#at += 1;
      value += (byte % 128) * 2 ** (7 * index);
      // It is an integer to V8 too: a `Map` finds a number that it keeps as a float four times as slowly.
      if (byte < 128) return index < 4 ? value | 0 : value;
    }
    throw new MalformedFile('a number that does not end');
  }

  #byteAt(at: number): number {
    const byte = this.#bytes[at];
    if (byte === undefined) throw new MalformedFile('a number ends early');
    return byte;
  }
}

/**
 * Builds one protobuf message of fields in the order of the calls; `WireReader` reads it back. A value that is its field's
 * default is written like all others.
 *
 * One buffer takes all fields and doubles when it is full. A message within the message is copied once more.
 */
export class WireWriter {
  #buffer = Buffer.allocUnsafe(64);
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

  /** Writes all parts of a repeated number in one field. */
  packed(field: number, values: Iterable<number>): this {
    const packed = new WireWriter();
    for (const value of values) packed.#varint(value);
    return this.message(field, packed);
  }

  /** Writes fields that are encoded already, numbers and all. */
  raw(fields: Uint8Array): this {
    this.#reserve(fields.length);
    this.#buffer.set(fields, this.#length);
    this.#length += fields.length;
    return this;
  }

  /** Gives the message so far. Fields that follow do not change it. */
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

  /** Writes a byte into what is reserved. */
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
