import { isKnownZone } from '../../arrow/schema/time-zones.ts';
import { invalidInput } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import { mostColumns } from './change-columns.ts';

const mostListSize = 2 ** 20;

interface LanceDataType {
  readonly type: string;
  readonly length?: number;
  readonly fields?: readonly LanceField[];
}

interface LanceField {
  readonly name: string;
  readonly type: LanceDataType;
  readonly nullable: boolean;
}

/** The specification's reference server takes these names, and Lance has the others. */
const lanceNames: ReadonlyMap<string, string> = new Map([
  ['boolean', 'bool'],
  ['utf8', 'string'],
  ['large_utf8', 'large_string'],
  ['float16', 'halffloat'],
  ['float32', 'float'],
  ['float64', 'double'],
  ['date32', 'date32:day'],
  ['date64', 'date64:ms'],
]);

const plainType =
  /^(?:bool|u?int(?:8|16|32|64)|halffloat|float|double|(?:large_)?(?:string|binary)|date32:day|date64:ms|time32:m?s|time64:[un]s|duration:(?:[mun]?s)|decimal:(?:128|256):\d{1,2}:-?\d{1,2}|dict:(?:large_)?(?:string|binary):u?int(?:8|16|32|64):false)$/;
const timestampType = /^timestamp:[mun]?s:(.+)$/;

/** Reads a type in Lance's dialect, which the engine reads too. Of every type it is known what native code is given. */
export function readDataType(value: unknown, at: string, depth = 1): LanceDataType {
  // Deeper types are no columns that can be cast.
  if (!isObject(value) || depth > 8) throw invalidInput(`${at} is no data type`);
  const { type: given, length, fields } = value;
  if (typeof given !== 'string') throw invalidInput(`${at} lacks type`);
  const type = lanceNames.get(given) ?? given;
  if (plainType.test(type) || isTimestamp(type)) return { type };
  switch (type) {
    case 'fixed_size_binary':
      return { type, length: readLength(length, at) };
    case 'fixed_size_list':
      return { type, length: readLength(length, at), fields: readFields(fields, at, depth) };
    case 'list':
    case 'large_list':
    case 'struct':
      return { type, fields: readFields(fields, at, depth) };
    default:
      throw invalidInput(`${at}: a column cannot be made of type ${JSON.stringify(given.slice(0, 100))}`);
  }
}

function isTimestamp(type: string): boolean {
  const zone = timestampType.exec(type)?.[1];
  return zone === '-' || (zone !== undefined && isKnownZone(zone));
}

function readLength(length: unknown, at: string): number {
  if (typeof length === 'number' && Number.isInteger(length) && length > 0 && length <= mostListSize) return length;
  throw invalidInput(`${at}: length must be a number from 1 to ${mostListSize}`);
}

function readFields(fields: unknown, at: string, depth: number): readonly LanceField[] {
  if (!Array.isArray(fields) || fields.length === 0 || fields.length > mostColumns) {
    throw invalidInput(`${at}: the type has fields, which are not given`);
  }
  return fields.map((field: unknown, index) => {
    const { name, type, nullable } = isObject(field) ? field : {};
    const within = `${at}.fields[${index}]`;
    if (typeof name !== 'string' || name.includes('\0')) throw invalidInput(`${within} lacks a name`);
    return { name, type: readDataType(type, `${within}.type`, depth + 1), nullable: nullable !== false };
  });
}
