/** Known places beside what others do to the table, sources that do not fit, and commits that fail. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Field, makeData, RecordBatch, Schema, Struct, Table } from 'apache-arrow';
import { LancegateError } from '#src/kernel/errors.ts';
import { placed, sendTogether, sendUntilPlaced } from './placed.ts';
import { full, type Row, withoutW } from './rows.ts';
import { byAppending, byMerging, countsOf, type Interruptions, Stage } from './stage.ts';

const send = async (stage: Stage, ...sources: readonly Row[][]): Promise<unknown[]> =>
  countsOf(
    await sendTogether(
      stage,
      sources.map((rows) => stage.request(full(...rows))),
    ),
  );

async function openKnown(t: TestContext, rows: Table = full([1, 'old'], [2, 'old'], [3, 'old'])) {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, rows, { interruptions, knowsPlaces: true });
  await sendUntilPlaced(stage, () => stage.request(full([1, 'known'])));
  stage.replacements.length = 0;
  const once = (does: () => Promise<unknown>): void => {
    interruptions.merge = async () => {
      interruptions.merge = undefined;
      await does();
    };
  };
  return { stage, interruptions, once };
}

const deleting = (stage: Stage, where: string) => async () => (await stage.outsider()).delete(where);

describe('somebody else commits between the look and the commit by places (P1, P2, P4)', () => {
  for (const { title, does, counts, rows } of [
    {
      title: 'the same keys, and others',
      does: (stage: Stage) => byMerging(stage, full([2, 'them'], [3, 'them'], [9, 'them'], [50, 'them'])),
      counts: [
        [0, 1],
        [0, 1],
        [1, 0],
      ],
      rows: ['10:us', '1:known', '2:us', '3:them', '50:them', '9:us'],
    },
    {
      title: 'a new key of ours',
      does: (stage: Stage) => byAppending(stage, full([9, 'them'])),
      counts: [
        [0, 1],
        [0, 1],
        [1, 0],
      ],
      rows: ['10:us', '1:known', '2:us', '3:old', '9:us'],
    },
    {
      title: 'a key of ours, which they delete',
      does: (stage: Stage) => deleting(stage, 'id IN (2, 3)'),
      counts: [
        [1, 0],
        [1, 0],
        [1, 0],
      ],
      rows: ['10:us', '1:known', '2:us', '9:us'],
    },
    {
      title: 'nothing new: they put fragments together',
      does: (stage: Stage) => () => stage.tidy(),
      counts: [
        [0, 1],
        [1, 0],
        [1, 0],
      ],
      rows: ['10:us', '1:known', '2:us', '3:old', '9:us'],
    },
  ]) {
    test(`${title}: ours comes on top`, async (t) => {
      const { stage, once } = await openKnown(t);
      once(does(stage));
      assert.deepEqual(await send(stage, [[2, 'us']], [[9, 'us']], [[10, 'us']]), counts);
      assert.deepEqual(stage.replacements, ['overtaken']);
      assert.deepEqual(await stage.rows(), rows);
      await sendUntilPlaced(stage, () => stage.request(full([9, 'us'])));
      assert.deepEqual(await stage.rows(), rows);
    });
  }

  test('an index, which leaves all rows where they are: ours is by places all the same', async (t) => {
    const { stage, once } = await openKnown(t);
    once(() => stage.buildIndex('id'));
    assert.deepEqual(await send(stage, [[2, 'us']], [[9, 'us']]), [
      [0, 1],
      [1, 0],
    ]);
    assert.deepEqual(stage.replacements, ['made']);
    const indexed = await stage.outsider();
    assert.equal((await indexed.listIndices()).length, 1);
    assert.equal(await indexed.countRows('id = 2'), 1);
  });
});

describe('somebody else commits between two of ours', () => {
  test('fragments put together move places, and none is read again (P8)', async (t) => {
    const { stage } = await openKnown(t);
    for (let round = 0; round < 4; round++) {
      assert.deepEqual(await send(stage, [[1, 'a']], [[10 + round, 'b']], [[2, 'c']]), [
        [0, 1],
        [1, 0],
        [0, 1],
      ]);
      await stage.tidy();
    }
    await stage.buildIndex('id');
    assert.deepEqual(await send(stage, [[1, 'z']], [[12, 'z']], [[3, 'z']]), [
      [0, 1],
      [0, 1],
      [0, 1],
    ]);
    assert.deepEqual(new Set(stage.replacements), new Set(['made']));
    assert.equal(stage.placeReadings, 1);
    assert.deepEqual(await stage.rows(), ['10:b', '11:b', '12:z', '13:b', '1:z', '2:c', '3:z']);
  });

  test('their rows alone are read, and what they delete is gone (P2, P4)', async (t) => {
    const { stage } = await openKnown(t);
    await byAppending(stage, full([50, 'them'], [51, 'them']))();
    await deleting(stage, 'id IN (2, 51)')();
    await stage.moveRows();
    await byMerging(stage, full([3, 'them']))();
    assert.deepEqual(await send(stage, [[50, 'us']], [[51, 'us']], [[2, 'us']], [[3, 'us']]), [
      [0, 1],
      [1, 0],
      [1, 0],
      [0, 1],
    ]);
    assert.deepEqual(stage.replacements, ['made']);
    assert.deepEqual(await stage.rows(), ['1:known', '2:us', '3:us', '50:us', '51:us']);
  });

  test('what they bring and put together beside a reading is found as well (P2)', async (t) => {
    const interruptions: Interruptions = {};
    const rows: Row[] = Array.from({ length: 10_001 }, (_, id) => [id, 'old']);
    const stage = await Stage.open(t, full(...rows), { interruptions, knowsPlaces: true });
    const reading = Promise.withResolvers<void>();
    interruptions.readPlaces = () => reading.promise;
    const mergeOne = async (id: number) => countsOf(await stage.together([await stage.request(full([id, 'us']))]));
    for (let sent = 0; stage.placeReadings === 0; sent++) {
      assert.ok(sent < 200, 'the places are never read');
      assert.deepEqual(await mergeOne(1), [[0, 1]]);
    }
    assert.deepEqual(await mergeOne(20_000), [[1, 0]]);
    interruptions.readPlaces = undefined;
    reading.resolve();
    await stage.placesRead();
    await stage.tidy();
    assert.deepEqual(await mergeOne(20_000), [[0, 1]]);
    assert.deepEqual(
      (await stage.rows()).filter((row) => row.startsWith('20000:')),
      ['20000:us'],
    );
  });

  test('values written anew in place, or columns changed, are left to the engine first (P2)', async (t) => {
    const { stage } = await openKnown(t);
    const outsider = await stage.outsider();
    await outsider.update({ where: 'id = 2', values: { v: 'them' } });
    await outsider.addColumns([{ name: 'x', valueSql: 'id' }]);
    await outsider.dropColumns(['x']);
    assert.deepEqual(await send(stage, [[2, 'us']], [[9, 'us']]), [
      [0, 1],
      [1, 0],
    ]);
    assert.deepEqual(await send(stage, [[3, 'us']], [[9, 'us']]), [
      [0, 1],
      [0, 1],
    ]);
    assert.deepEqual(await stage.rows(), ['1:known', '2:us', '3:us', '9:us']);
  });

  test('an earlier version put back is what ours comes on top of (P1, P2)', async (t) => {
    const { stage } = await openKnown(t);
    const outsider = await stage.outsider();
    const version = await outsider.version();
    assert.deepEqual(await send(stage, [[2, 'later']], [[9, 'later']]), [
      [0, 1],
      [1, 0],
    ]);
    await outsider.checkout(version);
    await outsider.restore();
    assert.deepEqual(await send(stage, [[9, 'us']], [[3, 'us']]), [
      [1, 0],
      [0, 1],
    ]);
    assert.deepEqual(await stage.rows(), ['1:known', '2:old', '3:us', '9:us']);
  });
});

/** The columns of `rows` in this order; nullable or not. */
function shaped(rows: readonly Row[], names: readonly string[], nullable: boolean): Table {
  const { schema, batches } = full(...rows);
  const fields = names.map((name) => schema.fields.find((field) => field.name === name)!);
  const renamed = new Schema(fields.map((field) => new Field(field.name, field.type, nullable)));
  const children = fields.map((field) => batches[0]!.getChild(field.name)!.data[0]!);
  const data = makeData({ type: new Struct(renamed.fields), children, length: rows.length, nullCount: 0 });
  return new Table(renamed, [new RecordBatch(renamed, data)]);
}

describe('a source that is not stored as the table is', () => {
  for (const { title, table, source, w } of [
    { title: 'columns in another order', source: (rows: Row[]) => shaped(rows, ['w', 'id', 'v'], true), w: 'w' },
    { title: 'some columns', source: (rows: Row[]) => withoutW(...rows), w: 'old' },
    {
      title: 'NULL allowed where the table does not',
      table: (rows: Row[]) => shaped(rows, ['id', 'v', 'w'], false),
      source: (rows: Row[]) => shaped(rows, ['id', 'v', 'w'], true),
      w: 'w',
    },
  ]) {
    test(`${title}: the engine merges it, and it is not tried each time (P2, P4)`, async (t) => {
      const rows: Row[] = Array.from({ length: 30_000 }, (_, id) => [id, 'old', 'old']);
      const stage = await Stage.open(t, (table ?? ((all: Row[]) => full(...all)))(rows), { knowsPlaces: true });
      const sendOne = async (id: number) =>
        countsOf(await sendTogether(stage, [stage.request(source([[id, 'new', 'w']]))]));
      for (let sent = 0; stage.replacements.length === 0; sent++) {
        assert.ok(sent < 200, 'it is never tried');
        assert.deepEqual(await sendOne(sent), [[0, 1]]);
      }
      for (let sent = 0; sent < 6; sent++) assert.deepEqual(await sendOne(sent), [[0, 1]]);
      assert.deepEqual(await sendOne(40_000), [[1, 0]]);
      assert.deepEqual(stage.replacements, ['refused']);
      assert.deepEqual(
        (await stage.rows(['id', 'v', 'w'])).filter((row) => /^(5|40000|9999):/.test(row)),
        [`40000:new:${w === 'old' ? 'null' : 'w'}`, `5:new:${w}`, '9999:old:old'],
      );
    });
  }

  test('no NULL allowed where the table does: it is by places (P4)', async (t) => {
    const { stage } = await openKnown(t);
    const source = shaped(
      [
        [2, 'new', 'w'],
        [9, 'new', 'w'],
      ],
      ['id', 'v', 'w'],
      false,
    );
    assert.deepEqual(countsOf(await sendTogether(stage, [stage.request(source)])), [[1, 1]]);
    assert.deepEqual(stage.replacements, ['made']);
    await stage.tidy();
    assert.deepEqual(
      await send(stage, [
        [9, 'again'],
        [null, 'again'],
      ]),
      [[1, 1]],
    );
    assert.deepEqual(await stage.rows(), ['1:known', '2:new', '3:old', '9:again', 'null:again']);
  });

  test('values that lie: refused alone, and its neighbours share their commit all the same', async (t) => {
    const { stage } = await openKnown(t);
    const bad = await stage.request(full([7, 'bad']));
    const offsets = bad.piece.file.indexOf(Buffer.from([0, 0, 0, 0, 3, 0, 0, 0]));
    bad.piece.file.writeInt32LE(-5, offsets + 4);
    const good = [5, 6].map((id) => stage.request(full([id, 'good'])));
    const [first, refused, second] = await sendTogether(stage, [good[0]!, Promise.resolve(bad), good[1]!]);
    assert.deepEqual([first?.status, second?.status], ['fulfilled', 'fulfilled']);
    assert.ok(refused?.status === 'rejected' && (refused.reason as LancegateError).kind === 'InvalidInput');
    const alone = await sendTogether(stage, [Promise.resolve(bad)]);
    assert.equal((countsOf(alone)[0] as LancegateError).kind, 'InvalidInput');
    assert.deepEqual(await stage.rows(), ['1:known', '2:old', '3:old', '5:good', '6:good']);
    assert.deepEqual(await send(stage, [[5, 'good']], [[7, 'new']]), [
      [0, 1],
      [1, 0],
    ]);
  });
});

describe('a commit by places fails (P3, P6)', () => {
  const broken = () => Promise.reject(new LancegateError('Internal', 'the disk is gone'));

  for (const { title, at, isWritten } of [
    { title: 'before anything is written', at: 'merge', isWritten: false },
    { title: 'when its files are synced', at: 'sync', isWritten: true },
    { title: 'when it is recorded', at: 'record', isWritten: true },
  ] as const) {
    test(`${title}: nobody is told that it was made, and what is there is found afterwards`, async (t) => {
      const { stage, interruptions } = await openKnown(t);
      const commits = stage.commits.length;
      interruptions[at] = broken;
      const answers = await sendTogether(stage, [stage.request(full([2, 'us'])), stage.request(full([9, 'us']))]);
      for (const answer of answers) assert.equal((answer as PromiseRejectedResult).reason.kind, 'Internal');
      assert.equal(stage.commits.length, commits);
      interruptions[at] = undefined;
      assert.deepEqual(
        await stage.rows(),
        isWritten ? ['1:known', '2:us', '3:old', '9:us'] : ['1:known', '2:old', '3:old'],
      );
      assert.deepEqual(await send(stage, [[2, 'us']], [[9, 'us']]), [[0, 1], isWritten ? [0, 1] : [1, 0]]);
      assert.deepEqual(await stage.rows(), ['1:known', '2:us', '3:old', '9:us']);
      assert.equal(placed(stage), isWritten ? 2 : 0);
    });
  }
});
