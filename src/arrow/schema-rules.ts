/** Which schemas may become tables, and which sources fit a table. All refusals are `TableSchemaValidationError`. */
import { isDeepStrictEqual } from 'node:util';
import { LancegateError } from '../kernel/errors.ts';
import { formatFieldPath } from './field-path.ts';
import type { Field, Schema } from './schema.ts';
import { typeName } from './type-name.ts';

export { typeName };

/** Columns that this service may add to what it hands the engine. */
export const reservedPrefix = '__lancegate_';

const refuse = (why: string) => new LancegateError('TableSchemaValidationError', why);
const show = (path: readonly string[]): string => formatFieldPath({ segments: path });

/** The engine accepts a column with an empty name at create, and then fails every read of the table. */
function checkSiblings(fields: readonly Field[], parent: readonly string[]): void {
  const seen = new Set<string>();
  for (const { name, children } of fields) {
    const path = [...parent, name];
    if (name === '')
      throw refuse(`${parent.length === 0 ? 'a column' : `a field of ${show(parent)}`} has an empty name`);
    if (seen.has(name)) throw refuse(`column ${show(path)} appears twice`);
    seen.add(name);
    checkSiblings(children, path);
  }
}

/** The names of a client's schema: none empty, no two siblings alike, none reserved; at least one column. */
export function checkNames(schema: Schema): void {
  if (schema.fields.length === 0) throw refuse('the schema has no columns');
  const reserved = schema.fields.find(({ name }) => name.startsWith(reservedPrefix));
  if (reserved !== undefined)
    throw refuse(`column ${reserved.name}: names beginning with ${reservedPrefix} are reserved`);
  checkSiblings(schema.fields, []);
}

/** Equal values: nullability, metadata and dictionary ids aside. */
export function sameType(a: Field, b: Field): boolean {
  return (
    isDeepStrictEqual(a.type, b.type) &&
    sameIndex(a, b) &&
    a.children.length === b.children.length &&
    a.children.every((child, i) => {
      const other = b.children[i]!;
      return (a.type.kind !== 'struct' || child.name === other.name) && sameType(child, other);
    })
  );
}

function sameIndex(a: Field, b: Field): boolean {
  const [left, right] = [a.dictionary?.index, b.dictionary?.index];
  return left?.bitWidth === right?.bitWidth && left?.signed === right?.signed;
}
