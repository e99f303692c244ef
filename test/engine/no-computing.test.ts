/** The engine's tables in the service's own process. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { Staging } from '#src/engine/lance/commit/staging.ts';
import { connectNative, type NativeTable, newSession } from '#src/engine/lance/native/native.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

async function made(t: TestContext, isForWorker: boolean): Promise<NativeTable> {
  const connection = await connectNative(temporaryFolder(t.after.bind(t)), {}, newSession(0, 0), isForWorker);
  const rows = ipcFile(new Table({ id: vectorFromArray([1, 2, 3], new Int32()) }));
  const table = await connection.createTable('t', rows, 'create', []);
  await table.add(rows, 'append');
  return table;
}
const isOne = ownSql('id = 1');
const computing: Readonly<Record<string, (table: NativeTable) => unknown>> = {
  'a condition': (table) => table.query(),
  'a count under one': (table) => table.countRows(isOne),
  'a deletion': (table) => table.delete(isOne),
  'a merge': (table) => table.mergeInsert(['id']),
  'a compaction': (table) => table.optimize(1, false),
  'a new column': (table) => table.addColumns([{ name: 'b', valueSql: ownSql('id + 1') }]),
};

test('encode rows, take them by address and read metadata (P12)', async (t) => {
  const table = await made(t, false);
  assert.equal(await table.countRows(), 6);
  assert.equal((await table.stats()).fragmentStats.numFragments, 2);
  const taken = table.takeRowIds([1n]);
  taken.select([['id', 'id']]);
  assert.ok((await (await taken.execute()).next()) !== null);
});

for (const [what, compute] of Object.entries(computing)) {
  test(`refuse ${what}, of a branch too, which a worker's do (P12)`, async (t) => {
    const table = await made(t, false);
    await (await table.branches()).create('dev', null, null);
    const branch = await (await table.branches()).checkout('dev');
    for (const each of [table, branch]) {
      await assert.rejects(async () => compute(each), /in a process that is no worker/);
    }
    await compute(await made(t, true));
  });
}

test('refuse a compaction of what is staged for a commit, too (P12)', async (t) => {
  const rows = ipcFile(new Table({ id: vectorFromArray([1, 2, 3], new Int32()) }));
  const made = async (isForWorker: boolean) => {
    const { connection } = await new Staging(temporaryFolder(t.after.bind(t)), undefined, {}, isForWorker).begin();
    return connection.createTable('t', rows, 'create', []);
  };
  const staged = await made(false);
  await staged.add(rows, 'append');
  assert.equal(await staged.countRows(), 6);
  await assert.rejects(async () => staged.optimize(1, false), /in a process that is no worker/);
  await (await made(true)).optimize(1, false);
});
