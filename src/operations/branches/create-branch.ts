import type { Catalog } from '../../catalog/port.ts';
import type { Engine } from '../../engine/port/engine.ts';
import { LancegateError, notTheFirstStep } from '../../kernel/errors.ts';
import { type BranchName, showTable, type TableRef } from '../../kernel/ids.ts';
import { neverAborts } from '../../kernel/read-write-lock.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';

interface Deps {
  readonly catalog: Catalog;
  readonly engine: Engine;
  readonly access: TableAccess;
  readonly locks: TableLocks;
}

interface CreateBranchCommand {
  readonly table: TableRef;
  readonly name: BranchName;
  readonly fromBranch: BranchName | undefined;
  readonly fromVersion: number | undefined;
}

export const createBranch =
  ({ access, locks, catalog, engine }: Deps) =>
  async ({ table, name, fromBranch, fromVersion }: CreateBranchCommand): Promise<void> => {
    const record = await access.findCreated(table);
    const leave = await locks.lockExclusive(table, neverAborts);
    try {
      const dataset = await access.latest(record, undefined);
      const branches = await dataset.listBranches();
      if (branches.some((branch) => branch.name === name)) throw branchExists(table, name);
      // Asked for a version of a branch that is not there, the engine misses the version only.
      if (fromBranch !== undefined && !branches.some((branch) => branch.name === fromBranch)) {
        throw branchMissing(table, fromBranch);
      }
      // Until the branch is whole and on disk the catalog knows that it may be half made (P1).
      const { storageSession } = engine;
      await catalog.markOpenForWriting({ tableId: record.id, branch: name, acknowledgedVersion: 0, storageSession });
      await dataset.createBranch(name, { branch: fromBranch, version: fromVersion });
      await catalog.closeBranch(record.id, name).catch(notTheFirstStep);
    } finally {
      leave();
    }
  };

const branchExists = (table: TableRef, name: BranchName): LancegateError =>
  new LancegateError('TableBranchAlreadyExists', `table '${showTable(table)}' has a branch '${name}' already`);

const branchMissing = (table: TableRef, name: BranchName): LancegateError =>
  new LancegateError('TableBranchNotFound', `table '${showTable(table)}' has no branch '${name}'`);
