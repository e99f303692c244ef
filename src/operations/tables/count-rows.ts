import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { Queries } from '../../query/protocol.ts';
import type { TableAccess } from '../../table/table-access.ts';

interface CountRowsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly version: number | undefined;
  readonly predicate: CheckedSql | undefined;
}

/** The manifest has the count of all rows; a predicate runs in a reader (P12). */
export const countRows =
  ({ access, queries }: { access: TableAccess; queries: Queries }) =>
  async ({ table, branch, version, predicate }: CountRowsCommand, scope: RequestScope): Promise<number> => {
    const record = await access.findCreated(table);
    const { location } = record;
    if (predicate === undefined) return access.read(record, branch, version, (dataset) => dataset.countRows());
    return access.onFilesOf(record, async () => {
      if (version !== undefined) return queries.count({ location, branch, version }, predicate, scope);
      const dataset = await access.latest(record, branch);
      const { lineage } = dataset;
      const atLeastVersion = await dataset.version();
      return queries.count({ location, branch, lineage, atLeastVersion }, predicate, scope);
    });
  };
