/** Indexes that are built while others write to the indexed column, or change other columns: what holds is committed. */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Field, FixedSizeList, Float32, Int32, makeData, Schema, Struct, Table, vectorFromArray } from 'apache-arrow';
import { btreeOn, type IndexSpec } from '#src/engine/port/index-spec.ts';
import type { IndexRequest } from '#src/indexing/index-kind.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { TransactionId } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { location, never, Stage, upsert } from './stage.ts';

const item = new FixedSizeList(2, new Field('item', new Float32(), true));

/** Rows with `n` as number and as vector, and perhaps with a column of no index. */
function rows(ids: readonly number[], n: (id: number) => number, isWhole = true): Table {
  const ints = (values: readonly number[]) => vectorFromArray(values, new Int32()).data[0]!;
  const floats = Float32Array.from(ids.flatMap((id) => [n(id), 1]));
  const vector = makeData({ type: item, length: ids.length, child: makeData({ type: new Float32(), data: floats }) });
  const named = { id: ints(ids), n: ints(ids.map(n)), vec: vector, ...(isWhole && { other: ints(ids) }) };
  const fields = Object.entries(named).map(([name, { type }]) => new Field(name, type, true));
  const children = Object.values(named) as never;
  return new Table(new Schema(fields), makeData({ type: new Struct(fields), length: ids.length, children }) as never);
}

const upTo = (from: number, to: number): readonly number[] => Array.from({ length: to - from }, (_, at) => from + at);

const flatOn: IndexSpec = {
  name: 'vec_idx',
  column: 'vec',
  options: { type: 'IVF_FLAT', vector: { numPartitions: 1, distance: 'l2' } },
};

/** A table of two fragments of 300 rows. */
async function opened(t: TestContext) {
  const stage = await Stage.open(
    t,
    rows(upTo(0, 300), (id) => id),
  );
  await stage.insert(await stage.insertRequest(rows(upTo(300, 600), (id) => id)));
  const dataset = await stage.engine.open({ location });
  await createIndex(dataset, 'id'); // with it, the engine writes columns anew for rows that stay where they are
  t.after(() => dataset.close());
  const build = async (spec: IndexSpec): Promise<IndexRequest> => ({
    ...{ kind: 'index', operation: 'create_index', table: stage.record, branch: undefined, keyed: undefined },
    scope: {
      ...{ requestId: 'r', signal: never, remainingMs: () => undefined },
      principal: { subject: 'a', scopes: [], groups: [], issuer: 'test' },
    },
    transactionId: randomUUID() as TransactionId,
    ...{ spec, isReplacing: false, dataset, prepared: await dataset.prepareIndex(spec), prepareLocked: undefined },
  });
  const table = async () => (await connect(`${stage.folder}/tables`)).openTable('t');
  const indexOf = async (name: string) => (await (await table()).listIndices()).find((index) => index.name === name);
  const change = async (ids: readonly number[]): Promise<void> => {
    const writer = await stage.engine.open({ location });
    const shadow = await writer.shadow();
    const spec = { ...upsert, on: ['id'], whenNotMatchedInsertAll: false };
    await mergeInto(shadow, spec, ipcFile(rows(ids, (id) => id + 10_000, false)));
    await shadow.commit();
    writer.close();
  };
  return { stage, dataset, build, change, table, indexOf };
}

const idsOf = (found: readonly Record<string, unknown>[]) => found.map(({ id }) => id);

for (const spec of [btreeOn('n'), flatOn]) {
  test(`an index of ${spec.column} that writers change in place covers the fragments that they left alone`, async (t) => {
    const { stage, build, change, table, indexOf } = await opened(t);
    const request = await build(spec);
    await change([5]);
    await stage.writer.write(request);
    const stored = await table();
    const index = await indexOf(spec.name);
    assert.deepEqual([index?.numIndexedRows, index?.numUnindexedRows], [300, 300]);
    for (const [n, ids] of [
      [5, []],
      [10_005, [5]],
      [6, [6]],
      [400, [400]],
    ] as const) {
      assert.deepEqual(idsOf(await stored.query().where(`n = ${n}`).toArray()), ids, `rows with n = ${n}`);
      const [nearest] = await stored.query().nearestTo([n, 1]).limit(1).toArray();
      assert.equal(nearest.id === ids[0], ids.length > 0, `nearest to ${n}`);
    }
  });
}

test('an index of which nothing is left is built again while the writers wait, where that is short', async (t) => {
  const { stage, dataset, build, change, indexOf } = await opened(t);
  const [refused, built] = [await build(btreeOn('n')), await build(btreeOn('n'))];
  await change([5, 305]);
  await assert.rejects(
    stage.writer.write(refused),
    (error) => error instanceof LancegateError && error.kind === 'ConcurrentModification',
  );
  const again: IndexRequest = { ...built, prepareLocked: () => dataset.prepareIndex(btreeOn('n')) };
  await stage.writer.write(again);
  const index = await indexOf('n_idx');
  assert.deepEqual([index?.numIndexedRows, index?.numUnindexedRows], [600, 0]);
});

test('an index is built beside writers that add, drop and change other columns, in one commit with rows too', async (t) => {
  const { stage, build, table, indexOf } = await opened(t);
  const request = await build(btreeOn('n'));
  const dataset = await stage.engine.open({ location });
  const shadow = await dataset.shadow();
  const limits = { timeoutMs: undefined, principal: undefined };
  const add = { kind: 'add columns', columns: [{ name: 'more', value: ownSql('id + 1') }] } as never;
  await shadow.change(add, undefined, limits);
  await shadow.change({ kind: 'drop columns', columns: ['other'] } as never, undefined, limits);
  await shadow.deleteWhere(ownSql('id = 7'));
  await shadow.commit();
  dataset.close();
  await stage.writer.write(request);
  const stored = await table();
  const index = await indexOf('n_idx');
  assert.deepEqual([index?.numIndexedRows, index?.numUnindexedRows], [599, 0]);
  assert.deepEqual(idsOf(await stored.query().where('n IN (7, 8)').toArray()), [8]);
});

test('an index of a column that was dropped meanwhile is refused for good', async (t) => {
  const { stage, build } = await opened(t);
  const request = await build(btreeOn('n'));
  const dataset = await stage.engine.open({ location });
  const shadow = await dataset.shadow();
  const drop = { kind: 'drop columns', columns: ['n'] } as never;
  await shadow.change(drop, undefined, { timeoutMs: undefined, principal: undefined });
  await shadow.commit();
  dataset.close();
  await assert.rejects(
    stage.writer.write(request),
    (error) => error instanceof LancegateError && error.kind === 'TableColumnNotFound',
  );
});
