/**
 * Protobuf messages by tables. A table names the fields of one message that this package knows, with their numbers and types;
 * the functions here work with every table. `edit` keeps all other fields byte for byte, so what a newer writer added
 * survives. A field that is absent decodes to `undefined`, also where its default would be 0.
 */
import { WireReader } from './wire-reader.ts';
import { WireWriter } from './wire-writer.ts';

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
