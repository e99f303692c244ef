import { type ChangeResult, submitChange } from '../../change/submit-change.ts';
import type { Replayable } from '../../idempotency/idempotency.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { ColumnCommand, ColumnDeps } from './change-columns.ts';

interface UpdateSchemaMetadataCommand extends ColumnCommand {
  /** All that the schema has afterwards. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** Replaces the metadata of a table's schema. */
export const updateSchemaMetadata =
  ({ idempotency, ...deps }: ColumnDeps) =>
  (command: UpdateSchemaMetadataCommand, scope: RequestScope): Promise<Replayable<ChangeResult>> =>
    idempotency.once('update_schema_metadata', command, scope, async (keyed) => {
      const { branch, metadata } = command;
      const table = await deps.access.findCreated(command.table);
      const manifest = { kind: 'schema metadata', metadata } as const;
      return submitChange(deps, { operation: 'update_schema_metadata', table, branch, manifest }, scope, keyed);
    });
