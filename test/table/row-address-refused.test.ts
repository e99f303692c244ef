/** Sources that are not stored as the table is, and direct commits that fail. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Field, makeData, RecordBatch, Schema, Struct, Table } from 'apache-arrow';
import { LancegateError } from '#src/kernel/errors.ts';
import { directCommits, openKnown, sendRows, sendTogether } from './direct-commits.ts';
import { full, type Row, withoutW } from './rows.ts';
import { countsOf, Stage } from './stage.ts';

const before: readonly Row[] = [
  [1, 'old'],
  [2, 'old'],
  [3, 'old'],
];

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
  for (const { title, table, source } of [
    { title: 'columns in another order', source: (rows: Row[]) => shaped(rows, ['w', 'id', 'v'], true) },
    {
      title: 'NULL allowed where the table does not',
      table: (rows: Row[]) => shaped(rows, ['id', 'v', 'w'], false),
      source: (rows: Row[]) => shaped(rows, ['id', 'v', 'w'], true),
    },
  ]) {
    test(`${title}: the engine merges it, and it is not tried each time (P2, P4)`, async (t) => {
      const rows: Row[] = Array.from({ length: 60_000 }, (_, id) => [id, 'old', 'old']);
      const stage = await Stage.open(t, (table ?? ((all: Row[]) => full(...all)))(rows), {
        hasKeyIndex: true,
        keyMemoryBytes: 1 << 23,
      });
      const sendOne = async (id: number) =>
        countsOf(await sendTogether(stage, [stage.request(source([[id, 'new', 'w']]))]));
      for (let sent = 0; stage.replacements.length === 0; sent++) {
        assert.ok(sent < 200, 'it is never tried');
        assert.deepEqual(await sendOne(sent), [[0, 1]]);
      }
      for (let sent = 0; sent < 6; sent++) assert.deepEqual(await sendOne(sent), [[0, 1]]);
      assert.deepEqual(await sendOne(80_000), [[1, 0]]);
      assert.deepEqual(stage.replacements, ['refused']);
      assert.deepEqual(
        (await stage.rows(['id', 'v', 'w'])).filter((row) => /^(5|80000|9999):/.test(row)),
        ['5:new:w', '80000:new:w', '9999:old:old'],
      );
    });
  }

  test('some columns: it is direct once the key index is read, with what the rows hold in the others (P2, P4)', async (t) => {
    const rows: Row[] = Array.from({ length: 60_000 }, (_, id) => [id, 'old', 'old']);
    const stage = await Stage.open(t, full(...rows), { hasKeyIndex: true, keyMemoryBytes: 1 << 23 });
    const sendOne = async (id: number) => countsOf(await sendTogether(stage, [stage.request(withoutW([id, 'new']))]));
    for (let sent = 0; sent < 40; sent++) assert.deepEqual(await sendOne(sent), [[0, 1]]);
    assert.deepEqual(await sendOne(80_000), [[1, 0]]);
    assert.deepEqual(new Set(stage.replacements), new Set(['made']));
    assert.deepEqual(
      (await stage.rows(['id', 'v', 'w'])).filter((row) => /^(5|80000|9999):/.test(row)),
      ['5:new:old', '80000:new:null', '9999:old:old'],
    );
  });

  test('no NULL allowed where the table does: its commit is direct (P4)', async (t) => {
    const { stage } = await openKnown(t, full(...before));
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
    await stage.compact();
    assert.deepEqual(
      await sendRows(stage, [
        [9, 'again'],
        [null, 'again'],
      ]),
      [[1, 1]],
    );
    assert.deepEqual(await stage.rows(), ['1:known', '2:new', '3:old', '9:again', 'null:again']);
  });

  test('values that lie: refused alone, and its neighbours share their commit all the same', async (t) => {
    const { stage } = await openKnown(t, full(...before));
    const bad = await stage.request(full([7, 'bad']));
    const offsets = bad.chunk.file.indexOf(Buffer.from([0, 0, 0, 0, 3, 0, 0, 0]));
    bad.chunk.file.writeInt32LE(-5, offsets + 4);
    const good = [5, 6].map((id) => stage.request(full([id, 'good'])));
    const [first, refused, second] = await sendTogether(stage, [good[0]!, Promise.resolve(bad), good[1]!]);
    assert.deepEqual([first?.status, second?.status], ['fulfilled', 'fulfilled']);
    assert.ok(refused?.status === 'rejected' && (refused.reason as LancegateError).kind === 'InvalidInput');
    const alone = await sendTogether(stage, [Promise.resolve(bad)]);
    assert.equal((countsOf(alone)[0] as LancegateError).kind, 'InvalidInput');
    assert.deepEqual(await stage.rows(), ['1:known', '2:old', '3:old', '5:good', '6:good']);
    assert.deepEqual(await sendRows(stage, [[5, 'good']], [[7, 'new']]), [
      [0, 1],
      [1, 0],
    ]);
  });
});

describe('a direct commit fails (P3, P6)', () => {
  const broken = () => Promise.reject(new LancegateError('Internal', 'the disk is gone'));

  for (const { title, at, isWritten } of [
    { title: 'before anything is written', at: 'merge', isWritten: false },
    { title: 'when its files are synced', at: 'sync', isWritten: true },
    { title: 'when it is recorded', at: 'record', isWritten: true },
  ] as const) {
    test(`${title}: it is not acknowledged, and what is there is found afterwards`, async (t) => {
      const { stage, interruptions } = await openKnown(t, full(...before));
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
      assert.deepEqual(await sendRows(stage, [[2, 'us']], [[9, 'us']]), [[0, 1], isWritten ? [0, 1] : [1, 0]]);
      assert.deepEqual(await stage.rows(), ['1:known', '2:us', '3:old', '9:us']);
      assert.equal(directCommits(stage), isWritten ? 2 : 1, 'what is known is still so');
    });
  }
});

test('what only says whether to read the key index fails no merge that is committed (P6)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']), { hasKeyIndex: true, cannotCount: true });
  assert.deepEqual(await sendRows(stage, [[1, 'new']]), [[0, 1]]);
  assert.deepEqual(await sendRows(stage, [[2, 'new']], [[3, 'new']]), [
    [1, 0],
    [1, 0],
  ]);
  assert.deepEqual(await stage.rows(), ['1:new', '2:new', '3:new']);
});
