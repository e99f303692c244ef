/** Which rows differ between two versions, by manifests alone, compared with the rows that both versions have. */
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { type Table as Connected, connect } from '@lancedb/lancedb';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import type { Dataset, RowsOfFragment } from '#src/engine/port/dataset.ts';
import { addressOf, rowAddress } from '#src/engine/port/row-address.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { numbersFrom } from '#test/http/wide-table.ts';

const location = 't.lance' as Location;
const upsert = upsertOn('id');

/** Each row is told apart by the values of both columns. */
const rows = (ids: readonly number[], n: number): IpcFile =>
  ipcFile(
    new Table({
      id: vectorFromArray([...ids], new Int32()),
      n: vectorFromArray(
        ids.map(() => n),
        new Int32(),
      ),
    }),
  );

async function stage(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const engine = engineIn(folder);
  const dataset = await createDataset(engine, location, rows(numbersFrom(0, 20), 0), {});
  t.after(() => dataset.close());

  const rowsAt = async (version: number): Promise<Map<string, string>> => {
    const past = await engine.open({ location, version });
    const columns = ['id', 'n', rowAddress].map((name) => ({ name, expression: ownSql(name) }));
    const files = await Array.fromAsync(past.select(columns, undefined));
    past.close();
    return new Map(files.flatMap((file) => rowsOf(file)).map((row) => [String(row[rowAddress]), `${row.id} ${row.n}`]));
  };

  /** What the manifests say, and what reading both versions says. */
  const compare = async (after: number, until: number) => {
    const found = (await dataset.rowsBetween(after, until)) ?? { removed: [], added: [] };
    const [before, now] = [await rowsAt(after), await rowsAt(until)];
    const named = (listed: readonly RowsOfFragment[], among: ReadonlyMap<string, string>) =>
      listed
        .flatMap(({ fragment, count, offsets }) =>
          [...(offsets ?? numbersFrom(0, count))].map((offset) => among.get(addressOf({ fragment, offset })) ?? 'none'),
        )
        .sort();
    const [old, present] = [new Set(before.values()), new Set(now.values())];
    return {
      found: { removed: named(found.removed, before), added: named(found.added, now) },
      truth: { removed: [...old.difference(present)].sort(), added: [...present.difference(old)].sort() },
      versions: found.added.map(({ version }) => version),
    };
  };

  return {
    dataset,
    compare,
    assertExact: async (after: number, until: number) => {
      const { found, truth } = await compare(after, until);
      assert.deepEqual(found, truth, `of ${after} to ${until}`);
    },
    outside: async (write: (table: Connected) => Promise<unknown>) => {
      const table = await (await connect(folder)).openTable('t');
      await write(table);
      table.close();
      await dataset.refresh();
    },
    /** Its manifest goes. */
    lose: (version: number) => rm(join(folder, location, '_versions', `${2n ** 64n - 1n - BigInt(version)}.manifest`)),
    compact: async (
      ids: readonly number[],
      meanwhile: (writer: Dataset) => Promise<unknown> = async () => undefined,
    ) => {
      const prepared = await dataset.prepareCompaction(ids);
      const writer = await engine.open({ location });
      await meanwhile(writer);
      writer.close();
      await dataset.refresh();
      await prepared?.commit();
    },
  };
}

describe('the rows that differ between two versions', () => {
  test('are exact where rows were deleted before, during and after a compaction (P1)', async (t) => {
    const { dataset, assertExact, compact } = await stage(t);
    for (const i of [1, 2, 3]) await appendTo(dataset, rows(numbersFrom(20 * i, 20 * i + 20), i));
    await mergeInto(dataset, upsert, rows([3, 4, 25, 47], 5));
    const before = await dataset.version();
    await compact([0, 1, 2, 3], (writer) => mergeInto(writer, upsert, rows([0, 24, 26, 45, 79], 6)));
    const moved = await dataset.version();
    const { fragments } = await dataset.layout();
    assert.ok(
      fragments.some(({ deletedRows }) => deletedRows === 5),
      'the compacted fragment has rows that were deleted meanwhile',
    );
    await mergeInto(dataset, upsert, rows([1, 27, 46, 78], 7));
    const last = await dataset.version();
    const ids = fragments.map(({ id }) => id ?? 0);
    await compact([...ids, ...ids.map((id) => id + 1)].filter((id, i, all) => all.indexOf(id) === i));
    const newest = await dataset.version();
    for (const [after, until] of [
      [before, before + 1],
      [before, moved],
      [moved, last],
      [before, last],
      [before, newest],
      [1, newest],
      [moved, newest],
      [last, newest],
    ] as const)
      await assertExact(after, until);
  });

  test('are the rows that a restore brought back, also once a compaction has moved them', async (t) => {
    const { dataset, assertExact, compact, outside, compare } = await stage(t);
    await appendTo(dataset, rows(numbersFrom(20, 40), 1));
    const whole = await dataset.version();
    await outside((table) => table.delete('id IN (3, 30)'));
    await outside(async (table) => {
      await table.checkout(whole);
      await table.restore();
    });
    await compact([0, 1]);
    const newest = await dataset.version();
    await assertExact(whole, newest);
    await assertExact(whole + 1, newest);
    assert.deepEqual((await compare(whole + 1, newest)).versions, [newest]);
  });

  test('are too many rather than too few where a version in between is gone', async (t) => {
    const { dataset, compare, compact, lose } = await stage(t);
    await appendTo(dataset, rows(numbersFrom(20, 40), 1));
    const before = await dataset.version();
    await compact([0, 1]);
    const compacted = await dataset.version();
    await mergeInto(dataset, upsert, rows([5, 50], 2));
    await lose(compacted);
    const { found, truth, versions } = await compare(before, compacted + 1);
    assert.deepEqual(new Set(versions), new Set([compacted + 1]));
    for (const side of ['removed', 'added'] as const) {
      assert.deepEqual(new Set(truth[side]).difference(new Set(found[side])), new Set());
      assert.ok(found[side].length > truth[side].length);
    }
    assert.equal(await dataset.rowsBetween(compacted, compacted + 1), undefined, 'the earlier version itself is gone');
  });

  test('are all rows that got a value in a version that is gone, although a compaction moved them', async (t) => {
    const { dataset, compare, compact, lose, outside } = await stage(t);
    await appendTo(dataset, rows(numbersFrom(20, 40), 1));
    const before = await dataset.version();
    await outside((table) => table.addColumns([{ name: 'twice', valueSql: 'id * 2' }]));
    await compact([0, 1]);
    await lose(before + 1);
    const { found } = await compare(before, before + 2);
    assert.deepEqual([found.removed.length, found.added.length], [40, 40]);
  });
});
