/** Writes a schema that is made here as the first message of an Arrow IPC stream, or as a file without rows. */
import {
  Field as ArrowField,
  type DataType as ArrowType,
  Binary,
  Bool,
  DateDay,
  DateMillisecond,
  Decimal,
  Dictionary,
  Duration,
  FixedSizeBinary,
  FixedSizeList,
  Float,
  Int,
  LargeBinary,
  LargeUtf8,
  List,
  Precision,
  RecordBatchStreamWriter,
  Schema,
  Struct,
  Time,
  Timestamp,
  TimeUnit,
  Utf8,
} from 'apache-arrow';
import { endMarker, fileTail, type IpcFile, ownFile } from '../format/ipc-file.ts';
import { magic, prefixBytes } from '../format/message.ts';
import { refuseColumn } from './field-path.ts';
import { elementOf, type Field, typeName } from './schema.ts';

const units = { s: TimeUnit.SECOND, ms: TimeUnit.MILLISECOND, us: TimeUnit.MICROSECOND, ns: TimeUnit.NANOSECOND };
const precisions = { 16: Precision.HALF, 32: Precision.SINGLE, 64: Precision.DOUBLE };

/** Refuses a column of a type that can be sent as Arrow only. */
export function schemaBytes(fields: readonly Field[]): Buffer {
  const writer = new RecordBatchStreamWriter();
  writer.reset(undefined, new Schema(fields.map((field) => arrowField(field, [field.name]))));
  const bytes = Buffer.from(writer.finish().toUint8Array(true));
  return bytes.subarray(0, bytes.length - endMarker.length);
}

/** Makes a file without rows of these fields, as `schemaBytes` makes a stream. */
export function emptyFile(fields: readonly Field[]): IpcFile {
  const schema = schemaBytes(fields);
  const tail = fileTail(schema.subarray(prefixBytes), { dictionaries: [], batches: [] });
  return ownFile(Buffer.concat([magic, schema, tail]));
}

export function comesAsText(field: Field): boolean {
  try {
    return arrowField(field, [field.name]) !== undefined;
  } catch {
    return false; // translated: it comes as Arrow only
  }
}

function arrowField(field: Field, path: readonly string[]): ArrowField {
  const type = arrowType(field, path);
  const { dictionary } = field;
  if (dictionary === undefined) return new ArrowField(field.name, type, field.nullable);
  const index = new Int(dictionary.index.signed, dictionary.index.bitWidth);
  // The library's types of indexes are those of its enumeration, which has this one.
  const encoded = new Dictionary(type, index as never, Number(dictionary.id), dictionary.ordered);
  return new ArrowField(field.name, encoded, field.nullable);
}

function arrowType(field: Field, path: readonly string[]): ArrowType {
  const { type } = field;
  const inner = (child: Field) => arrowField(child, [...path, child.name]);
  switch (type.kind) {
    case 'bool':
      return new Bool();
    case 'int':
      return new Int(type.signed, type.bitWidth);
    case 'float':
      return new Float(precisions[type.bitWidth]);
    case 'utf8':
      return new Utf8();
    case 'large_utf8':
      return new LargeUtf8();
    case 'binary':
      return new Binary();
    case 'large_binary':
      return new LargeBinary();
    case 'fixed_size_binary':
      return new FixedSizeBinary(type.byteWidth);
    case 'decimal':
      if (type.bitWidth < 128) break;
      return new Decimal(type.scale, type.precision, type.bitWidth);
    case 'date':
      return type.unit === 'day' ? new DateDay() : new DateMillisecond();
    case 'time':
      return new Time(units[type.unit], type.unit === 's' || type.unit === 'ms' ? 32 : 64);
    case 'timestamp':
      return new Timestamp(units[type.unit], type.timezone ?? null);
    case 'duration':
      return new Duration(units[type.unit]);
    case 'list':
      return new List(inner(elementOf(field)));
    case 'fixed_size_list':
      return new FixedSizeList(type.listSize, inner(elementOf(field)));
    case 'struct':
      return new Struct(field.children.map(inner));
    case 'null':
    case 'large_list':
    case 'map':
    case 'interval':
      break;
  }
  throw refuseColumn(path, `is ${typeName(field)}, which can be sent as Arrow only`);
}
