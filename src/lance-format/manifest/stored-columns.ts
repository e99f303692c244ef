/**
 * The columns of a version that another program has written have bounds: native code that reads its manifest goes down into each
 * column by recursion, makes room for as many values as a list of fixed size has, and ends the whole process where that fails. They are
 * the bounds of a create (`arrow/schema/read-schema.ts`), which sees the same columns as Arrow's.
 */
import { field, manifest } from '../messages.ts';
import { decode, MalformedFile, WireReader } from '../protobuf.ts';
import { sectionsOf } from './parse-manifest.ts';

/** `message` says which bound, in words for a client. */
export class UnboundedColumns extends Error {
  override readonly name = 'UnboundedColumns';
}

const mostDepth = 32;
const mostFields = 10_000;
/** The engine gives new columns the ids after the largest, of 31 bits. */
export const mostFieldId = 2 ** 30;
/** One row of lists of fixed size in one another may have so many. */
const mostValues = 2 ** 31;
const known = ['name', 'id', 'parentId', 'logicalType'] as const;
const noParent = 2n ** 64n - 1n;
/** Lance 13 writes it, and the engine panics on it: the parts of a type are separated by colons. */
const fixedOffset = /timestamp:\w+:[+-]\d\d:\d\d(?::|$)/;

/** Throws `UnboundedColumns`, and `MalformedFile`. */
export function requireBoundedColumns(file: Buffer): void {
  const depths = new Map<bigint, number>();
  let fields = 0;
  for (const encoded of columnsOf(sectionsOf(file).message)) {
    const { name = '', id = 0, parentId = 0n, logicalType = '' } = decode(field, encoded, known);
    const above = parentId === noParent ? 0 : depths.get(parentId);
    if (above === undefined) throw new MalformedFile(`column ${id} comes before the one that holds it`);
    if (depths.has(BigInt(id))) throw new MalformedFile(`two columns have the id ${id}`);
    if (id > mostFieldId) throw new UnboundedColumns(`${show(name)} has an id above ${mostFieldId}`);
    if (fixedOffset.test(logicalType)) throw new UnboundedColumns(`${show(name)} has a time zone with a colon`);
    const within = nestedIn(name, logicalType);
    fields += 1 + within;
    if (fields > mostFields) throw new UnboundedColumns(`the schema has more than ${mostFields} fields`);
    if (above + 1 + within > mostDepth)
      throw new UnboundedColumns(`${show(name)} is nested more than ${mostDepth} deep`);
    depths.set(BigInt(id), above + 1);
  }
}

function* columnsOf(message: Uint8Array): Generator<Uint8Array> {
  const reader = new WireReader(message);
  for (let number = reader.next(); number !== undefined; number = reader.next()) {
    if (number === manifest.fields.fields.number) yield reader.bytes();
    else reader.skip();
  }
}

/**
 * The elements of a list of fixed size are no field of their own, but part of its type, such as `fixed_size_list:float:3`, of which the
 * last numbers are the sizes.
 */
function nestedIn(name: string, type: string): number {
  if (type.length > 1_024) throw new UnboundedColumns(`${show(name)} has a type that is too long`);
  const parts = type.split(':');
  const lists = parts.filter((part) => part === 'fixed_size_list').length;
  const ofFixedSize = lists + parts.filter((part) => part === 'fixed_size_binary').length;
  if (ofFixedSize === 0) return 0;
  const values = parts.slice(-ofFixedSize).reduce((product, size) => product * Number(size), 1);
  if (values >= 1 && values <= mostValues) return lists;
  throw new UnboundedColumns(`${show(name)} has a fixed size that is not between 1 and ${mostValues}`);
}

const show = (name: string): string => `column ${JSON.stringify(name.slice(0, 100))}`;
