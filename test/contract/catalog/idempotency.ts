import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import type { Catalog, KeyedAnswer, KeyedRequest, RequestOwner, WriteIntent } from '#src/catalog/port.ts';
import type { BranchName, IdempotencyKey, TableId, TransactionId } from '#src/kernel/ids.ts';
import { createTable, path, place, publicationOf, rejects, table, transactionOf } from './fixtures.ts';

const ann = '["issuer","ann"]' as RequestOwner;
const bob = '["issuer","bob"]' as RequestOwner;
const keyed = (key: string, more: Partial<KeyedRequest> = {}): KeyedRequest => ({
  owner: ann,
  key: key as IdempotencyKey,
  requestDigest: `asked with ${key}`,
  bodyDigest: `sent with ${key}`,
  expiresAtMs: Number.MAX_SAFE_INTEGER,
  attempt: `the first with ${key}`,
  askedAtMs: 1,
  ...more,
});
const answered = (key: string, more: Partial<KeyedAnswer> = {}): KeyedAnswer => ({
  ...keyed(key),
  answer: `{"answer to":"${key}"}`,
  ...more,
});
const intentOf = (key: string, more: Partial<WriteIntent> = {}): WriteIntent => ({
  ...keyed(key),
  tableId: 'some-table' as TableId,
  ref: table('sales', 'orders'),
  branch: undefined,
  baseVersion: 7,
  ...more,
});

export function idempotencyContract(open: () => Promise<Catalog>): void {
  describe('idempotency keys', () => {
    let catalog: Catalog;
    beforeEach(async () => {
      catalog = await open();
    });
    afterEach(() => catalog.close());
    const find = (key: string, owner = ann) => catalog.findKeyed(owner, key as IdempotencyKey);

    test('an answer is found as it was recorded, and is of its owner alone (P6)', async () => {
      const ours = answered('k');
      const theirs = answered('k', { owner: bob, answer: 'another', expiresAtMs: 5 });
      await catalog.recordTransactions([transactionOf('1')], [ours, theirs]);
      assert.deepEqual(await find('k'), ours);
      assert.deepEqual(await find('k', bob), theirs);
      assert.equal(await find('K'), undefined);
    });

    test('transactions and answers are recorded together or not at all (P6)', async () => {
      await catalog.recordTransactions([transactionOf('taken')]);
      const many = Array.from({ length: 3000 }, (_, number) => answered(`${number}`));
      await rejects(catalog.recordTransactions([transactionOf('taken', { version: 8 })], many), 'Internal');
      assert.equal(await find('0'), undefined);
      await catalog.recordTransactions([], many);
      assert.deepEqual(await find('2999'), many[2999]);
    });

    test('a change of a name and its answer are recorded together or not at all (P6)', async () => {
      const [ref, other] = [table('t'), table('u')];
      const changes: readonly ((answer: KeyedAnswer) => Promise<unknown>)[] = [
        (answer) => catalog.createNamespace(path('n'), {}, () => answer),
        (answer) => catalog.createNamespace(path('n'), { owner: 'ann' }, () => answer, 'overwrite'),
        (answer) => catalog.createNamespace(path('m'), {}, () => answer, 'exist_ok'),
        (answer) => catalog.dropNamespace(path('n'), () => answer),
        (answer) => catalog.declareTable(ref, place('1'), {}, () => answer),
        (answer) => catalog.renameTable(ref, other, () => answer),
        (answer) => catalog.dropTable(other, () => answer, 'left'),
        async (answer) => {
          const seen = await catalog.locationsAt(place('1'), 'exact');
          const adoption = {
            ref,
            location: place('1'),
            properties: {},
            spelling: 'exact',
            seen,
            replaces: undefined,
          } as const;
          return catalog.registerTable(adoption, () => answer);
        },
        (answer) => catalog.dropTable(ref, () => answer),
      ];
      await catalog.recordTransactions([], [answered('taken')]);
      for (const [index, change] of changes.entries()) {
        await rejects(change(answered('taken', { attempt: 'another' })), 'ConcurrentModification');
        await change(answered(`${index}`)); // it was not done before
        assert.deepEqual(await find(`${index}`), answered(`${index}`));
      }
    });

    test('an answer is published together with its table (P6)', async () => {
      const creation = await catalog.reserveCreation(table('t'), undefined, place('1'));
      await catalog.publishCreation(creation, publicationOf('tx', { answer: answered('k', { answer: 'made' }) }));
      assert.deepEqual(await find('k'), answered('k', { answer: 'made' }));
    });

    test('a publication that fails leaves no answer (P6)', async () => {
      await createTable(catalog, table('other'), place('0'));
      const creation = await catalog.reserveCreation(table('t'), undefined, place('1'));
      await rejects(catalog.publishCreation(creation, publicationOf('of-0', { answer: answered('k') })), 'Internal');
      assert.equal(await find('k'), undefined);
    });

    test('a write intent is found as it was recorded, until its request is answered (P6)', async () => {
      const onMain = intentOf('a');
      const onBranch = intentOf('b', { branch: 'exp/🦊' as BranchName, baseVersion: Number.MAX_SAFE_INTEGER });
      await catalog.recordIntents([onMain, onBranch]);
      await catalog.recordIntents([]);
      assert.deepEqual(await find('b'), onBranch);
      assert.deepEqual(await catalog.writeIntents(), [onMain, onBranch]);
      await catalog.recordTransactions([transactionOf('1')], [answered('a')]);
      assert.deepEqual(await find('a'), answered('a'));
      assert.deepEqual(await catalog.writeIntents(), [onBranch]);
    });

    test('a write intent can be withdrawn; an answer stays, and so do the keys of others', async () => {
      await catalog.recordIntents([intentOf('a'), intentOf('a', { owner: bob })]);
      await catalog.recordTransactions([], [answered('b')]);
      await catalog.withdrawIntent(keyed('a'));
      await catalog.withdrawIntent(keyed('a'));
      await catalog.withdrawIntent(keyed('b'));
      assert.equal(await find('a'), undefined);
      assert.ok(await find('a', bob));
      assert.deepEqual(await find('b'), answered('b'));
    });

    test('a key that is used anew after its end forgets what it stood for', async () => {
      await catalog.recordTransactions([], [answered('k', { expiresAtMs: 5 })]);
      const more = { requestDigest: 'other', bodyDigest: 'also other', attempt: 'anew' };
      const next = intentOf('k', { ...more, askedAtMs: 5, expiresAtMs: 9 });
      await catalog.recordIntents([next]);
      assert.deepEqual(await find('k'), next);
    });

    test('what one attempt has recorded, another does not replace (P6)', async () => {
      const [made, others] = [intentOf('k'), intentOf('k', { attempt: 'another' })];
      await catalog.recordIntents([made]);
      await rejects(catalog.recordIntents([intentOf('new'), others]), 'ConcurrentModification');
      await catalog.withdrawIntent(others);
      assert.deepEqual([await find('k'), await find('new')], [made, undefined]);
      await catalog.recordIntents([{ ...made, baseVersion: 8 }]);
      await catalog.recordTransactions([], [answered('k')]);
      const answeredByOther = answered('k', { attempt: 'another', answer: 'other' });
      await rejects(catalog.recordTransactions([transactionOf('2')], [answeredByOther]), 'ConcurrentModification');
      await rejects(catalog.recordIntents([made]), 'ConcurrentModification');
      assert.deepEqual(await find('k'), answered('k'));
      assert.equal(await catalog.findTransaction('2' as TransactionId), undefined);
    });

    test('expired keys can be forgotten, a little at a time and the oldest first', async () => {
      await catalog.recordTransactions(
        [],
        [3, 1, 2, 4].map((expiresAtMs) => answered(`${expiresAtMs}`, { expiresAtMs })),
      );
      const forget = async () => (await catalog.forgetRecords({ committedBeforeMs: 0, expiredAtMs: 3 }, 2)).keys;
      assert.equal(await forget(), 2);
      assert.deepEqual([await find('1'), await find('2')], [undefined, undefined]);
      assert.ok(await find('3'));
      assert.equal(await forget(), 1);
      assert.equal(await forget(), 0);
      assert.ok(await find('4'));
    });
  });
}
