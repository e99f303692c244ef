/** Another program commits between the writer's look and the writer's commit: here, inside `Dataset.merge`. */

import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Field, Int32, Struct, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { full, withoutW } from './rows.ts';
import { byAppending, byMerging, countsOf, type Interruptions, type Spec, Stage, upsert } from './stage.ts';

const insertOnly: Spec = { ...upsert, whenMatchedUpdateAll: false };

interface Scene {
  readonly stage: Stage;
  readonly interruptions: Interruptions;
  /** Sends the sources together; an external commit comes between the writer's look and its commit. */
  readonly merge: (sources: readonly Table[], spec: Spec, externalCommit: () => Promise<unknown>) => Promise<unknown[]>;
  readonly rows: () => Promise<string[]>;
}

async function scene(
  t: TestContext,
  before: Table,
  { columns = ['id', 'v', 'w'], on = ['id'] }: { columns?: readonly string[]; on?: readonly string[] } = {},
): Promise<Scene> {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, before, { interruptions, on });
  return {
    stage,
    interruptions,
    rows: () => stage.rows(columns),
    merge: async (sources, spec, externalCommit) => {
      interruptions.merge = async () => {
        interruptions.merge = undefined;
        await externalCommit();
      };
      return countsOf(await stage.together(await Promise.all(sources.map((source) => stage.request(source, spec)))));
    },
  };
}

for (const isIndexed of [false, true]) {
  for (const [verb, byExternalWriter] of Object.entries({ appends: byAppending, merges: byMerging })) {
    describe(`an external writer ${verb} during a merge, ${isIndexed ? 'with' : 'without'} an index on the key`, () => {
      const begin = async (t: TestContext) => {
        const begun = await scene(t, full([1, 'old', 'old'], [2, 'old', 'old']));
        if (isIndexed) await begun.stage.buildIndex('id');
        return begun;
      };

      test('an upsert replaces the row it had not seen, and counts it as updated (P2, P4)', async (t) => {
        const { stage, merge, rows } = await begin(t);
        const externalCommit = byExternalWriter(stage, full([9, 'them', 'them'], [50, 'them', 'them']));
        const source = full([1, 'us', 'us'], [9, 'us', 'us'], [10, 'us', 'us']);
        assert.deepEqual(await merge([source], upsert, externalCommit), [[1, 2]]);
        assert.deepEqual(await rows(), ['10:us:us', '1:us:us', '2:old:old', '50:them:them', '9:us:us']);
      });

      test('a merge that only inserts leaves the row it had not seen (P2, P4)', async (t) => {
        const { stage, merge, rows } = await begin(t);
        const externalCommit = byExternalWriter(stage, full([9, 'them', 'them']));
        const source = full([1, 'us', 'us'], [9, 'us', 'us'], [10, 'us', 'us']);
        assert.deepEqual(await merge([source], insertOnly, externalCommit), [[1, 0]]);
        assert.deepEqual(await rows(), ['10:us:us', '1:old:old', '2:old:old', '9:them:them']);
      });

      test('an update of some columns keeps the others of the row it had not seen (P2, P4)', async (t) => {
        const { stage, merge, rows } = await begin(t);
        const externalCommit = byExternalWriter(stage, full([9, 'them', 'them']));
        const source = withoutW([1, 'us'], [9, 'us'], [10, 'us']);
        assert.deepEqual(await merge([source], upsert, externalCommit), [[1, 2]]);
        assert.deepEqual(await rows(), ['10:us:null', '1:us:old', '2:old:old', '9:us:them']);
      });

      test('an update under a filter asks it of the row it had not seen (P2, P4)', async (t) => {
        const { stage, merge, rows } = await begin(t);
        const externalCommit = byExternalWriter(stage, full([8, 'zz', 'them'], [9, 'aa', 'them']));
        const spec: Spec = {
          ...upsert,
          whenMatchedUpdateAll: { filter: ownSql("target.v < source.v OR target.v = 'x'") },
        };
        const source = full([1, 'us', 'us'], [8, 'us', 'us'], [9, 'us', 'us']);
        assert.deepEqual(await merge([source], spec, externalCommit), [[0, 2]]);
        assert.deepEqual(await rows(), ['1:us:us', '2:old:old', '8:zz:them', '9:us:us']);
      });

      test('a merge that deletes by source too', async (t) => {
        const { stage, merge, rows } = await begin(t);
        const externalCommit = byExternalWriter(stage, full([9, 'them', 'them'], [50, 'them', 'them']));
        const spec: Spec = { ...upsert, whenNotMatchedBySourceDelete: true };
        assert.deepEqual(await merge([full([1, 'us', 'us'], [9, 'us', 'us'])], spec, externalCommit), [[0, 2]]);
        assert.deepEqual(await rows(), ['1:us:us', '9:us:us']);
      });

      test('each request of a group has its own counts (P4)', async (t) => {
        const { stage, merge, rows } = await begin(t);
        const externalCommit = byExternalWriter(stage, full([9, 'them', 'them'], [50, 'them', 'them']));
        const sources = [
          full([1, 'a', 'a'], [9, 'a', 'a']),
          full([9, 'b', 'b'], [10, 'b', 'b'], [null, 'b', 'b']),
          full([10, 'c', 'c'], [11, 'c', 'c']),
        ];
        assert.deepEqual(await merge(sources, upsert, externalCommit), [
          [0, 2],
          [2, 1],
          [1, 1],
        ]);
        const expected = ['10:c:c', '11:c:c', '1:a:a', '2:old:old', '50:them:them', '9:b:b', 'null:b:b'];
        assert.deepEqual(await rows(), expected);
        assert.deepEqual(stage.commits, [3]);
        const [inserting, again] = [full([50, 'd', 'd'], [60, 'd', 'd']), full([60, 'e', 'e'])];
        assert.deepEqual(await merge([inserting, again], upsert, async () => undefined), [
          [1, 1],
          [0, 1],
        ]);
      });
    });
  }
}

test('another program that changes a row of ours too makes the engine match again, and nothing is there twice', async (t) => {
  const { stage, merge, rows } = await scene(t, full([1, 'old', 'old']));
  const externalCommit = byMerging(stage, full([1, 'them', 'them'], [9, 'them', 'them']));
  const sources = [full([1, 'a', 'a'], [9, 'a', 'a']), full([9, 'b', 'b'], [10, 'b', 'b'])];
  assert.deepEqual(await merge(sources, upsert, externalCommit), [
    [0, 2],
    [1, 1],
  ]);
  assert.deepEqual(await rows(), ['10:b:b', '1:a:a', '9:b:b']);
});

test('another program that adds a row to a key that is there does not leave it twice where the merge wrote it', async (t) => {
  const { stage, merge, rows } = await scene(t, full([1, 'old', 'old'], [2, 'old', 'old'], [3, 'old', 'old']));
  const externalCommit = byAppending(stage, full([1, 'them', 'them'], [2, 'them', 'them']));
  assert.deepEqual(await merge([full([1, 'us', 'us'], [3, 'us', 'us'])], upsert, externalCommit), [[0, 2]]);
  assert.deepEqual(await rows(), ['1:us:us', '2:old:old', '2:them:them', '3:us:us']);
});

test('an update of some columns changes both rows of a key, the one that another program added too', async (t) => {
  const { stage, merge, rows } = await scene(t, full([1, 'old', 'old'], [2, 'old', 'old']));
  await stage.buildIndex('id');
  const externalCommit = byAppending(stage, full([1, 'them', 'them']));
  assert.deepEqual(await merge([withoutW([1, 'us'])], upsert, externalCommit), [[0, 2]]);
  assert.deepEqual(await rows(), ['1:us:old', '1:us:them', '2:old:old']);
});

test('a key that was there twice before has one row afterwards (P2)', async (t) => {
  const { stage, merge, rows } = await scene(t, full([1, 'x', 'x'], [1, 'y', 'y']));
  const externalCommit = byAppending(stage, full([1, 'them', 'them']));
  assert.deepEqual(await merge([full([1, 'us', 'us'])], upsert, externalCommit), [[0, 1]]);
  assert.deepEqual(await rows(), ['1:us:us']);
  assert.deepEqual(stage.deletedRows, [2]);
});

test('composite keys: a row that shares one column is another row', async (t) => {
  const options = { on: ['id', 'v'] };
  const { stage, merge, rows } = await scene(t, full([1, 'a', 'old']), options);
  const externalCommit = byAppending(
    stage,
    full([9, 'a', 'them'], [8, 'b', 'them'], [9, 'b', 'them'], [null, 'a', 'them']),
  );
  const source = full([9, 'a', 'us'], [8, 'b', 'us'], [8, 'a', 'us'], [null, 'a', 'us']);
  assert.deepEqual(await merge([source], upsert, externalCommit), [[2, 2]]);
  const expected = ['1:a:old', '8:a:us', '8:b:us', '9:a:us', '9:b:them', 'null:a:them', 'null:a:us'];
  assert.deepEqual(await rows(), expected);
});

test('texts as keys', async (t) => {
  const { stage, merge, rows } = await scene(t, full([1, "it's", 'old']), { on: ['v'] });
  const externalCommit = byAppending(stage, full([7, "it's new", 'them'], [8, 'ünï', 'them']));
  assert.deepEqual(await merge([full([1, "it's new", 'us'], [2, 'ünï', 'us'])], upsert, externalCommit), [[0, 2]]);
  assert.deepEqual(await rows(), ["1:it's new:us", "1:it's:old", '2:ünï:us']);
});

describe('keys inside structs', () => {
  const meta = new Struct([new Field('k', new Int32(), true), new Field('tag', new Utf8(), true)]);
  const nested = (...rows: [k: number | null, tag: string, v?: string][]): Table => {
    const structs = vectorFromArray(
      rows.map(([k, tag]) => ({ k, tag })),
      meta,
    );
    const v = rows.map(([, , v]) => v ?? null);
    return rows.some(([, , v]) => v !== undefined)
      ? new Table({ meta: structs, v: vectorFromArray(v, new Utf8()) })
      : new Table({ meta: structs });
  };
  const options = { on: ['meta.k'], columns: ['meta.k', 'meta.tag', 'v'] };

  test('an upsert, also of a row whose struct is the same', async (t) => {
    const { stage, merge, rows } = await scene(t, nested([1, 'old', 'old']), options);
    const externalCommit = byAppending(stage, nested([8, 'us', 'them'], [9, 'them', 'them']));
    const source = nested([1, 'us', 'us'], [8, 'us', 'us'], [9, 'us', 'us']);
    assert.deepEqual(await merge([source], upsert, externalCommit), [[0, 3]]);
    assert.deepEqual(await rows(), ['1:us:us', '8:us:us', '9:us:us']);
  });

  test('inserting alone', async (t) => {
    const { stage, merge, rows } = await scene(t, nested([1, 'old', 'old']), options);
    const externalCommit = byAppending(stage, nested([8, 'us', 'them'], [9, 'them', 'them']));
    const source = nested([1, 'us', 'us'], [8, 'us', 'us'], [9, 'us', 'us'], [10, 'us', 'us']);
    assert.deepEqual(await merge([source], insertOnly, externalCommit), [[1, 0]]);
    assert.deepEqual(await rows(), ['10:us:us', '1:old:old', '8:us:them', '9:them:them']);
  });

  test('some of the columns', async (t) => {
    const { stage, merge, rows } = await scene(t, nested([1, 'old', 'old']), options);
    const externalCommit = byAppending(stage, nested([9, 'them', 'them']));
    assert.deepEqual(await merge([nested([1, 'us'], [9, 'us'], [10, 'us'])], upsert, externalCommit), [[1, 2]]);
    assert.deepEqual(await rows(), ['10:us:null', '1:us:old', '9:us:them']);
  });

  test('deleting by source also takes what others brought before it, and counts it', async (t) => {
    const { stage, merge, rows } = await scene(t, nested([1, 'old', 'old'], [2, 'old', 'old']), options);
    const externalCommit = byAppending(stage, nested([9, 'them', 'them'], [50, 'them', 'them'], [51, 'them', 'them']));
    const spec: Spec = { ...upsert, whenNotMatchedBySourceDelete: true };
    const source = nested([1, 'us', 'us'], [9, 'us', 'us']);
    assert.deepEqual(await merge([source], spec, externalCommit), [[0, 2]]);
    assert.deepEqual(stage.deletedRows, [3]);
    assert.deepEqual(await rows(), ['1:us:us', '9:us:us']);
  });

  test('with NULL in the key on both sides', async (t) => {
    const { stage, merge, rows } = await scene(t, nested([null, 'old', 'old']), options);
    const externalCommit = byAppending(stage, nested([null, 'us', 'them'], [9, 'them', 'them']));
    const source = nested([null, 'us', 'us'], [9, 'us', 'us']);
    assert.deepEqual(await merge([source], upsert, externalCommit), [[1, 1]]);
    assert.deepEqual(await rows(), ['9:us:us', 'null:old:old', 'null:us:them', 'null:us:us']);
  });
});
