import Type from 'typebox';
import { jsonRoute } from '../../endpoint/json-route.ts';
import { tableTarget, visibleTo } from '../../endpoint/route.ts';
import type { StoredBranch } from '../../engine/port/dataset.ts';
import type { BranchName, TableRef } from '../../kernel/ids.ts';
import type { TableAccess } from '../../table/table-access.ts';
import { Count, mapOf, nextPage, PageBody, pageFields, Version } from '../../wire/json-body.ts';
import { type Page, readPage } from '../../wire/query-parameters.ts';
import { type Listing, type Visible, visiblePageByName } from '../visible-page.ts';

interface ListBranchesCommand {
  readonly table: TableRef;
  readonly page: Page;
  readonly visible: Visible<BranchName>;
}

/** A parent that is not visible is not named. */
const listBranches =
  ({ access }: { readonly access: TableAccess }) =>
  async ({ table, page, visible }: ListBranchesCommand): Promise<Listing<StoredBranch>> => {
    const dataset = await access.latest(await access.findCreated(table), undefined);
    const { items, next } = await visiblePageByName(page, await dataset.branches.list(), ({ name }) => visible(name));
    // The version stays: the branch itself began at it.
    return {
      items: items.map((branch) =>
        branch.parentBranch === undefined || visible(branch.parentBranch)
          ? branch
          : { ...branch, parentBranch: undefined },
      ),
      next,
    };
  };

const Branch = Type.Object({
  parentBranch: Type.Optional(Type.String()),
  parentVersion: Version,
  createAt: Count,
  manifestSize: Count,
});

const Branches = Type.Object({ branches: mapOf(Branch), ...nextPage });

/** The right to list is checked on main, the right to see a branch on each. */
export const listBranchesRoute = jsonRoute(listBranches, {
  path: '/v1/table/:id/branches/list',
  target: tableTarget,
  action: 'ListTableBranches',
  summary: 'Lists the branches of a table',
  query: pageFields,
  answers: Branches,
  body: PageBody,
  answer: async (operation, { target: table, body }, { query, access }) => {
    const { items, next } = await operation({
      table,
      page: readPage(query, body),
      visible: visibleTo(access, table),
    });
    const branches = items.map(({ name, parentBranch, parentVersion, createdAtSeconds, manifestBytes }) => [
      name,
      { parentBranch, parentVersion, createAt: createdAtSeconds, manifestSize: manifestBytes },
    ]);
    return { branches: Object.fromEntries(branches), page_token: next };
  },
});
