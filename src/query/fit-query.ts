import { formatFieldPath, parseFieldPath, resolveField } from '../arrow/schema/field-path.ts';
import { type Field, type Schema, typeName } from '../arrow/schema/schema.ts';
import type { Snapshot } from '../engine/port/dataset.ts';
import type { NearestSpec, QuerySpec } from '../engine/port/query-spec.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';

/** The engine makes room for so many results before it has any. */
const manyResults = 10_000;

/**
 * Returns the query as it fits the snapshot. `InvalidInput` and `TableColumnNotFound` name the field of the request that does
 * not; what the engine finds itself is left to it.
 */
export async function fitted(spec: QuerySpec, snapshot: Pick<Snapshot, 'schema' | 'countRows'>): Promise<QuerySpec> {
  const { nearest, text, orderBy } = spec;
  if (nearest !== undefined || orderBy.length > 0) checkColumns(spec, await snapshot.schema());
  const isSearch = nearest !== undefined || text !== undefined;
  if (!isSearch || candidatesOf(spec) <= manyResults) return spec;
  return withoutSurplus(spec, Math.max(1, await snapshot.countRows()));
}

const candidatesOf = ({ limit = Number.POSITIVE_INFINITY, offset, nearest }: QuerySpec): number =>
  (limit + offset) * (nearest?.refineFactor ?? 1);

/** No search finds more than all rows, nor looks at more of them. */
function withoutSurplus(spec: QuerySpec, rows: number): QuerySpec {
  const limit = Math.min(spec.limit ?? rows, rows);
  const offset = Math.min(spec.offset, rows);
  const nearest = spec.nearest && {
    ...spec.nearest,
    refineFactor:
      spec.nearest.refineFactor && Math.min(spec.nearest.refineFactor, Math.ceil(rows / Math.max(1, limit))),
  };
  return { ...spec, limit, offset, nearest };
}

function checkColumns({ nearest, orderBy }: QuerySpec, schema: Schema): void {
  for (const { column } of orderBy) columnOf(schema, column, 'order_by');
  if (nearest !== undefined) requireLength(schema, nearest);
}

function columnOf(schema: Schema, path: string, parameter: string): Field {
  const field = resolveField(schema, parseFieldPath(path, parameter));
  if (field !== undefined) return field;
  throw new LancegateError('TableColumnNotFound', `${parameter}: the table has no column ${path}`);
}

function requireLength(schema: Schema, { column, vectors }: NearestSpec): void {
  const length = vectors[0]?.length ?? 0;
  if (column === undefined) {
    requireOneColumn(schema, length);
    return;
  }
  const field = columnOf(schema, column, 'vector_column');
  const expected = vectorLength(field);
  if (expected === undefined) {
    throw invalidInput(`vector_column: column ${column} holds no vectors, but ${typeName(field)}`);
  }
  if (expected !== length) {
    throw invalidInput(`vector: it has ${length} numbers, and column ${column} takes ${expected}`);
  }
}

function requireOneColumn(schema: Schema, length: number): void {
  const all = vectorColumns(schema.fields, []);
  const fitting = all.filter((column) => column.length === length);
  if (fitting.length === 1) return;
  const lengths = [...new Set(all.map((column) => column.length))].join(' or ');
  if (fitting.length === 0) {
    const has = all.length === 0 ? 'no column with vectors' : `vectors of ${lengths} only`;
    throw invalidInput(`vector: it has ${length} numbers, and the table has ${has}`);
  }
  throw invalidInput(`vector_column: several columns take ${length} numbers: name one`);
}

const vectorColumns = (
  fields: readonly Field[],
  parent: readonly string[],
): readonly { readonly path: string; readonly length: number }[] =>
  fields.flatMap((field) => {
    const path = [...parent, field.name];
    const length = vectorLength(field);
    if (length !== undefined) return [{ path: formatFieldPath({ segments: path }), length }];
    return field.type.kind === 'struct' ? vectorColumns(field.children, path) : [];
  });

/** Returns the length in a column of vectors, or of lists of them; undefined for any other. */
function vectorLength({ type, children }: Field): number | undefined {
  const [child] = children;
  if (child === undefined) return undefined;
  if (type.kind === 'list') return child.type.kind === 'fixed_size_list' ? vectorLength(child) : undefined;
  if (type.kind !== 'fixed_size_list') return undefined;
  const isNumber = child.type.kind === 'float' || (child.type.kind === 'int' && child.type.bitWidth === 8);
  return isNumber ? type.listSize : undefined;
}
