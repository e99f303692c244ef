import Type from 'typebox';
import { answeredOnce } from '../../../idempotency/idempotency.ts';
import { createBranch, deleteBranch, listBranches } from '../../../operations/branches.ts';
import { parseBranch, parseBranchName, parseNewBranchName } from '../../../wire/identifiers.ts';
import { Count, mapOf, nextPage, PageBody, pageFields, Version } from '../../../wire/json-body.ts';
import { readPage } from '../../../wire/query-parameters.ts';
import { jsonRoute, Nothing, onceAnswer } from '../../json-route.ts';
import { refuseBranch, tableTarget, visibleTo } from '../../route.ts';

const CreateBody = Type.Object({
  name: Type.String(),
  from_branch: Type.Optional(Type.String()),
  from_version: Type.Optional(Version),
});
const DeleteBody = Type.Object({ name: Type.String() });

const Branch = Type.Object({
  parentBranch: Type.Optional(Type.String()),
  parentVersion: Version,
  createAt: Count,
  manifestSize: Count,
});
const Branches = Type.Object({ branches: mapOf(Branch), ...nextPage });

/** The parent must be allowed too: what it holds can be read in the new branch. */
export const createBranchRoute = jsonRoute(answeredOnce('create_branch', createBranch), {
  methods: ['POST'],
  path: '/v1/table/:id/branches/create',
  target: tableTarget,
  needsOwner: true,
  keyedBy: 'Idempotency-Key',
  action: 'CreateTableBranch',
  summary: 'Creates a branch',
  answers: Nothing,
  body: CreateBody,
  branches: (body, branch) => {
    refuseBranch(branch);
    return [parseNewBranchName(body.name, 'name'), parseBranch(body.from_branch, 'from_branch')];
  },
  answer: async (operation, { target: table, body, idempotency }, input) => {
    const command = {
      table,
      name: parseNewBranchName(body.name, 'name'),
      fromBranch: parseBranch(body.from_branch, 'from_branch'),
      fromVersion: body.from_version,
      idempotency,
    };
    onceAnswer(input, await operation(command, input.scope));
    return {};
  },
});

/** The right to list is checked on main, the right to see a branch on each. */
export const listBranchesRoute = jsonRoute(listBranches, {
  methods: ['POST'],
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

export const deleteBranchRoute = jsonRoute(answeredOnce('delete_branch', deleteBranch), {
  methods: ['POST'],
  path: '/v1/table/:id/branches/delete',
  target: tableTarget,
  needsOwner: true,
  keyedBy: 'Idempotency-Key or x-request-id',
  action: 'DeleteTableBranch',
  summary: 'Deletes a branch',
  answers: Nothing,
  body: DeleteBody,
  branches: (body, branch) => {
    refuseBranch(branch);
    return [parseBranchName(body.name, 'name')];
  },
  answer: async (operation, { target: table, body, idempotency }, input) => {
    const command = { table, name: parseBranchName(body.name, 'name'), idempotency };
    onceAnswer(input, await operation(command, input.scope));
    return {};
  },
});
