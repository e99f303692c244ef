/** A disk that fills during a commit must not make its outcome unknown: the catalog has the room for the record before (P6). */
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { RequestOwner } from '#src/catalog/port.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import type { IdempotencyKey, TableId, TransactionId } from '#src/kernel/ids.ts';
import { path, table, transactionOf } from '#test/contract/catalog/fixtures.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Random } from '#test/model/random.ts';

async function opened(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const file = join(folder, 'catalog.sqlite');
  const catalog = await openSqliteCatalog(file, { holder: { command: 'test' } });
  t.after(() => catalog.close());
  return { folder, file, catalog, logBytes: () => statSync(`${file}-wal`).size };
}

const owner = 'someone' as RequestOwner;

/** A commit of some writes, each with a key. Keys and ids are as scattered as real ones. */
function commitOf(random: Random, writes: number) {
  const names = Array.from({ length: writes }, () => `${random.int(2 ** 32)}-${random.int(2 ** 32)}`);
  const keyed = (name: string) => ({
    owner,
    key: `${name}${'k'.repeat(200)}` as IdempotencyKey,
    requestDigest: 'a'.repeat(64),
    bodyDigest: 'b'.repeat(64),
    attempt: 'c'.repeat(36),
    askedAtMs: 1_790_000_000_000,
    expiresAtMs: 1_790_000_000_000 + random.int(1_000_000),
  });
  const requests = names.map(keyed);
  return {
    ids: names as TransactionId[],
    intents: requests.map((request) => ({
      ...{ ...request, tableId: 't' as TableId, ref: table('sales', 'orders'), branch: undefined, baseVersion: 1 },
    })),
    records: names.map((name) => transactionOf(name)),
    answers: requests.map((request) => ({ ...request, answer: JSON.stringify({ text: 'x'.repeat(300) }) })),
  };
}

describe('the room in the log of the catalog', () => {
  test('has all that a commit records, also where the log begins anew', async (t) => {
    const { catalog, logBytes } = await opened(t);
    const random = new Random(7);
    for (let commit = 0; commit < 220; commit += 1) {
      const writes = commit % 50 === 0 ? 200 : 1 + random.int(8);
      const { intents, records, answers } = commitOf(random, writes);
      using _ = catalog.reserveRoom(writes, writes);
      const before = logBytes();
      await catalog.recordIntents(intents);
      await catalog.recordTransactions(records, answers);
      assert.equal(logBytes(), before, `commit ${commit} of ${writes} writes`);
    }
  });

  test('is for each commit under way', async (t) => {
    const { catalog, logBytes } = await opened(t);
    const random = new Random(8);
    const commits = Array.from({ length: 20 }, () => commitOf(random, 10));
    const rooms = commits.map(() => catalog.reserveRoom(10, 10));
    const before = logBytes();
    await Promise.all(
      commits.map(async ({ intents, records, answers }) => {
        await catalog.recordIntents(intents);
        await catalog.recordTransactions(records, answers);
      }),
    );
    assert.equal(logBytes(), before);
    for (const room of rooms) room[Symbol.dispose]();
  });

  test('is not for what others write meanwhile', async (t) => {
    const { catalog, logBytes } = await opened(t);
    const { records, answers } = commitOf(new Random(11), 4);
    using _ = catalog.reserveRoom(4, 4);
    for (let other = 0; other < 40; other += 1) await catalog.createNamespace(path(`n${other}`), {});
    const before = logBytes();
    await catalog.recordTransactions(records, answers);
    assert.equal(logBytes(), before);
  });

  test('stays the same for as long as commits follow each other', async (t) => {
    const { catalog, logBytes } = await opened(t);
    const random = new Random(9);
    let early = 0;
    for (let commit = 0; commit < 450; commit += 1) {
      using _ = catalog.reserveRoom(1, 0);
      await catalog.recordTransactions(commitOf(random, 1).records);
      if (commit === 210) early = logBytes();
    }
    assert.ok(logBytes() < 2 * early, `${early} bytes, then ${logBytes()}`);
  });

  test('is no part of what a killed process has left', async (t) => {
    const { catalog, file, folder } = await opened(t);
    const random = new Random(10);
    const ids: TransactionId[] = [];
    for (let commit = 0; commit < 130; commit += 1) {
      const { records, ids: made } = commitOf(random, 1);
      using _ = catalog.reserveRoom(1, 1);
      await catalog.recordTransactions(records);
      ids.push(...made);
    }
    const left = join(folder, 'left');
    mkdirSync(left);
    for (const ending of ['', '-wal']) copyFileSync(`${file}${ending}`, join(left, `catalog.sqlite${ending}`));
    const next = await openSqliteCatalog(join(left, 'catalog.sqlite'), { holder: { command: 'test' } });
    t.after(() => next.close());
    for (const id of ids) assert.notEqual(await next.findTransaction(id), undefined);
  });
});
