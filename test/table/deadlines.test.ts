/** A write whose time is over before its commit is not written, whatever its kind (P6). */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { ChangeOfBranch, ChangeRequest } from '#src/change/change-request.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { type Interruptions, Stage } from './stage.ts';

const idsOf = (...ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });

/** A table with one row; `endTime` ends the time of what `insert` and `change` send. */
async function open(t: TestContext) {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, idsOf(1), { interruptions });
  let leftMs = 1_000;
  const endTime = async (): Promise<void> => {
    leftMs = 0;
  };
  const request = async (rows: Table) => {
    const insert = await stage.insertRequest(rows);
    return { ...insert, scope: { ...insert.scope, remainingMs: () => leftMs } };
  };
  const change = async (what: ChangeOfBranch): Promise<unknown> => {
    const { table, branch, scope, transactionId, keyed } = await request(idsOf());
    const operation = 'update';
    const sent: ChangeRequest = { kind: 'change', operation, table, branch, scope, transactionId, keyed, ...what };
    return stage.writer.write(sent);
  };
  const unchanged = async (write: Promise<unknown>): Promise<void> => {
    await assert.rejects(write, { kind: 'TimedOut' });
    assert.deepEqual(await stage.rows(['id']), ['1']);
  };
  return { stage, interruptions, endTime, request, change, unchanged };
}

const appending = { step: { kind: 'append', rows: 1 }, file: ipcFile(idsOf(2)) } as const;

test('rows that the engine has added in a shadow', async (t) => {
  const { stage, interruptions, endTime, request, unchanged } = await open(t);
  interruptions.shadowCommit = endTime;
  await unchanged(stage.insert({ ...(await request(idsOf(2))), mode: 'overwrite' }));
});

test('rows that another program has overtaken', async (t) => {
  const { stage, interruptions, endTime, request } = await open(t);
  interruptions.merge = async () => {
    interruptions.merge = undefined;
    await (await stage.externalWriter()).delete('id = 1');
    await endTime();
  };
  await assert.rejects(stage.insert(await request(idsOf(2))), { kind: 'TimedOut' });
  assert.deepEqual(await stage.rows(['id']), []);
});

test('the steps of a change', async (t) => {
  const { interruptions, endTime, change, unchanged } = await open(t);
  interruptions.shadowCommit = endTime;
  await unchanged(change({ steps: [appending] }));
});

test('a step whose time was over before it began', async (t) => {
  const { endTime, change, unchanged } = await open(t);
  let hasBegun = false;
  const nothing = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 };
  const first = { changesRowsOnly: true, run: () => endTime().then(() => nothing) };
  const second = {
    changesRowsOnly: true,
    run: async () => {
      hasBegun = true;
      return nothing;
    },
  };
  await unchanged(change({ steps: [first, second] }));
  assert.equal(hasBegun, false);
});

test('a manifest alone', async (t) => {
  const { endTime, change, unchanged } = await open(t);
  await endTime();
  await unchanged(change({ manifest: { kind: 'schema metadata', metadata: { a: 'b' } } }));
});
