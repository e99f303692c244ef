import { formatFieldPath } from '../arrow/schema/field-path.ts';
import type { Field, Schema } from '../arrow/schema/schema.ts';
import { LancegateError } from '../kernel/errors.ts';

/**
 * A source that leaves out columns must agree with the table about which fields inside its structs and lists may be NULL.
 * Where it does not, the engine (Lance 12) merges in another way, which loses rows whose key is NULL without a word,
 * refuses to delete and misreads filters. It does not mind in a source of all columns, nor at the top level.
 * `TableSchemaValidationError` names the field. To be called with a source whose types fit the table.
 */
export function checkPartialSource(source: Schema, table: Schema): void {
  if (source.fields.length === table.fields.length) return;
  for (const field of source.fields) {
    const target = table.fields.find(({ name }) => name === field.name);
    const path = target && disagreement(field, target, [field.name]);
    if (path !== undefined) throw disagrees(path);
  }
}

function disagreement(a: Field, b: Field, parent: readonly string[]): readonly string[] | undefined {
  for (const [i, child] of a.children.entries()) {
    const other = b.children[i];
    if (other === undefined) continue;
    const path = [...parent, child.name];
    if (child.nullable !== other.nullable) return path;
    const deeper = disagreement(child, other, path);
    if (deeper !== undefined) return deeper;
  }
  return undefined;
}

const disagrees = (segments: readonly string[]): LancegateError =>
  new LancegateError(
    'TableSchemaValidationError',
    `column ${formatFieldPath({ segments })} is nullable in the table or in the source, and not in the other: declare it as the table does, or send all columns`,
  );
