import type { TableRef } from '../../kernel/ids.ts';
import type { TableAccess } from '../../table/table-access.ts';
import { isOnlyDeclared } from './describe-table.ts';

interface TableExistsCommand {
  readonly table: TableRef;
  readonly version: number | undefined;
}

/** Resolves for a table that exists, declared-only ones included if `version` is undefined; else `TableNotFound`. */
export const tableExists =
  ({ access }: { access: TableAccess }) =>
  async ({ table, version }: TableExistsCommand): Promise<void> => {
    const record = await access.find(table);
    if (version === undefined) return;
    if (record.state === 'declared') throw isOnlyDeclared('TableVersionNotFound', table, 'version');
    await access.read(record, undefined, version, (dataset) => dataset.version());
  };
