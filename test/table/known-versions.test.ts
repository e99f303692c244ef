import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Float64, Int32, Int64, Table, type Utf8, vectorFromArray } from 'apache-arrow';
import { directCommits, sendUntilDirectCommit } from './direct-commits.ts';
import { byAppending, Stage, type StageOptions } from './stage.ts';

interface Versioned {
  readonly id: number;
  readonly v: number;
  readonly w?: number;
}

const column = <Value>(rows: readonly Versioned[], of: (row: Versioned) => Value, type: Int32 | Utf8) =>
  vectorFromArray(rows.map(of), type);
const tableOf = (...rows: readonly Versioned[]): Table =>
  new Table({
    id: column(rows, ({ id }) => id, new Int32()),
    v: column(rows, ({ v }) => v, new Int32()),
    w: column(rows, ({ w = 0 }) => w, new Int32()),
  });

const sent = async (stage: Stage, by: 'v' | 'w', ...rows: readonly Versioned[]) => ({
  ...(await stage.request(tableOf(...rows))),
  versionColumn: { segments: [by] },
});

/** Merges by version; answers how many rows were updated, how many were stale, and how many versions were read for it. */
async function merged(stage: Stage, ...rows: readonly Versioned[]): Promise<number[]> {
  const before = stage.versionsTaken;
  const { numUpdatedRows, numStaleRows = -1 } = await stage.merge(await sent(stage, 'v', ...rows));
  return [numUpdatedRows, numStaleRows, stage.versionsTaken - before];
}

/** The key index has the rows 1 to 4, all of version 5, and row 9. */
async function openKnown(t: TestContext, options: StageOptions = {}): Promise<Stage> {
  const rows = [1, 2, 3, 4].map((id) => ({ id, v: 5 }));
  const stage = await Stage.open(t, tableOf(...rows, { id: 9, v: 0 }), { hasKeyIndex: true, ...options });
  await sendUntilDirectCommit(stage, () => sent(stage, 'v', { id: 9, v: 0 }));
  return stage;
}

test('a merge by version reads no version of rows that the key index has read, or that were written by version', async (t) => {
  const stage = await openKnown(t);
  assert.deepEqual(await merged(stage, { id: 1, v: 6 }, { id: 2, v: 4 }), [1, 1, 0]);
  assert.deepEqual(await merged(stage, { id: 1, v: 5 }, { id: 2, v: 5 }), [1, 1, 0]);
  assert.deepEqual(await merged(stage, { id: 1, v: 6 }, { id: 7, v: 1 }), [1, 0, 0]);
  assert.deepEqual(await merged(stage, { id: 1, v: 5 }, { id: 7, v: 0 }), [0, 2, 0]);
  assert.deepEqual(await stage.rows(), ['1:6', '2:5', '3:5', '4:5', '7:1', '9:0']);
});

test('the version of a row that a plain merge wrote is read once', async (t) => {
  const stage = await openKnown(t);
  await stage.merge(await stage.request(tableOf({ id: 1, v: 2 }, { id: 2, v: 8 })));
  assert.deepEqual(await merged(stage, { id: 1, v: 3 }, { id: 2, v: 7 }, { id: 3, v: 5 }), [2, 1, 2]);
  assert.deepEqual(await merged(stage, { id: 1, v: 2 }, { id: 2, v: 7 }), [0, 2, 0]);
});

test('what a merge by another column has read or written is no version of this one', async (t) => {
  const stage = await openKnown(t);
  const { numStaleRows } = await stage.merge(await sent(stage, 'w', { id: 1, v: 3, w: 9 }, { id: 2, v: 3, w: -1 }));
  assert.equal(numStaleRows, 1);
  assert.deepEqual(await merged(stage, { id: 1, v: 4 }, { id: 2, v: 4 }), [1, 1, 2]);
});

test('a compaction leaves versions known', async (t) => {
  const stage = await openKnown(t);
  await merged(stage, { id: 1, v: 6 }, { id: 2, v: 6 });
  await stage.moveRows();
  assert.deepEqual(await merged(stage, { id: 1, v: 5 }, { id: 2, v: 6 }, { id: 3, v: 4 }), [1, 2, 0]);
});

/** Row 1 has version 8 afterwards. */
const outsiders: Readonly<Record<string, (stage: Stage) => Promise<unknown>>> = {
  'updates the version': async (stage) =>
    (await stage.externalWriter()).update({ where: 'id = 1', valuesSql: { v: '8' } }),
  'deletes a row and appends it': async (stage) => {
    await (await stage.externalWriter()).delete('id = 1');
    await byAppending(stage, tableOf({ id: 1, v: 8 }))();
  },
  'doubles a row': (stage) => byAppending(stage, tableOf({ id: 1, v: 8 }))(),
  'doubles a row by a newer and an older one': async (stage) => {
    await byAppending(stage, tableOf({ id: 1, v: 8 }))();
    await byAppending(stage, tableOf({ id: 1, v: 3 }))();
  },
  'makes the column again': async (stage) => {
    const table = await stage.externalWriter();
    await table.dropColumns(['v']);
    await table.addColumns([{ name: 'v', valueSql: "arrow_cast(8, 'Int32')" }]);
  },
  'gives the column another name, and another column its own': async (stage) => {
    const table = await stage.externalWriter();
    await table.update({ valuesSql: { w: '8' } });
    await table.alterColumns([{ path: 'v', rename: 'x' }]);
    await table.alterColumns([{ path: 'w', rename: 'v' }]);
    await table.alterColumns([{ path: 'x', rename: 'w' }]);
  },
};

for (const [what, does] of Object.entries(outsiders))
  test(`a merge by version is right after another program ${what} (P2)`, async (t) => {
    const stage = await openKnown(t);
    assert.deepEqual(await merged(stage, { id: 1, v: 6 }), [1, 0, 0]);
    await does(stage);
    const counted = await merged(stage, { id: 1, v: 7 });
    assert.deepEqual(counted.slice(0, 2), [0, 1]);
  });

test('after a restore whose fragments have the numbers of later ones, versions are those of the restored rows (P2)', async (t) => {
  const stage = await openKnown(t);
  const table = await stage.externalWriter();
  const before = await table.version();
  assert.deepEqual(await merged(stage, { id: 1, v: 9 }), [1, 0, 0]);
  await table.checkout(before);
  await table.restore();
  await table.add(tableOf({ id: 8, v: 1 }));
  assert.deepEqual((await merged(stage, { id: 1, v: 6 }, { id: 8, v: 2 })).slice(0, 2), [2, 0]);
  assert.deepEqual((await merged(stage, { id: 1, v: 5 }, { id: 8, v: 1 })).slice(0, 2), [0, 2]);
});

test('an overtaken commit leaves no version behind', async (t) => {
  const interruptions: NonNullable<StageOptions['interruptions']> = {};
  const stage = await openKnown(t, { interruptions });
  interruptions.merge = async () => {
    interruptions.merge = undefined;
    await (await stage.externalWriter()).update({ where: 'id = 1', valuesSql: { v: '8' } });
  };
  assert.deepEqual((await merged(stage, { id: 1, v: 7 })).slice(0, 2), [0, 1]);
  assert.deepEqual((await merged(stage, { id: 1, v: 8 })).slice(0, 2), [1, 0]);
});

test('where there is no room for versions the key index goes on without them, and reads them (P7)', async (t) => {
  const rows = Array.from({ length: 4_000 }, (_, id) => ({ id, v: 5 }));
  const stage = await Stage.open(t, tableOf(...rows), { hasKeyIndex: true, keyMemoryBytes: 230_000 });
  await sendUntilDirectCommit(stage, () => sent(stage, 'v', { id: 9, v: 5 }));
  const direct = directCommits(stage);
  assert.deepEqual(await merged(stage, { id: 1, v: 6 }, { id: 2, v: 4 }), [1, 1, 2]);
  assert.deepEqual(await merged(stage, { id: 1, v: 5 }, { id: 2, v: 5 }), [1, 1, 2]);
  assert.equal(directCommits(stage), direct + 2);
});

for (const [type, values] of [
  [new Float64(), [-0.5, 0.25, 0.5]],
  [new Int64(), [-(2n ** 63n), 2n ** 62n, 2n ** 62n + 1n]],
] as const)
  test(`versions of type ${type} are compared as they are, known or read`, async (t) => {
    const of = (value: number | bigint): Table =>
      new Table({ id: vectorFromArray([1], new Int32()), v: vectorFromArray([value], type) });
    const stage = await Stage.open(t, of(values[0]), { hasKeyIndex: true });
    const request = async (value: number | bigint) => ({
      ...(await stage.request(of(value))),
      versionColumn: { segments: ['v'] },
    });
    await sendUntilDirectCommit(stage, () => request(values[0]));
    const stale: number[] = [];
    for (const value of [0, 1, 0, 2, 1, 2].map((index) => values[index]!))
      stale.push((await stage.merge(await request(value))).numStaleRows ?? -1);
    assert.deepEqual(stale, [0, 0, 1, 0, 1, 0]);
  });
