import Type from 'typebox';
import type { CreateBranch } from '../../operations/branches/create-branch.ts';
import type { DeleteBranch } from '../../operations/branches/delete-branch.ts';
import type { ListBranches } from '../../operations/branches/list-branches.ts';
import { parseBranch, parseBranchName } from '../../wire/identifiers.ts';
import { Version } from '../../wire/json-body.ts';
import { readPage } from '../../wire/query-parameters.ts';
import { jsonRoute } from '../json-route.ts';
import { type Route, refuseBranch, tableTarget } from '../route.ts';

const Nothing = Type.Object({});
const CreateBody = Type.Object({
  name: Type.String(),
  from_branch: Type.Optional(Type.String()),
  from_version: Type.Optional(Version),
});
const DeleteBody = Type.Object({ name: Type.String() });

/** The parent must be allowed too: what it holds can be read in the new branch. */
export const createBranchRoute = (createBranch: CreateBranch): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/branches/create',
    target: tableTarget,
    action: 'CreateTableBranch',
    body: CreateBody,
    branches: (body, branch) => {
      refuseBranch(branch);
      return [parseBranchName(body.name, 'name'), parseBranch(body.from_branch, 'from_branch')];
    },
    answer: async ({ target: table, body }) => {
      await createBranch({
        table,
        name: parseBranchName(body.name, 'name'),
        fromBranch: parseBranch(body.from_branch, 'from_branch'),
        fromVersion: body.from_version,
      });
      return {};
    },
  });

/** The right to list is checked on main, the right to see a branch on each. */
export const listBranchesRoute = (listBranches: ListBranches): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/branches/list',
    target: tableTarget,
    action: 'ListTableBranches',
    body: Nothing,
    answer: async ({ target: table, query, allows }) => {
      const { items, next } = await listBranches({
        table,
        page: readPage(query),
        visible: (branch) => allows('DescribeTable', { kind: 'table', table }, branch),
      });
      return { branches: Object.fromEntries(items.map((item) => [item.name, branchContents(item)])), page_token: next };
    },
  });

const branchContents = (branch: Awaited<ReturnType<ListBranches>>['items'][number]) => ({
  parentBranch: branch.parentBranch,
  parentVersion: branch.parentVersion,
  createAt: branch.createdAtSeconds,
  manifestSize: branch.manifestBytes,
});

export const deleteBranchRoute = (deleteBranch: DeleteBranch): Route =>
  jsonRoute({
    methods: ['POST'],
    path: '/v1/table/:id/branches/delete',
    target: tableTarget,
    action: 'DeleteTableBranch',
    body: DeleteBody,
    branches: (body, branch) => {
      refuseBranch(branch);
      return [parseBranchName(body.name, 'name')];
    },
    answer: async ({ target: table, body }) => {
      await deleteBranch({ table, name: parseBranchName(body.name, 'name') });
      return {};
    },
  });
