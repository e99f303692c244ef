import type { StoredBranch } from '../../engine/port/engine.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { TableAccess } from '../../table/table-access.ts';
import { type Listing, type Page, type Visible, visiblePage } from '../visible-page.ts';

interface ListBranchesCommand {
  readonly table: TableRef;
  readonly page: Page;
  readonly visible: Visible<BranchName>;
}

/** By name. A parent that is not visible is not named. */
export const listBranches =
  ({ access }: { access: TableAccess }) =>
  async ({ table, page, visible }: ListBranchesCommand): Promise<Listing<StoredBranch>> => {
    const dataset = await access.latest(await access.findCreated(table), undefined);
    const branches = [...(await dataset.listBranches())].sort((a, b) => (a.name < b.name ? -1 : 1));
    const { rows, next } = await visiblePage<StoredBranch>(
      page,
      ({ after, limit }) =>
        Promise.resolve(branches.filter(({ name }) => after === undefined || name > after).slice(0, limit)),
      ({ name }) => name,
      ({ name }) => visible(name),
    );
    return { items: rows.map((branch) => withoutHiddenParent(branch, visible)), next };
  };

/** The version stays: the branch itself began at it. */
const withoutHiddenParent = (branch: StoredBranch, visible: Visible<BranchName>): StoredBranch =>
  branch.parentBranch === undefined || visible(branch.parentBranch) ? branch : { ...branch, parentBranch: undefined };
