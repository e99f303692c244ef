import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { systemClock } from '#src/kernel/clock.ts';
import type { MergeRequest } from '#src/merge/batch.ts';
import { tombstoneDays } from '#src/merge/tombstones.ts';
import { Random } from '#test/model/random.ts';
import { directCommits, sendUntilDirectCommit } from './direct-commits.ts';
import { byAppending, Stage, type StageOptions } from './stage.ts';

interface Sent {
  readonly id: number;
  readonly v: number;
  /** It is undefined for a marked row. */
  readonly name: string | undefined;
}

const row = (id: number, v: number, name: string): Sent => ({ id, v, name });
const gone = (id: number, v: number): Sent => ({ id, v, name: undefined });

const tableOf = (rows: readonly Sent[]): Table =>
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
      rows.map(({ name }) => name ?? ''),
      new Utf8(),
    ),
  });

async function sent(stage: Stage, ...rows: readonly Sent[]): Promise<MergeRequest> {
  const versionColumn = { segments: ['v'] };
  const [unmarked, marked] = [true, false].map((isThere) =>
    rows.filter(({ name }) => (name !== undefined) === isThere),
  );
  const request = { ...(await stage.request(tableOf(unmarked ?? []))), versionColumn };
  if (marked === undefined || marked.length === 0) return request;
  return { ...request, marked: { ...(await stage.request(tableOf(marked))), versionColumn } };
}

/** What merges sent at once count: inserted, updated, deleted and stale rows. */
async function merged(stage: Stage, ...sources: readonly (readonly Sent[])[]): Promise<(readonly number[])[]> {
  const answers = await stage.together(await Promise.all(sources.map((rows) => sent(stage, ...rows))));
  return answers.map((answer) => {
    assert.equal(answer.status, 'fulfilled', String('reason' in answer && answer.reason));
    const { numInsertedRows, numUpdatedRows, numDeletedRows, numStaleRows = -1 } = answer.value;
    return [numInsertedRows, numUpdatedRows, numDeletedRows, numStaleRows];
  });
}

async function open(t: TestContext, rows: readonly Sent[], options: StageOptions): Promise<Stage> {
  const stage = await Stage.open(t, tableOf([...rows, row(99, 0, 'z')]), options);
  if (options.hasKeyIndex === true) await sendUntilDirectCommit(stage, () => sent(stage, row(99, 0, 'z')));
  return stage;
}

const there = async (stage: Stage): Promise<readonly unknown[]> =>
  (await stage.rows(['id', 'name'])).filter((each) => !String(each).startsWith('99'));

test('rows are deleted by their addresses, with rows that are written and alone (P2)', async (t) => {
  const stage = await open(t, [row(1, 1, 'a'), row(2, 1, 'b'), row(3, 1, 'c')], { hasKeyIndex: true });
  const before = directCommits(stage);
  assert.deepEqual(await merged(stage, [gone(1, 5), row(2, 5, 'd')]), [[0, 1, 1, 0]]);
  assert.equal(directCommits(stage), before + 1);
  assert.deepEqual(await merged(stage, [gone(3, 5), gone(2, 4)]), [[0, 0, 1, 1]]);
  assert.equal(directCommits(stage), before + 2);
  await byAppending(stage, tableOf([row(5, 1, 'e')]))(); // so that the tombstones are read again
  assert.deepEqual(await merged(stage, [row(1, 4, 'late'), row(3, 6, 'new')]), [[1, 0, 0, 1]]);
  assert.deepEqual(await there(stage), ['2:d', '3:new', '5:e']);
});

test(`after ${tombstoneDays} days an older row may come back`, async (t) => {
  let lateMs = 0;
  const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + lateMs };
  const stage = await open(t, [row(1, 1, 'a')], { clock });
  assert.deepEqual(await merged(stage, [gone(1, 5)]), [[0, 0, 1, 0]]);
  lateMs = tombstoneDays * 86_400_000 - 60_000;
  assert.deepEqual(await merged(stage, [row(1, 4, 'late')]), [[0, 0, 0, 1]]);
  lateMs += 120_000;
  assert.deepEqual(await merged(stage, [row(1, 4, 'late')]), [[1, 0, 0, 0]]);
});

interface State {
  readonly v: number;
  readonly name: string | undefined;
}

const outcomes = ['inserted', 'updated', 'deleted', 'stale', 'nothing'] as const;

function outcomeOf(known: State | undefined, { v, name }: Sent): (typeof outcomes)[number] {
  if (known !== undefined && v < known.v) return 'stale';
  const isThere = known?.name !== undefined;
  if (name === undefined) return isThere ? 'deleted' : 'nothing';
  return isThere ? 'updated' : 'inserted';
}

/** One merge after the others; answers what it counts. */
function applied(model: Map<number, State>, rows: readonly Sent[]): readonly number[] {
  const done = rows.map((sent) => {
    const outcome = outcomeOf(model.get(sent.id), sent);
    if (outcome !== 'stale') model.set(sent.id, sent);
    return outcome;
  });
  return outcomes.slice(0, 4).map((outcome) => done.filter((each) => each === outcome).length);
}

for (const hasKeyIndex of [true, false])
  test(`merges of marked rows beside groups of others, ${hasKeyIndex ? 'by row address' : 'in a shadow'}, do and count as one after the other (P2, P4)`, async (t) => {
    const random = new Random(Number(process.env.LANCEGATE_TOMBSTONE_SEED ?? 1));
    const steps = Number(process.env.LANCEGATE_TOMBSTONE_STEPS ?? 15);
    const ids = Array.from({ length: 8 }, (_, id) => id);
    const stage = await open(t, [], { hasKeyIndex });
    const model = new Map<number, State>();
    for (let step = 0; step < steps; step += 1) {
      // A merge with marked rows is committed alone, and not in the order of others that share a commit.
      const isMarking = random.chance(40);
      const sources = Array.from({ length: isMarking ? 1 : 5 }, (_, source) =>
        random.sample(ids, 1 + random.int(4)).map((id): Sent => {
          if (isMarking && random.chance(60)) return gone(id, random.int(12));
          return row(id, random.int(12), `${step}.${source}`);
        }),
      );
      assert.deepEqual(
        await merged(stage, ...sources),
        sources.map((rows) => applied(model, rows)),
      );
      const left = [...model].filter(([, { name }]) => name !== undefined).toSorted(([a], [b]) => a - b);
      assert.deepEqual(
        await there(stage),
        left.map(([id, { name }]) => `${id}:${name}`),
      );
      if (step % 3 === 2) await stage.moveRows();
    }
  });
