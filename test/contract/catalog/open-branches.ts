import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog, OpenBranch } from '#src/catalog/port.ts';
import type { BranchName, TableId } from '#src/kernel/ids.ts';
import { createTable, place, publicationOf, table, transactionOf } from './fixtures.ts';

const dev = 'a/dev' as BranchName;

export function openBranchesContract(open: () => Promise<Catalog>): void {
  describe('open branches', () => {
    let catalog: Catalog;
    let tableId: TableId;
    beforeEach(async () => {
      catalog = await open();
      tableId = (await createTable(catalog, table('t'), place('1'))).id;
    });
    afterEach(() => catalog.close());

    const main = (acknowledgedVersion: number): OpenBranch => ({
      tableId,
      branch: undefined,
      acknowledgedVersion,
      storageSession: 'monday',
    });
    const versions = async () => (await catalog.recoveryMarks()).map((open) => open.acknowledgedVersion);

    test('a branch is open from its mark until it is closed', async () => {
      await catalog.markOpenForWriting({ ...main(3), branch: dev });
      await catalog.markOpenForWriting(main(7));
      const where = { ref: table('t'), location: '1' };
      assert.deepEqual(await catalog.recoveryMarks(), [
        { ...main(7), ...where },
        { ...main(3), branch: dev, ...where },
      ]);
      await catalog.closeBranch(tableId, undefined);
      await catalog.closeBranch(tableId, undefined);
      assert.deepEqual(await catalog.recoveryMarks(), [{ ...main(3), branch: dev, ...where }]);
    });

    test('a second mark replaces the first', async () => {
      await catalog.markOpenForWriting(main(7));
      await catalog.markOpenForWriting({ ...main(5), storageSession: 'tuesday' });
      const [found] = await catalog.recoveryMarks();
      assert.deepEqual([found?.acknowledgedVersion, found?.storageSession], [5, 'tuesday']);
    });

    test('what is recorded as committed is acknowledged in the same step, and only where it was (P3)', async () => {
      await catalog.markOpenForWriting(main(1));
      await catalog.markOpenForWriting({ ...main(1), branch: dev });
      const of = (id: string, version: number, branch?: BranchName) => transactionOf(id, { tableId, version, branch });
      await catalog.recordTransactions([of('a', 4), of('b', 3), of('c', 9, dev)]);
      assert.deepEqual(await versions(), [4, 9]);
      await catalog.recordTransactions([of('d', 2), transactionOf('e', { version: 50 })]);
      assert.deepEqual(await versions(), [4, 9], 'an older version, or that of another table, moves nothing');
      await assert.rejects(catalog.recordTransactions([of('f', 5), of('a', 6)]));
      assert.deepEqual(await versions(), [4, 9]);
    });

    test('a version can be acknowledged without a transaction, and never backwards', async () => {
      await catalog.acknowledgeVersion(tableId, undefined, 8);
      assert.deepEqual(await versions(), []);
      await catalog.markOpenForWriting(main(1));
      await catalog.acknowledgeVersion(tableId, undefined, 8);
      await catalog.acknowledgeVersion(tableId, undefined, 5);
      await catalog.acknowledgeVersion(tableId, dev, 9);
      assert.deepEqual(await versions(), [8]);
    });

    test('what was acknowledged of a branch is known while it is open and when it is closed, until it is gone (P3)', async () => {
      const known = async (of?: { tableId: TableId; branch: BranchName | undefined }) =>
        (await catalog.acknowledgedBranches(of)).map(({ branch, acknowledgedVersion }) => [
          branch,
          acknowledgedVersion,
        ]);
      assert.deepEqual(await known(), []);
      await catalog.markOpenForWriting(main(7));
      await catalog.closeBranch(tableId, undefined);
      await catalog.markOpenForWriting(main(5));
      await catalog.markOpenForWriting({ ...main(3), branch: dev });
      const where = { tableId, ref: table('t'), location: '1' };
      assert.deepEqual(await catalog.acknowledgedBranches({ tableId, branch: undefined }), [
        { ...where, branch: undefined, acknowledgedVersion: 7 },
      ]);
      assert.deepEqual(await known({ tableId, branch: dev }), [[dev, 3]]);
      assert.equal((await known()).length, 2);
      await catalog.closeBranch(tableId, dev, true);
      assert.deepEqual(await known(), [[undefined, 7]]);
      await catalog.dropTable(table('t'));
      assert.deepEqual(await known(), []);
    });

    test('what is recorded of a closed branch does not open it', async () => {
      await catalog.recordTransactions([transactionOf('a', { tableId, version: 2 })]);
      assert.deepEqual(await catalog.recoveryMarks(), []);
    });

    test('the branches of a table that is dropped or replaced are open no more', async () => {
      await catalog.markOpenForWriting(main(1));
      const creation = await catalog.reserveCreation(table('t'), tableId, place('2'));
      const replaced = await catalog.publishCreation(creation, publicationOf('replacement'));
      assert.deepEqual(await catalog.recoveryMarks(), []);
      await catalog.markOpenForWriting({ ...main(1), tableId: replaced.id });
      await catalog.dropTable(table('t'));
      assert.deepEqual(await catalog.recoveryMarks(), []);
    });
  });
}
