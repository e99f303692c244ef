import { parseFieldPath, sameFieldPath } from '../arrow/schema/field-path.ts';
import type { IndexSpec } from '../engine/port/index-spec.ts';
import type { Layout } from '../engine/port/upkeep.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';

/** Throws `TableIndexAlreadyExists`; `InvalidInput` where an index of another column has the name. */
export function requireFree(indexes: Layout['indexes'], { name, column }: IndexSpec, isReplacing: boolean): void {
  const taken = indexes.find((index) => index.name === name);
  if (taken === undefined) return;
  if (!isReplacing) throw new LancegateError('TableIndexAlreadyExists', `the table already has an index ${name}`);
  const [first = '', ...others] = taken.columns;
  // The engine quotes more names than have to be.
  if (others.length > 0 || !sameFieldPath(parseFieldPath(first), parseFieldPath(column)))
    throw invalidInput(`name: the index ${name} is of another column; drop it first, or choose another name`);
}

/** Throws `TableIndexNotFound`. */
export function requireIndex(indexes: Layout['indexes'], name: string): void {
  if (indexes.some((index) => index.name === name)) return;
  throw new LancegateError('TableIndexNotFound', `the table has no index ${name}`);
}
