import { LancegateError } from '../kernel/errors.ts';
import { showTable } from '../kernel/ids.ts';
import { type TableAccess, visibleSchema } from '../table/table-access.ts';
import type { Operations } from './commands.ts';

/** A declared-only table has no version and no schema: clients tell it apart by their absence. */
export const describeTable =
  (access: TableAccess): Operations['describeTable'] =>
  async ({ table, branch, version }) => {
    const record = await access.find(table);
    if (record.state === 'created') {
      const created = await access.read(record, branch, version, async (dataset) => ({
        version: await dataset.version(),
        schema: await visibleSchema(dataset),
      }));
      return access.describe(record, created);
    }
    if (branch !== undefined) throw onlyDeclared('TableBranchNotFound', showTable(table), 'branch but main');
    if (version !== undefined) throw onlyDeclared('TableVersionNotFound', showTable(table), 'version');
    return access.describe(record, undefined);
  };

export const tableExists =
  (access: TableAccess): Operations['tableExists'] =>
  async ({ table, version }) => {
    const record = await access.find(table);
    if (version === undefined) return;
    if (record.state === 'declared') throw onlyDeclared('TableVersionNotFound', showTable(table), 'version');
    await access.read(record, undefined, version, (dataset) => dataset.version());
  };

const onlyDeclared = (
  kind: 'TableBranchNotFound' | 'TableVersionNotFound',
  table: string,
  what: string,
): LancegateError => new LancegateError(kind, `table '${table}' is only declared and has no ${what}`);
