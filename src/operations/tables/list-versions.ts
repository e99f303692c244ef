import type { Locations } from '../../engine/port/engine.ts';
import { invalidInput } from '../../kernel/errors.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { Listing, Page } from '../visible-page.ts';

interface ListVersionsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly page: Page;
  readonly order: 'ascending' | 'descending';
}

interface ListedVersion {
  readonly version: number;
  readonly committedAtMs: number;
  /** As `location` of a table: what a reader with access to the storage opens. */
  readonly manifestUri: string;
  /** undefined on object stores. */
  readonly manifestBytes: number | undefined;
}

/** The versions of a branch that can still be read. Reads one manifest for each that it lists, so a page costs the same in a long history. */
export const listVersions =
  ({ access, engine }: { access: TableAccess; engine: Locations }) =>
  async ({ table, branch, page, order }: ListVersionsCommand): Promise<Listing<ListedVersion>> => {
    const after = page.after === undefined ? undefined : versionOf(page.after);
    const record = await access.findCreated(table);
    const request = { after, limit: page.limit + 1, order };
    const found = await access.read(record, branch, undefined, (dataset) => dataset.versionPage(request));
    const items = found.slice(0, page.limit).map(({ manifestPath, ...facts }) => ({
      ...facts,
      manifestUri: engine.uriOf(record.location, manifestPath),
    }));
    return { items, next: found.length > page.limit ? items.at(-1)?.version.toString() : undefined };
  };

function versionOf(token: string): number {
  if (/^\d{1,15}$/.test(token)) return Number(token);
  throw invalidInput('page_token: it is not one that a listing of versions returned');
}
