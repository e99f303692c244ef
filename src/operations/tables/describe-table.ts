import { LancegateError } from '../../kernel/errors.ts';
import { type BranchName, showTable, type TableRef } from '../../kernel/ids.ts';
import type { TableAccess, TableDescription } from '../../table/table-access.ts';

interface DescribeTableCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly version: number | undefined;
}

/** A declared-only table has no version and no schema: clients tell it apart by their absence. */
export const describeTable =
  ({ access }: { access: TableAccess }) =>
  async ({ table, branch, version }: DescribeTableCommand): Promise<TableDescription> => {
    const record = await access.find(table);
    if (record.state === 'created') {
      const created = await access.read(record, branch, version, async (dataset) => ({
        version: await dataset.version(),
        schema: await dataset.schema(),
      }));
      return access.describe(record, created);
    }
    if (branch !== undefined) throw isOnlyDeclared('TableBranchNotFound', table, 'branch but main');
    if (version !== undefined) throw isOnlyDeclared('TableVersionNotFound', table, 'version');
    return access.describe(record, undefined);
  };

export const isOnlyDeclared = (
  kind: 'TableBranchNotFound' | 'TableVersionNotFound',
  table: TableRef,
  what: string,
): LancegateError => new LancegateError(kind, `table '${showTable(table)}' is only declared and has no ${what}`);
