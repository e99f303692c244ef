import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog, RequestOwner } from '#src/catalog/port.ts';
import type { BranchName, IdempotencyKey, TransactionId } from '#src/kernel/ids.ts';
import { createTable, place, rejects, table, transactionOf } from './fixtures.ts';

export function transactionsContract(open: () => Promise<Catalog>): void {
  describe('transactions', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
    });
    afterEach(() => catalog.close());

    test('a transaction is found as it was recorded', async () => {
      const onMain = transactionOf('1', { ref: table('t'), version: Number.MAX_SAFE_INTEGER, outcome: {} });
      const onBranch = transactionOf('2', { ref: table('a', 'b', 't'), branch: 'exp/🦊' as BranchName });
      await catalog.recordTransactions([onMain, onBranch]);
      for (const record of [onMain, onBranch]) assert.deepEqual(await catalog.findTransaction(record.id), record);
      assert.equal(await catalog.findTransaction('3' as TransactionId), undefined);
    });

    test('of a group of transactions all are recorded or none', async () => {
      await catalog.recordTransactions([transactionOf('taken')]);
      const many = Array.from({ length: 5000 }, (_, number) => transactionOf(`${number}`));
      await rejects(catalog.recordTransactions([...many, transactionOf('taken', { version: 8 })]), 'Internal');
      assert.equal(await catalog.findTransaction('0' as TransactionId), undefined);
      await catalog.recordTransactions(many);
      assert.deepEqual(await catalog.findTransaction('4999' as TransactionId), transactionOf('4999'));
      await catalog.recordTransactions([]);
    });

    test('what is recorded again after a lost answer is as if it was recorded once (P6)', async () => {
      const { id: tableId } = await createTable(catalog, table('t'), place('1'));
      await catalog.markOpenForWriting({ tableId, branch: undefined, acknowledgedVersion: 1, storageSession: 's' });
      const of = (version: number) => transactionOf(`${version}`, { tableId, ref: table('t'), version });
      const keyed = { owner: 'ann' as RequestOwner, key: 'k' as IdempotencyKey, requestDigest: 'r', bodyDigest: 'b' };
      const answer = { ...keyed, attempt: 'a', askedAtMs: 1, expiresAtMs: 9, answer: 'first' };
      await catalog.recordTransactions([of(2), of(3)], [answer]);
      await catalog.recordTransactions([of(2), of(3)], [answer]);
      await catalog.recordTransactions([of(3), of(4)], [answer]);
      for (const record of [of(2), of(3), of(4)]) {
        assert.deepEqual(await catalog.findTransaction(record.id), record);
      }
      assert.deepEqual(await catalog.findKeyed(answer.owner, answer.key), answer);
      assert.equal((await catalog.recoveryMarks())[0]?.acknowledgedVersion, 4);
    });

    test('a transaction outlives its table', async () => {
      const made = await createTable(catalog, table('t'), place('1'));
      await catalog.dropTable(table('t'));
      assert.equal((await catalog.findTransaction('of-1' as TransactionId))?.tableId, made.id);
    });

    test('what was committed before a time can be forgotten, a little at a time and the oldest first', async () => {
      await catalog.recordTransactions([1, 2, 3].map((time) => transactionOf(`${time}`, { committedAtMs: time })));
      const forget = async (limit: number) =>
        (await catalog.forgetRecords({ committedBeforeMs: 3, expiredAtMs: 0 }, limit)).transactions;
      assert.equal(await forget(1), 1);
      assert.equal(await catalog.findTransaction('1' as TransactionId), undefined);
      assert.ok(await catalog.findTransaction('2' as TransactionId));
      assert.equal(await forget(9), 1);
      assert.equal(await forget(9), 0);
      assert.equal(await catalog.findTransaction('2' as TransactionId), undefined);
      assert.ok(await catalog.findTransaction('3' as TransactionId));
    });
  });
}
