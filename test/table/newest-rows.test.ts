import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { LancegateError } from '#src/kernel/errors.ts';
import { Random } from '#test/model/random.ts';
import { sendUntilDirectCommit } from './direct-commits.ts';
import { byAppending, type Spec, Stage, upsert } from './stage.ts';

interface Versioned {
  readonly id: number;
  readonly v: number | null;
  readonly name: string;
}

const tableOf = (rows: readonly Versioned[]): Table =>
  new Table({
    id: vectorFromArray(
      rows.map(({ id }) => id),
      new Int32(),
    ),
    v: vectorFromArray(
      rows.map(({ v }) => v),
      new Int32(),
    ),
    name: vectorFromArray(
      rows.map(({ name }) => name),
      new Utf8(),
    ),
  });

const versionOf = ({ v }: Versioned): number => v ?? Number.NEGATIVE_INFINITY;

/** What one merge after the other does, and what each counts: inserted, updated and stale rows. */
const inOrder = (table: Map<number, Versioned>, sources: readonly (readonly Versioned[])[], spec: Spec): number[][] =>
  sources.map((source) => {
    const done = source.map((row) => merged(table, row, spec));
    return (['inserted', 'updated', 'stale'] as const).map((what) => done.filter((each) => each === what).length);
  });

function merged(table: Map<number, Versioned>, row: Versioned, spec: Spec): 'inserted' | 'updated' | 'stale' | 'left' {
  const there = table.get(row.id);
  if (there !== undefined && versionOf(row) < versionOf(there)) return 'stale';
  if (there === undefined ? !spec.whenNotMatchedInsertAll : spec.whenMatchedUpdateAll === false) return 'left';
  table.set(row.id, row);
  return there === undefined ? 'inserted' : 'updated';
}

const specs: readonly Spec[] = [
  upsert,
  { ...upsert, whenMatchedUpdateAll: false },
  { ...upsert, whenNotMatchedInsertAll: false },
];

const versioned = async (stage: Stage, ...rows: readonly Versioned[]) => ({
  ...(await stage.request(tableOf(rows))),
  versionColumn: { segments: ['v'] },
});

for (const hasKeyIndex of [true, false])
  test(`merges by version that share a commit, ${hasKeyIndex ? 'by row address' : 'in a shadow'}, do and count as one after the other (P2, P4)`, async (t) => {
    const random = new Random(Number(process.env.LANCEGATE_NEWEST_SEED ?? 1));
    const ids = Array.from({ length: 8 }, (_, id) => id);
    const drawn = (id: number, name: string): Versioned => ({ id, v: random.chance(20) ? null : random.int(6), name });
    for (const spec of [...specs, ...specs]) {
      const before = random.sample(ids, 4).map((id) => drawn(id, 'old'));
      const stage = await Stage.open(t, tableOf(before), { hasKeyIndex });
      const table = new Map(before.map((row) => [row.id, row]));
      for (let round = 0; round < 4; round += 1) {
        const sources = Array.from({ length: 5 }, (_, source) =>
          random.sample(ids, 1 + random.int(5)).map((id) => drawn(id, `${round}.${source}`)),
        );
        const plain = await Promise.all(sources.map((source) => stage.request(tableOf(source), spec)));
        const requests = plain.map((request) => ({ ...request, versionColumn: { segments: ['v'] } }));
        const answers = await stage.together(requests);
        const counted = answers.map((answer) => {
          assert.equal(answer.status, 'fulfilled', String('reason' in answer && answer.reason));
          const { numInsertedRows, numUpdatedRows, numStaleRows } = answer.value;
          return [numInsertedRows, numUpdatedRows, numStaleRows];
        });
        assert.deepEqual(counted, inOrder(table, sources, spec), JSON.stringify(spec));
      }
    }
  });

test('of merges by version one whose values lie is refused alone, and its neighbours share their commit all the same', async (t) => {
  const stage = await Stage.open(t, tableOf([{ id: 1, v: 5, name: 'old' }]));
  const bad = await versioned(stage, { id: 1, v: 4, name: 'bad' }, { id: 2, v: 4, name: 'bad' });
  const offsets = bad.chunk.file.indexOf(Buffer.from([0, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0]));
  bad.chunk.file.writeInt32LE(-5, offsets + 8);
  const [first, refused, second] = await stage.together([
    await versioned(stage, { id: 5, v: 1, name: 'good' }),
    bad,
    await versioned(stage, { id: 6, v: 1, name: 'good' }),
  ]);
  assert.deepEqual([first?.status, second?.status], ['fulfilled', 'fulfilled']);
  assert.ok(refused?.status === 'rejected' && refused.reason instanceof LancegateError);
  assert.equal(refused.reason.kind, 'InvalidInput');
  assert.deepEqual(stage.commits, [2]);
});

for (const hasKeyIndex of [true, false])
  test(`of a key that another program has doubled the newest row counts, ${hasKeyIndex ? 'by row address' : 'in a shadow'} (P2)`, async (t) => {
    const stored = [
      { id: 1, v: 9, name: 'new' },
      { id: 2, v: 1, name: 'old' },
      { id: 3, v: 1, name: 'old' },
    ];
    const stage = await Stage.open(t, tableOf(stored), { hasKeyIndex });
    const again = () => versioned(stage, { id: 3, v: 1, name: 'again' });
    if (hasKeyIndex) await sendUntilDirectCommit(stage, again);
    await byAppending(
      stage,
      tableOf([
        { ...stored[0]!, v: 1 },
        { ...stored[1]!, v: 9 },
      ]),
    )();
    const late = [1, 2].map((id) => ({ id, v: 5, name: 'late' }));
    const { numStaleRows, numUpdatedRows } = await stage.merge(await versioned(stage, ...late));
    assert.deepEqual([numStaleRows, numUpdatedRows], [2, 0]);
  });

test('a merge that compares versions shares no commit with one that does not (P2)', async (t) => {
  const stage = await Stage.open(t, tableOf([{ id: 1, v: 5, name: 'old' }]), { hasKeyIndex: true });
  const plain = await stage.request(tableOf([{ id: 1, v: 1, name: 'plain' }]));
  const answers = await stage.together([plain, await versioned(stage, { id: 1, v: 0, name: 'late' })]);
  const counted = answers.map(
    (answer) => answer.status === 'fulfilled' && [answer.value.numUpdatedRows, answer.value.numStaleRows],
  );
  assert.deepEqual(counted, [
    [1, undefined],
    [0, 1],
  ]);
  assert.deepEqual(await stage.rows(['id', 'name']), ['1:plain']);
});
