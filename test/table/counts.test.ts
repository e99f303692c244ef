/** What tells whose rows were new, where the key index does not know. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { full, type Row, withoutW } from './rows.ts';
import { countsOf, type Spec, Stage, upsert } from './stage.ts';

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

describe('a table is searched for the keys of a batch only if its commit does not tell (P4, P8)', () => {
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
      assert.deepEqual(stage.countedBy, [tells ? 'commit' : 'search']);
    });
  }

  test('of a key that is there twice one row is updated, and the other deleted', async (t) => {
    const stage = await Stage.open(t, full([7, 'old'], [7, 'twin']), { keyMemoryBytes: 0 });
    assert.deepEqual(await sendMixed(stage, 7, 8), [
      [0, 1],
      [1, 0],
    ]);
    assert.deepEqual(stage.deletedRows, [1, 0]);
    assert.deepEqual(await sendMixed(stage, 8, 9), exact);
    assert.equal(stage.searches, 0);
  });
});
