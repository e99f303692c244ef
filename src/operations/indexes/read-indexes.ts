/** What a client can ask about the indexes of a table: which there are, what one covers, and that its files be read ahead. */
import type { IndexDescription, IndexStatistics } from '../../engine/port/indexes.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { type BranchName, showTable, type TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { Listing, Page } from '../visible-page.ts';

interface Deps {
  readonly access: TableAccess;
}

interface OnBranch {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
}

interface IndexesAt extends OnBranch {
  /** undefined is the newest. */
  readonly version: number | undefined;
}

/** By name. */
export const listIndexes =
  ({ access }: Deps) =>
  async ({ table, branch, version, page }: IndexesAt & { page: Page }): Promise<Listing<IndexDescription>> => {
    const record = await access.findCreated(table);
    const found = await access.read(record, branch, version, ({ indexes }) => indexes.list());
    const { after, limit } = page;
    const sorted = [...found].sort((a, b) => (a.name < b.name ? -1 : 1));
    const rest = sorted.filter(({ name }) => after === undefined || name > after);
    const items = rest.slice(0, limit);
    return { items, next: rest.length > limit ? items.at(-1)?.name : undefined };
  };

/** `TableIndexNotFound`. */
export const indexStatistics =
  ({ access }: Deps) =>
  async ({ table, branch, version, index }: IndexesAt & { index: string }): Promise<IndexStatistics> => {
    const record = await access.findCreated(table);
    const found = await access.read(record, branch, version, ({ indexes }) => indexes.statistics(index));
    return found ?? missing(table, index);
  };

/**
 * Reads the files of an index, after which queries find them in the memory of the operating system: readers are processes of their
 * own, and none of them keeps it for the others. Ends with the request. `TableIndexNotFound`.
 */
export const prewarmIndex =
  ({ access }: Deps) =>
  async ({ table, branch, index }: OnBranch & { index: string }, { signal }: RequestScope): Promise<void> => {
    const record = await access.findCreated(table);
    await access.read(record, branch, undefined, async ({ indexes }) => {
      const { uuid } = (await indexes.list()).find(({ name }) => name === index) ?? missing(table, index);
      if (uuid !== undefined) await indexes.readFiles(uuid, signal);
    });
  };

function missing(table: TableRef, index: string): never {
  throw new LancegateError('TableIndexNotFound', `table '${showTable(table)}' has no index '${index}'`);
}
