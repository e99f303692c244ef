import Type from 'typebox';
import type { OpenBranchCatalog } from '../../catalog/port.ts';
import { Nothing, onceRoute } from '../../endpoint/json-route.ts';
import { refuseBranch, tableTarget } from '../../endpoint/route.ts';
import type { BranchRecovery } from '../../engine/port/engine.ts';
import { liesInFilesOf } from '../../kernel/branch-names.ts';
import { LancegateError, notTheFirstStep } from '../../kernel/errors.ts';
import { type BranchName, showTable, type TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import { parseBranch, parseNewBranchName } from '../../wire/identifiers.ts';
import { Version } from '../../wire/json-body.ts';

interface Deps {
  readonly catalog: OpenBranchCatalog;
  readonly engine: BranchRecovery;
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
}

interface CreateBranchCommand {
  readonly table: TableRef;
  readonly name: BranchName;
  readonly fromBranch: BranchName | undefined;
  readonly fromVersion: number | undefined;
}

export const createBranch =
  ({ access, locks, catalog, engine, recoveryMarks }: Deps) =>
  async ({ table, name, fromBranch, fromVersion }: CreateBranchCommand): Promise<void> => {
    const record = await access.findCreated(table);
    const leave = await locks.lockExclusive(table, neverAborts);
    try {
      const dataset = await access.latest(record, undefined);
      const branches = await dataset.branches.list();
      if (branches.some((branch) => branch.name === name))
        throw new LancegateError(
          'TableBranchAlreadyExists',
          `table '${showTable(table)}' has a branch '${name}' already`,
        );
      // Where the branch is not there, the engine misses its version only.
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
      await dataset.branches
        .create(name, { branch: fromBranch, version: fromVersion }, confirm)
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

const CreateBranchBody = Type.Object({
  name: Type.String(),
  from_branch: Type.Optional(Type.String()),
  from_version: Type.Optional(Version),
});

/** The parent must be allowed too: what it holds can be read in the new branch. */
export const createBranchRoute = onceRoute('create_branch', createBranch, {
  path: '/v1/table/:id/branches/create',
  target: tableTarget,
  action: 'CreateTableBranch',
  summary: 'Creates a branch',
  answers: Nothing,
  body: CreateBranchBody,
  branches: (body, branch) => {
    refuseBranch(branch);
    return [parseNewBranchName(body.name), parseBranch(body.from_branch, 'from_branch')];
  },
  answer: async (operation, { target: table, body }) => {
    await operation({
      table,
      name: parseNewBranchName(body.name),
      fromBranch: parseBranch(body.from_branch, 'from_branch'),
      fromVersion: body.from_version,
    });
    return {};
  },
});
