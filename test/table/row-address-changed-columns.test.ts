/** Upserts by row address after another program changed columns, settings or all rows: no key has two rows, and none is lost. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Int64, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { directCommits, openKnown, sendRows, sendTogether, sendUntilDirectCommit } from './direct-commits.ts';
import { full, type Row } from './rows.ts';
import { countsOf, type Stage } from './stage.ts';

const before: readonly Row[] = [
  [1, 'old', '3'],
  [2, 'old', '2'],
  [3, 'old', '1'],
];

type External = Awaited<ReturnType<Stage['externalWriter']>>;

interface Change {
  readonly title: string;
  readonly does: (table: External) => Promise<unknown>;
  /** Of an upsert of the keys 2 and 9. */
  readonly counts: readonly [number, number][];
  readonly rows: readonly string[];
  /** The columns are in another order than those of a source, which are not written by row address then. */
  readonly isReordered?: boolean;
}

const found: Pick<Change, 'counts' | 'rows'> = {
  counts: [
    [0, 1],
    [1, 0],
  ],
  rows: ['1:known', '2:us', '3:old', '9:us'],
};

const changes: readonly Change[] = [
  {
    title: 'renamed a column, and back',
    does: async (table) => {
      await table.alterColumns([{ path: 'v', rename: 'x' }]);
      await table.alterColumns([{ path: 'x', rename: 'v' }]);
    },
    ...found,
  },
  {
    title: 'gave another column the name of the key',
    does: async (table) => {
      await table.addColumns([{ name: 'other', valueSql: 'CAST(4 - id AS INT)' }]);
      await table.dropColumns(['id']);
      await table.alterColumns([{ path: 'other', rename: 'id' }]);
    },
    // 1 and 3 have changed places.
    counts: found.counts,
    rows: ['1:old', '2:us', '3:known', '9:us'],
    isReordered: true,
  },
  {
    title: 'changed the values of the key in place',
    does: (table) => table.update({ where: 'id = 3', valuesSql: { id: '9' } }),
    counts: [
      [0, 1],
      [0, 1],
    ],
    rows: ['1:known', '2:us', '9:us'],
  },
  {
    title: 'cast a column, and back',
    does: async (table) => {
      await table.alterColumns([{ path: 'v', dataType: 'large_string' }]);
      await table.alterColumns([{ path: 'v', dataType: 'string' }]);
    },
    ...found,
  },
  {
    title: 'replaced all rows by others in fragments of the same ids',
    does: (table) => table.add(full([9, 'them'], [4, 'them']), { mode: 'overwrite' }),
    counts: [
      [1, 0],
      [0, 1],
    ],
    rows: ['2:us', '4:them', '9:us'],
  },
  {
    title: 'brought back the first version',
    does: async (table) => {
      await table.checkout(1);
      await table.restore();
    },
    counts: found.counts,
    rows: ['1:old', '2:us', '3:old', '9:us'],
  },
  {
    title: 'deleted the key and brought it back with an earlier version',
    does: async (table) => {
      const version = await table.version();
      await table.delete('id = 2');
      await table.checkout(version);
      await table.restore();
    },
    ...found,
  },
];

describe('another program between two upserts (P2)', () => {
  for (const { title, does, counts, rows, isReordered = false } of changes) {
    test(title, async (t) => {
      const { stage } = await openKnown(t, full(...before));
      await does(await stage.externalWriter());
      assert.deepEqual(await sendRows(stage, [[2, 'us']], [[9, 'us']]), counts);
      assert.deepEqual(await stage.rows(), rows);
      if (isReordered) await sendRows(stage, [[9, 'again']]);
      else await sendUntilDirectCommit(stage, () => stage.request(full([9, 'again'])));
      assert.deepEqual(
        await stage.rows(),
        rows.map((row) => (row === '9:us' ? '9:again' : row)),
      );
    });

    test(`${title}, while ours was under way`, async (t) => {
      const { stage, once } = await openKnown(t, full(...before));
      once(async () => does(await stage.externalWriter()));
      assert.deepEqual(await sendRows(stage, [[2, 'us']], [[9, 'us']]), counts);
      assert.deepEqual(await stage.rows(), rows);
    });
  }

  test('cast the key: it is another one for the key index', async (t) => {
    const { stage } = await openKnown(t, full(...before));
    await (await stage.externalWriter()).alterColumns([{ path: 'id', dataType: 'int64' }]);
    const wide = (...rows: readonly Row[]) =>
      new Table({
        id: vectorFromArray(
          rows.map(([id]) => BigInt(id ?? 0)),
          new Int64(),
        ),
        v: vectorFromArray(
          rows.map(([, v]) => v),
          new Utf8(),
        ),
        w: vectorFromArray(
          rows.map(() => null),
          new Utf8(),
        ),
      });
    const sent = await sendTogether(stage, [stage.request(wide([2, 'us'])), stage.request(wide([9, 'us']))]);
    assert.deepEqual(countsOf(sent), found.counts);
    assert.deepEqual(await stage.rows(), found.rows);
    await sendUntilDirectCommit(stage, () => stage.request(wide([9, 'again'])));
    assert.deepEqual(
      await stage.rows(),
      found.rows.map((row) => (row === '9:us' ? '9:again' : row)),
    );
  });

  test('changed the metadata of a column: rows stay where they are, and the next upsert is direct', async (t) => {
    const { stage } = await openKnown(t, full(...before));
    const table = await stage.externalWriter();
    await table.updateFieldMetadata([{ path: 'v', metadata: { unit: 'm' } }]);
    assert.deepEqual(await sendRows(stage, [[2, 'us']], [[9, 'us']]), found.counts);
    assert.equal(directCommits(stage), 1);
    assert.deepEqual(await stage.rows(), found.rows);
  });
});
