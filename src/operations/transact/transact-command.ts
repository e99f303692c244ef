import type { FieldPath } from '../../arrow/schema/field-path.ts';
import type { ArrowSource } from '../../arrow/stream/source-reader.ts';
import type { ChangeCommand } from '../../change/submit-change.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { MergeFlags } from '../../merge/merge-command.ts';
import type { AddedColumn } from '../columns/add-columns.ts';
import type { Alteration } from '../columns/alter-columns.ts';
import type { MetadataUpdate } from '../columns/update-field-metadata.ts';
import type { RowsUpdate } from '../rows/update-rows.ts';

/** The rows, or columns, of an operation are those of the source that it names. */
export type TransactOperation =
  | { readonly kind: 'insert'; readonly source: string }
  | {
      readonly kind: 'merge_insert';
      readonly source: string;
      readonly on: readonly FieldPath[];
      readonly flags: MergeFlags;
    }
  | ({ readonly kind: 'update' } & RowsUpdate)
  | { readonly kind: 'delete'; readonly predicate: CheckedSql }
  | { readonly kind: 'add_columns'; readonly columns: readonly AddedColumn[] }
  | { readonly kind: 'add_columns'; readonly source: string }
  | { readonly kind: 'alter_columns'; readonly alterations: readonly Alteration[] }
  | { readonly kind: 'drop_columns'; readonly columns: readonly FieldPath[] }
  | { readonly kind: 'update_field_metadata'; readonly updates: readonly MetadataUpdate[] };

export interface NamedOperation {
  /** No two have the same. */
  readonly name: string;
  readonly does: TransactOperation;
}

/** An operation may name a source. */
export const sourceOf = (operation: TransactOperation): string | undefined =>
  'source' in operation ? operation.source : undefined;

/** Returns a refusal that names the operation. */
export const ofOperation = (name: string, error: unknown): unknown =>
  error instanceof LancegateError
    ? new LancegateError(error.kind, `operation ${name}: ${error.message}`, {
        cause: error.cause,
        ...(error.internal && { internal: error.internal }),
        ...(error.retryAfterSeconds !== undefined && { retryAfterSeconds: error.retryAfterSeconds }),
      })
    : error;

export interface NamedSource {
  readonly name: string;
  readonly source: ArrowSource;
}

export interface TransactCommand extends ChangeCommand {
  /** There is at least one. They are applied in their order. Each source that they name is named once. */
  readonly operations: readonly NamedOperation[];
  /** Only sources that are named arrive here. Each must be read before the next one. */
  readonly source: AsyncIterable<NamedSource>;
}
