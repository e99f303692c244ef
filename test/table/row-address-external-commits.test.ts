/** The key index while other programs change the table. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openKnown, sendRows, sendUntilDirectCommit } from './direct-commits.ts';
import { full, type Row } from './rows.ts';
import { byAppending, byMerging, countsOf, type Interruptions, Stage } from './stage.ts';

const before: readonly Row[] = [
  [1, 'old'],
  [2, 'old'],
  [3, 'old'],
];

const deleting = (stage: Stage, where: string) => async () => (await stage.externalWriter()).delete(where);

describe('another program commits between the look and the direct commit (P1, P2, P4)', () => {
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
      title: 'nothing new: they compact fragments',
      does: (stage: Stage) => () => stage.compact(),
      counts: [
        [0, 1],
        [1, 0],
        [1, 0],
      ],
      rows: ['10:us', '1:known', '2:us', '3:old', '9:us'],
    },
  ]) {
    test(`${title}: ours comes on top`, async (t) => {
      const { stage, once } = await openKnown(t, full(...before));
      once(does(stage));
      assert.deepEqual(await sendRows(stage, [[2, 'us']], [[9, 'us']], [[10, 'us']]), counts);
      assert.deepEqual(stage.replacements, ['overtaken', 'made']);
      assert.ok(stage.addressReadings <= 2, 'the key index is kept, and no more than their rows is read');
      assert.deepEqual(await stage.rows(), rows);
      await sendUntilDirectCommit(stage, () => stage.request(full([9, 'us'])));
      assert.deepEqual(await stage.rows(), rows);
    });
  }

  test('an index, which leaves all rows where they are: ours is direct all the same', async (t) => {
    const { stage, once } = await openKnown(t, full(...before));
    once(() => stage.buildIndex('id'));
    assert.deepEqual(await sendRows(stage, [[2, 'us']], [[9, 'us']]), [
      [0, 1],
      [1, 0],
    ]);
    assert.deepEqual(stage.replacements, ['made']);
    const indexed = await stage.externalWriter();
    assert.equal((await indexed.listIndices()).length, 1);
    assert.equal(await indexed.countRows('id = 2'), 1);
  });
});

describe('another program commits between two of ours', () => {
  test('compacted fragments change addresses, and no key is read again (P8)', async (t) => {
    const { stage } = await openKnown(t, full(...before));
    for (let round = 0; round < 4; round++) {
      assert.deepEqual(await sendRows(stage, [[1, 'a']], [[10 + round, 'b']], [[2, 'c']]), [
        [0, 1],
        [1, 0],
        [0, 1],
      ]);
      await stage.compact();
    }
    await stage.buildIndex('id');
    assert.deepEqual(await sendRows(stage, [[1, 'z']], [[12, 'z']], [[3, 'z']]), [
      [0, 1],
      [0, 1],
      [0, 1],
    ]);
    assert.deepEqual(new Set(stage.replacements), new Set(['made']));
    assert.equal(stage.addressReadings, 1);
    assert.deepEqual(await stage.rows(), ['10:b', '11:b', '12:z', '13:b', '1:z', '2:c', '3:z']);
  });

  test('their rows alone are read, and what they delete is gone (P2, P4)', async (t) => {
    const { stage } = await openKnown(t, full(...before));
    await byAppending(stage, full([50, 'them'], [51, 'them']))();
    await deleting(stage, 'id IN (2, 51)')();
    await stage.moveRows();
    await byMerging(stage, full([3, 'them']))();
    assert.deepEqual(await sendRows(stage, [[50, 'us']], [[51, 'us']], [[2, 'us']], [[3, 'us']]), [
      [0, 1],
      [1, 0],
      [1, 0],
      [0, 1],
    ]);
    assert.deepEqual(stage.replacements, ['made']);
    assert.deepEqual(await stage.rows(), ['1:known', '2:us', '3:us', '50:us', '51:us']);
  });

  test('what it adds and compacts during a reading is found as well (P2)', async (t) => {
    const interruptions: Interruptions = {};
    const rows: Row[] = Array.from({ length: 10_001 }, (_, id) => [id, 'old']);
    const stage = await Stage.open(t, full(...rows), { interruptions, hasKeyIndex: true });
    const reading = Promise.withResolvers<void>();
    interruptions.readAddresses = () => reading.promise;
    const mergeOne = async (id: number) => countsOf(await stage.together([await stage.request(full([id, 'us']))]));
    for (let sent = 0; stage.addressReadings === 0; sent++) {
      assert.ok(sent < 200, 'the key index is never read');
      assert.deepEqual(await mergeOne(1), [[0, 1]]);
    }
    assert.deepEqual(await mergeOne(20_000), [[1, 0]]);
    interruptions.readAddresses = undefined;
    reading.resolve();
    await stage.addressesRead();
    await stage.compact();
    assert.deepEqual(await mergeOne(20_000), [[0, 1]]);
    assert.deepEqual(
      (await stage.rows()).filter((row) => row.startsWith('20000:')),
      ['20000:us'],
    );
  });

  test('values written anew in place, or columns changed, are left to the engine first (P2)', async (t) => {
    const { stage } = await openKnown(t, full(...before));
    const externalWriter = await stage.externalWriter();
    await externalWriter.update({ where: 'id = 2', values: { v: 'them' } });
    await externalWriter.addColumns([{ name: 'x', valueSql: 'id' }]);
    await externalWriter.dropColumns(['x']);
    assert.deepEqual(await sendRows(stage, [[2, 'us']], [[9, 'us']]), [
      [0, 1],
      [1, 0],
    ]);
    assert.deepEqual(await sendRows(stage, [[3, 'us']], [[9, 'us']]), [
      [0, 1],
      [0, 1],
    ]);
    assert.deepEqual(await stage.rows(), ['1:known', '2:us', '3:us', '9:us']);
  });

  test('an earlier version put back is what ours comes on top of (P1, P2)', async (t) => {
    const { stage } = await openKnown(t, full(...before));
    const externalWriter = await stage.externalWriter();
    const version = await externalWriter.version();
    assert.deepEqual(await sendRows(stage, [[2, 'later']], [[9, 'later']]), [
      [0, 1],
      [1, 0],
    ]);
    await externalWriter.checkout(version);
    await externalWriter.restore();
    assert.deepEqual(await sendRows(stage, [[9, 'us']], [[3, 'us']]), [
      [1, 0],
      [0, 1],
    ]);
    assert.deepEqual(await stage.rows(), ['1:known', '2:old', '3:us', '9:us']);
  });
});
