/** What a client can ask about a table: its description, whether it exists, its statistics and how many rows it has. */
import type { Schema } from '../../arrow/schema/schema.ts';
import type { Snapshot, TableStatistics } from '../../engine/port/dataset.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { type BranchName, showTable, type TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { Queries } from '../../query/protocol.ts';
import type { TableAccess, TableDescription } from '../../table/table-access.ts';
import { findTag } from '../tags.ts';
import type { Visible } from '../visible-page.ts';
import { type ReadTarget, readInReader } from './query-table.ts';

interface Deps {
  readonly access: TableAccess;
}

interface DescribeCommand extends ReadTarget {
  /** The version that a tag names; a version or a branch beside it must be the same. */
  readonly tag?: { readonly name: string; readonly visible: Visible<BranchName | undefined> } | undefined;
}

/** `isManaged`: programs of Lance are to commit to it through this service. */
export interface DescribedTable extends TableDescription {
  readonly isManaged: boolean;
}

/** A declared-only table has no version and no schema: clients tell it apart by their absence. */
export const describeTable =
  ({ access, managesVersions }: Deps & { readonly managesVersions: boolean }) =>
  async (command: DescribeCommand): Promise<DescribedTable> => {
    const { table } = command;
    const record = await access.find(table);
    const { branch, version } = await resolveTag(access, command);
    if (record.state === 'created') {
      const created = await access.read(record, branch, version, versionWithSchema);
      return { ...access.describe(record, created), isManaged: managesVersions };
    }
    if (branch !== undefined) throw isOnlyDeclared('TableBranchNotFound', table, 'branch but main');
    if (version !== undefined) throw isOnlyDeclared('TableVersionNotFound', table, 'version');
    return { ...access.describe(record, undefined), isManaged: managesVersions };
  };

async function resolveTag(
  access: TableAccess,
  { table, branch, version, tag }: DescribeCommand,
): Promise<Omit<ReadTarget, 'table'>> {
  if (tag === undefined) return { branch, version };
  const found = await findTag({ access })({ table, branch, tag: tag.name, visible: tag.visible });
  if (version === undefined || version === found.version) return found;
  throw invalidInput('version: the tag names another one');
}

/** Of one version (P11): another request may refresh the dataset, which it shares, between two questions. */
async function versionWithSchema(dataset: Snapshot): Promise<{ readonly version: number; readonly schema: Schema }> {
  for (;;) {
    const version = await dataset.version();
    const schema = await dataset.schema();
    if (version === (await dataset.version())) return { version, schema };
  }
}

/** Resolves for a table that exists, declared-only ones included if `version` is undefined; else `TableNotFound`. */
export const tableExists =
  ({ access }: Deps) =>
  async ({ table, version }: Omit<ReadTarget, 'branch'>): Promise<void> => {
    const record = await access.find(table);
    if (version === undefined) return;
    if (record.state === 'declared') throw isOnlyDeclared('TableVersionNotFound', table, 'version');
    await access.read(record, undefined, version, (dataset) => dataset.version());
  };

const isOnlyDeclared = (
  kind: 'TableBranchNotFound' | 'TableVersionNotFound',
  table: TableRef,
  what: string,
): LancegateError => new LancegateError(kind, `table '${showTable(table)}' is only declared and has no ${what}`);

/** Sizes of the newest version of a branch. */
export const tableStatistics =
  ({ access }: Deps) =>
  async ({ table, branch }: Omit<ReadTarget, 'version'>): Promise<TableStatistics> => {
    const record = await access.findCreated(table);
    return access.read(record, branch, undefined, (dataset) => dataset.statistics());
  };

interface CountRowsCommand extends ReadTarget {
  readonly predicate: CheckedSql | undefined;
}

/** The manifest has the count of all rows; a predicate runs in a reader (P12). */
export const countRows =
  ({ access, queries }: Deps & { readonly queries: Queries }) =>
  async ({ predicate, ...target }: CountRowsCommand, scope: RequestScope): Promise<number> => {
    if (predicate !== undefined) {
      return readInReader(access, target, (reading) => queries.count(reading, predicate, scope));
    }
    const record = await access.findCreated(target.table);
    return access.read(record, target.branch, target.version, (dataset) => dataset.countRows());
  };
