/** Branches of a table: create, delete and list. What changes them takes the table's lock exclusively. */
import Type from 'typebox';
import type { OpenBranchCatalog } from '../catalog/port.ts';
import { jsonRoute, Nothing, onceAnswer } from '../endpoint/json-route.ts';
import { refuseBranch, tableTarget, visibleTo } from '../endpoint/route.ts';
import type { StoredBranch } from '../engine/port/dataset.ts';
import type { BranchRecovery } from '../engine/port/engine.ts';
import { answeredOnce } from '../idempotency/idempotency.ts';
import { hasFolderOfDataset, isBelowMain, liesInFilesOf } from '../kernel/branch-names.ts';
import { LancegateError, notTheFirstStep } from '../kernel/errors.ts';
import { type BranchName, showTable, type TableRef } from '../kernel/ids.ts';
import { neverAborts } from '../kernel/read-write-lock.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import type { RecoveryMarks } from '../table/recovery-marks.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import { parseBranch, parseBranchName, parseNewBranchName } from '../wire/identifiers.ts';
import { Count, mapOf, nextPage, PageBody, pageFields, Version } from '../wire/json-body.ts';
import { type Page, readPage } from '../wire/query-parameters.ts';
import { type Listing, type Visible, visiblePage } from './visible-page.ts';

interface Deps {
  readonly catalog: OpenBranchCatalog;
  readonly engine: BranchRecovery;
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
  readonly recoveryMarks: RecoveryMarks;
}

interface CreateBranchCommand {
  readonly table: TableRef;
  readonly name: BranchName;
  readonly fromBranch: BranchName | undefined;
  readonly fromVersion: number | undefined;
}

export const createBranch =
  ({ access, locks, catalog, engine, recoveryMarks }: Omit<Deps, 'datasets'>) =>
  async ({ table, name, fromBranch, fromVersion }: CreateBranchCommand): Promise<void> => {
    const record = await access.findCreated(table);
    const leave = await locks.lockExclusive(table, neverAborts);
    try {
      const dataset = await access.latest(record, undefined);
      const branches = await dataset.listBranches();
      if (branches.some((branch) => branch.name === name))
        throw new LancegateError(
          'TableBranchAlreadyExists',
          `table '${showTable(table)}' has a branch '${name}' already`,
        );
      // Asked for a version of a branch that is not there, the engine misses the version only.
      if (fromBranch !== undefined && !branches.some((branch) => branch.name === fromBranch)) {
        throw new LancegateError('TableBranchNotFound', `table '${showTable(table)}' has no branch '${fromBranch}'`);
      }
      if (branches.some((branch) => liesInFilesOf(name, branch.name)))
        throw new LancegateError(
          'InvalidTableState',
          `branch '${name}' cannot be made: another program has made a branch whose files lie where those of this one would`,
        );
      const parent = fromBranch === undefined ? dataset : await access.latest(record, fromBranch);
      await recoveryMarks.requireNotBehind(record, fromBranch, parent);
      // Until the branch is whole and on disk the catalog knows that it may be half made (P1).
      const { storageSession } = engine;
      const unmade = { branch: name, acknowledgedVersion: 0, storageSession };
      await catalog.closeBranch(record.id, name, true); // one that another program removed
      await catalog.markOpenForWriting({ tableId: record.id, ...unmade });
      await recoveryMarks.confirm(table);
      // The next owner may have completed the branch, or made another one of its name.
      const confirm = () =>
        recoveryMarks.confirm(table).catch((error: unknown) => {
          throw new LancegateError('Internal', 'another replica took over the table while a branch was made', {
            cause: error,
          });
        });
      await dataset
        .createBranch(name, { branch: fromBranch, version: fromVersion }, confirm)
        .catch((error) => undoHalf(engine, confirm, { location: record.location, ...unmade }, error));
      await catalog.closeBranch(record.id, name).catch(notTheFirstStep);
    } finally {
      leave();
    }
  };

/**
 * What a failing storage left of the branch would be in the way of the next create. The mark in the catalog stays: to remove it may
 * need space, and the next start finds nothing to do. A branch that is whole after all stays, too.
 */
async function undoHalf(
  engine: BranchRecovery,
  confirm: () => Promise<void>,
  unmade: Parameters<BranchRecovery['recover']>[0],
  error: unknown,
): Promise<never> {
  if (error instanceof LancegateError && error.entry.status < 500) throw error;
  await confirm();
  const { kept } = await engine.recover(unmade);
  if (kept.length > 0) notTheFirstStep(error);
  throw error;
}

export const deleteBranch =
  ({ access, locks, datasets, recoveryMarks }: Pick<Deps, 'access' | 'locks' | 'datasets' | 'recoveryMarks'>) =>
  async ({ table, name }: { table: TableRef; name: BranchName }): Promise<void> => {
    if (isBelowMain(name))
      throw new LancegateError(
        'InvalidTableState',
        `branch '${name}' was not deleted: Lance would delete the whole table with a branch whose name begins with "main/"`,
      );
    const record = await access.findCreated(table);
    const leave = await locks.lockExclusive(table, neverAborts);
    try {
      const dataset = await access.latest(record, undefined);
      // Only other programs make branches of such names. The engine removes the whole folder, with what else lies in it.
      if (hasFolderOfDataset(name)) {
        const branches = await dataset.listBranches();
        if (branches.some((other) => liesInFilesOf(other.name, name)))
          throw new LancegateError(
            'InvalidTableState',
            `branch '${name}' was not deleted: its folder holds files of another branch, which would be lost`,
          );
      }
      datasets.forget(record.location);
      await dataset.deleteBranch(name, () => recoveryMarks.confirm(table));
      await recoveryMarks.remove(record.id, name).catch(notTheFirstStep);
    } finally {
      leave();
    }
  };

interface ListBranchesCommand {
  readonly table: TableRef;
  readonly page: Page;
  readonly visible: Visible<BranchName>;
}

/** By name. A parent that is not visible is not named. */
const listBranches =
  ({ access }: Pick<Deps, 'access'>) =>
  async ({ table, page, visible }: ListBranchesCommand): Promise<Listing<StoredBranch>> => {
    const dataset = await access.latest(await access.findCreated(table), undefined);
    const branches = [...(await dataset.listBranches())].sort((a, b) => (a.name < b.name ? -1 : 1));
    const { items, next } = await visiblePage(
      page,
      async ({ after, limit }) => branches.filter(({ name }) => after === undefined || name > after).slice(0, limit),
      ({ name }) => name,
      ({ name }) => visible(name),
    );
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

const CreateBranchBody = Type.Object({
  name: Type.String(),
  from_branch: Type.Optional(Type.String()),
  from_version: Type.Optional(Version),
});
const DeleteBranchBody = Type.Object({ name: Type.String() });

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
  body: CreateBranchBody,
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
  body: DeleteBranchBody,
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
