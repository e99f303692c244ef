/** The keys a writer keeps in memory: what they survive, seen by the past versions it has to open for them. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { full, type Row, withoutW } from './rows.ts';
import { byAppending, countsOf, type Interruptions, type Spec, Stage, upsert } from './stage.ts';

/** Two requests whose counts the totals leave open. */
async function sendMixed(
  stage: Stage,
  known: number,
  fresh: number,
  { spec = upsert, tableOf = full }: { readonly spec?: Spec; readonly tableOf?: typeof full } = {},
): Promise<unknown[]> {
  const sources: Row[][] = [[[known, 'a']], [[fresh, 'b']]];
  return countsOf(
    await stage.together(await Promise.all(sources.map((rows) => stage.request(tableOf(...rows), spec)))),
  );
}

const exact = [
  [0, 1],
  [1, 0],
];

test('known keys are kept over tidying and indexing, between groups and beside them (P8)', async (t) => {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, full([1, 'old']), { interruptions });
  assert.deepEqual(await sendMixed(stage, 1, 2), exact);
  assert.deepEqual(stage.versionsOpened, [1]);
  await stage.buildIndex('id');
  await stage.tidy();
  await stage.moveRows();
  assert.deepEqual(await sendMixed(stage, 2, 3), exact);
  interruptions.merge = async () => {
    interruptions.merge = undefined;
    await stage.buildIndex('v');
  };
  assert.deepEqual(await sendMixed(stage, 3, 4), exact);
  assert.deepEqual(await sendMixed(stage, 4, 5), exact);
  assert.deepEqual(stage.versionsOpened, [1]);
  assert.deepEqual(stage.toldBy, ['memory', 'memory', 'memory', 'memory']);
  assert.deepEqual(stage.warnings, []);
});

test('known keys are kept when the table is opened anew because indexes need more memory (P8)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  assert.deepEqual(await sendMixed(stage, 1, 2), exact);
  await stage.needRoomForIndexes();
  assert.deepEqual(await sendMixed(stage, 2, 3), exact);
  assert.equal(stage.timesOpened, 2);
  assert.deepEqual(stage.versionsOpened, [1]);
  assert.deepEqual(stage.toldBy, ['memory', 'memory']);
});

test('known keys are forgotten once nobody has asked for them for long, and are read again for who does (P7)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  assert.deepEqual(await sendMixed(stage, 1, 2), exact);
  for (let commit = 0; commit < 64; commit++) {
    assert.ok(stage.keyBudget.heldBytes > 0, `after ${commit} commits`);
    if (commit === 30) assert.deepEqual(await sendMixed(stage, 2, 3), exact);
    assert.deepEqual(countsOf(await stage.together([await stage.request(full([1, 'alone']))])), [[0, 1]]);
  }
  for (let commit = 64; stage.keyBudget.heldBytes > 0; commit++) {
    assert.ok(commit < 100, 'they are never forgotten');
    await stage.together([await stage.request(full([1, 'alone']))]);
  }
  assert.deepEqual(await sendMixed(stage, 3, 4), exact);
  assert.deepEqual(stage.toldBy, ['memory', 'memory', 'memory']);
});

test('known keys are forgotten when somebody else changes rows, even between two tidyings (P4)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  assert.deepEqual(await sendMixed(stage, 1, 2), exact);
  await stage.buildIndex('id');
  await byAppending(stage, full([50, 'them']))();
  await stage.tidy();
  assert.deepEqual(await sendMixed(stage, 50, 51), exact);
});

test('keys that look alike do not spoil the counts, and known keys are kept all the same (P4)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']), { keyHash: { markOf: (key) => Number(key) % 10 } });
  assert.deepEqual(await sendMixed(stage, 1, 2), exact);
  assert.deepEqual(await sendMixed(stage, 2, 11), exact);
  assert.deepEqual(await sendMixed(stage, 11, 3), exact);
  assert.deepEqual(await sendMixed(stage, 3, 4), exact);
  assert.deepEqual(stage.versionsOpened, [1, 2]);
  assert.deepEqual(stage.toldBy, ['memory', 'commit', 'memory', 'memory']);
  assert.equal(stage.readings, 1);
});

describe('the keys of a larger table are read beside its commits (P4, P8, P10)', () => {
  /** Every reading waits until the test says so. */
  async function open(t: TestContext) {
    const interruptions: Interruptions = {};
    const begun = Promise.withResolvers<void>();
    const reading = Promise.withResolvers<void>();
    const stage = await Stage.open(t, full([1, 'old'], [7, 'old'], [7, 'twin']), { interruptions, readAtOnceRows: 0 });
    interruptions.readKeys = () => {
      begun.resolve();
      return reading.promise;
    };
    const [letRead, failReading] = [reading.resolve, reading.reject];
    return { stage, interruptions, begun: begun.promise, letRead, failReading };
  }

  /** Commits new keys, and one that is known, until memory tells: the reading needs some of their time. */
  async function sendUntilMemoryTells(stage: Stage, from: number): Promise<void> {
    for (let next = from; stage.toldBy.at(-1) !== 'memory'; next += 1) {
      assert.ok(next < from + 200, 'the keys are never known');
      assert.deepEqual(await sendMixed(stage, 1, next), exact);
    }
  }

  test('once doing without them has cost as much', async (t) => {
    const rows: Row[] = Array.from({ length: 100_001 }, (_, id) => [id, 'old']);
    const stage = await Stage.open(t, full(...rows));
    const many = rows.slice(0, 5_600).map(([id]): Row => [id, 'new']);
    const send = async (fresh: number) =>
      countsOf(await stage.together([await stage.request(full(...many)), await stage.request(full([fresh, 'b']))]));
    const counts = [
      [0, 5_600],
      [1, 0],
    ];
    for (let commit = 0; commit < 3; commit++) assert.deepEqual(await send(200_000 + commit), counts);
    assert.equal(stage.readings, 0);
    assert.deepEqual(await send(200_003), counts);
    await sendUntilMemoryTells(stage, 200_004);
    assert.equal(stage.readings, 1);
    assert.deepEqual(await send(300_000), counts);
    assert.equal(stage.toldBy.at(-1), 'memory');
    assert.equal(stage.searches, 0);
  });

  test('what commits insert meanwhile is known afterwards, and rows that were there are not counted twice', async (t) => {
    const { stage, letRead } = await open(t);
    for (const [known, fresh] of [
      [1, 2],
      [2, 3],
      [1, 4],
    ] as const)
      assert.deepEqual(await sendMixed(stage, known, fresh), exact);
    await stage.tidy();
    assert.deepEqual(await sendMixed(stage, 4, 5), exact);
    assert.deepEqual(countsOf(await stage.together([await stage.request(full([6, 'alone']))])), [[1, 0]]);
    assert.deepEqual(stage.toldBy, ['commit', 'commit', 'commit', 'commit']);
    letRead();
    await sendUntilMemoryTells(stage, 100);
    for (const known of [1, 2, 3, 4, 5, 6]) assert.deepEqual(await sendMixed(stage, known, 1_000 + known), exact);
    assert.deepEqual(await sendMixed(stage, 7, 2_000), [
      [0, 2],
      [1, 0],
    ]);
    assert.deepEqual(new Set(stage.toldBy.slice(-7)), new Set(['memory']));
    assert.equal(stage.readings, 1);
  });

  test('a commit of somebody else meanwhile makes the reading worthless', async (t) => {
    const { stage, begun, letRead } = await open(t);
    assert.deepEqual(await sendMixed(stage, 1, 2), exact);
    assert.deepEqual(await sendMixed(stage, 1, 3), exact);
    await begun;
    await byAppending(stage, full([50, 'them']))();
    assert.deepEqual(await sendMixed(stage, 50, 51), exact);
    letRead();
    await sendUntilMemoryTells(stage, 100);
    assert.deepEqual(await sendMixed(stage, 50, 1_000), exact);
    assert.equal(stage.readings, 2);
  });

  test('a reading that fails is begun again by a later commit', async (t) => {
    const { stage, interruptions, begun, failReading } = await open(t);
    assert.deepEqual(await sendMixed(stage, 1, 2), exact);
    assert.deepEqual(await sendMixed(stage, 1, 3), exact);
    await begun;
    interruptions.readKeys = undefined;
    failReading(new Error('the version has been removed'));
    await sendUntilMemoryTells(stage, 100);
    assert.equal(stage.readings, 2);
    assert.deepEqual(stage.warnings, []);
  });
});

test('a table that takes the place of another at the same version has keys of its own (P4)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  assert.deepEqual(await sendMixed(stage, 1, 2), exact);
  await stage.replace(full([7, 'new']), 2);
  assert.deepEqual(await sendMixed(stage, 7, 1), exact);
});

describe('where there is no room for the keys, a table is searched for them only if the commit does not tell (P4, P8)', () => {
  const onlyInserting: Spec = { ...upsert, whenMatchedUpdateAll: false };
  const onlyUpdating: Spec = { ...upsert, whenNotMatchedInsertAll: false };
  const found = [
    [0, 0],
    [1, 0],
  ];
  const updated = [
    [0, 1],
    [0, 0],
  ];

  for (const { title, tells, spec, counts, hidesChanges, tableOf } of [
    { title: 'an upsert', tells: true, spec: upsert, counts: exact },
    { title: 'a merge that only inserts', tells: true, spec: onlyInserting, counts: found },
    {
      title: 'an update of some columns in place',
      tells: false,
      spec: onlyUpdating,
      counts: updated,
      tableOf: withoutW,
    },
    { title: 'an upsert on an object store', tells: false, spec: upsert, counts: exact, hidesChanges: true },
  ]) {
    test(`${title}: it ${tells ? 'tells' : 'does not'}`, async (t) => {
      const rows = full([1, 'old', 'w'], [2, 'old', 'w'], [7, 'old', 'w'], [7, 'twin', 'w']);
      const stage = await Stage.open(t, rows, { keyMemoryBytes: 0, hidesChanges: hidesChanges === true });
      await stage.buildIndex('id');
      assert.deepEqual(await sendMixed(stage, 2, 3, { spec, ...(tableOf && { tableOf }) }), counts);
      assert.equal(stage.searches, tells ? 0 : 1);
      assert.deepEqual(stage.toldBy, [tells ? 'commit' : 'search']);
    });
  }

  test('keys that are there twice are counted twice', async (t) => {
    const stage = await Stage.open(t, full([7, 'old'], [7, 'twin']), { keyMemoryBytes: 0 });
    assert.deepEqual(await sendMixed(stage, 7, 8), [
      [0, 2],
      [1, 0],
    ]);
    assert.deepEqual(await sendMixed(stage, 8, 9), exact);
    assert.equal(stage.searches, 0);
  });
});
