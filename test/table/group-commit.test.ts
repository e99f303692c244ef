import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { KeyedRequest } from '#src/catalog/port.ts';
import type { MergeSpec } from '#src/engine/port/merge-spec.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { IdempotencyKey } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { holdBranch } from '#test/fixtures/hold-branch.ts';
import { type Pair, tableOf } from '#test/fixtures/pairs.ts';
import { countsOf, type Interruptions, location, type Spec, Stage, type StageOptions, table, upsert } from './stage.ts';

const open = (t: TestContext, rows: readonly Pair[], options: StageOptions = {}): Promise<Stage> =>
  Stage.open(t, tableOf(...rows), options);

/** What SQL says of one merge after the other; but of the rows of a key an upsert leaves one. */
function applyInOrder(rows: Pair[], sources: readonly (readonly Pair[])[], spec: Spec): number[][] {
  return sources.map((source) => {
    const updated = source.flatMap(([id, v]) => (spec.whenMatchedUpdateAll ? updateAll(rows, id, v, spec) : []));
    if (!spec.whenNotMatchedInsertAll) return [0, updated.length];
    const fresh = source.filter(([id]) => id === null || !rows.some(([known]) => known === id));
    rows.push(...fresh);
    return [fresh.length, updated.length];
  });
}

function updateAll(rows: Pair[], id: number | null, v: string, spec: Spec): readonly number[] {
  const found = rows.flatMap(([known], at) => (id !== null && known === id ? [at] : []));
  const surplus = spec.whenNotMatchedInsertAll ? found.splice(1) : [];
  for (const at of surplus.reverse()) rows.splice(at, 1);
  for (const at of found) rows[at] = [id, v];
  return found;
}

function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** The commit tells how many rows each key had, or it does not. */
const memories: readonly StageOptions[] = [
  { keyMemoryBytes: 1 << 20 },
  { keyMemoryBytes: 0 },
  { hidesChanges: true },
  { keyMemoryBytes: 12 * 232, hasKeyIndex: true },
];

test('requests that share a commit leave rows and counts as if applied one after the other (P2, P4)', async (t) => {
  const pick = random(Number(process.env.LANCEGATE_GROUP_SEED ?? 1));
  for (let round = 0; round < 42; round++) {
    const before: Pair[] = Array.from({ length: 8 }, (_, i) => [i, 'old']);
    if (round % 3 === 0) before.push([3, 'twin'], [null, 'none']);
    const stage = await open(t, before, memories[Math.floor(round / 3) % memories.length]);
    const spec: Spec = [
      upsert,
      { ...upsert, whenNotMatchedInsertAll: false },
      { ...upsert, whenMatchedUpdateAll: false },
    ][round % 3 === 0 ? 0 : pick(3)] as Spec;
    const rows = [...before];
    for (let group = 0; group < 3; group++) {
      const sources = Array.from({ length: 2 + pick(8) }, (_, client) => {
        const ids = [...new Set(Array.from({ length: 1 + pick(5) }, () => pick(14)))];
        const keys: (number | null)[] = pick(4) === 0 ? [...ids, null] : ids;
        return keys.map((id): Pair => [id, `${round}.${group}.${client}`]);
      });
      const expected = applyInOrder(rows, sources, spec);
      const answers = await stage.together(
        await Promise.all(sources.map((source) => stage.request(tableOf(...source), spec))),
      );
      const got = countsOf(answers);
      const what = JSON.stringify({ round, group, spec, before, sources });
      assert.deepEqual(got, expected, what);
      assert.deepEqual(await stage.rows(), rows.map(([id, v]) => `${id}:${v}`).sort(), what);
    }
    assert.equal(stage.commits.length, 3, 'one commit for each batch');
  }
});

test('a request whose values lie is refused alone, and its neighbours share their commit all the same', async (t) => {
  const stage = await open(t, [[1, 'old']]);
  const bad = await stage.request(tableOf([7, 'bad']));
  const offsets = bad.chunk.file.indexOf(Buffer.from([0, 0, 0, 0, 3, 0, 0, 0]));
  bad.chunk.file.writeInt32LE(-5, offsets + 4);
  const good = await Promise.all([5, 6].map((id) => stage.request(tableOf([id, 'good']))));
  const [first, refused, second] = await stage.together([good[0]!, bad, good[1]!]);
  assert.equal(first?.status, 'fulfilled');
  assert.equal(second?.status, 'fulfilled');
  assert.ok(refused?.status === 'rejected' && refused.reason instanceof LancegateError);
  assert.equal(refused.reason.kind, 'InvalidInput');
  assert.deepEqual(stage.commits, [2]);
  assert.deepEqual(await stage.rows(), ['1:old', '5:good', '6:good']);
});

describe('a batch that shared a commit', () => {
  /** All new, so that there is nothing to read before they are counted. */
  async function sendGroup(t: TestContext, sync: (stage: Stage) => Promise<void>) {
    const interruptions: Interruptions = {};
    const stage = await open(t, [[0, 'old']], { interruptions });
    interruptions.merge = async () => {
      interruptions.sync = () => sync(stage);
    };
    const requests = [1, 2, 3].map((id) => stage.request(tableOf([id, 'new'])));
    return { stage, answers: await stage.together(await Promise.all(requests)) };
  }

  test('is not recorded or answered before its files are synced, however long that takes (P3)', async (t) => {
    const finishedBefore: number[] = [];
    const { stage, answers } = await sendGroup(t, async ({ commits }) => {
      for (let turn = 0; turn < 200; turn++) await setImmediate();
      finishedBefore.push(commits.length);
    });
    assert.deepEqual(finishedBefore, [0]);
    assert.deepEqual(countsOf(answers), [
      [1, 0],
      [1, 0],
      [1, 0],
    ]);
    assert.deepEqual(stage.commits, [3]);
  });

  test('is not acknowledged if the disk fails it (P3, P6)', async (t) => {
    const { stage, answers } = await sendGroup(t, async () => {
      throw new LancegateError('Internal', 'the disk is gone');
    });
    for (const answer of answers) assert.match(String((answer as PromiseRejectedResult).reason), /the disk is gone/);
    assert.deepEqual(stage.commits, []);
  });
});

test('what cannot share is committed alone, in order, and keeps no others from sharing around it (P10)', async (t) => {
  const stage = await open(t, [[1, 'old']]);
  const deleting: Spec = { ...upsert, whenNotMatchedBySourceDelete: { filter: ownSql("v = 'gone'") } };
  const requests = await Promise.all([
    stage.request(tableOf([2, 'a'])),
    stage.request(tableOf([3, 'gone'])),
    stage.request(tableOf([4, 'alone']), deleting),
    stage.request(tableOf([5, 'b'])),
  ]);
  const answers = await stage.together(requests);
  assert.deepEqual(
    answers.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'fulfilled', 'fulfilled'],
  );
  assert.deepEqual(stage.commits, [3, 1]);
  assert.deepEqual(await stage.rows(), ['1:old', '2:a', '4:alone', '5:b']);
});

test('requests with other columns do not share, and both are right', async (t) => {
  const stage = await open(t, [[1, 'old']]);
  const onlyKey = new Table({ id: vectorFromArray([1, 9], new Int32()) });
  const answers = await stage.together([
    await stage.request(tableOf([2, 'a'])),
    await stage.request(onlyKey),
    await stage.request(tableOf([9, 'b'])),
  ]);
  assert.deepEqual(countsOf(answers), [
    [1, 0],
    [0, 2],
    [1, 0],
  ]);
  assert.deepEqual(stage.commits, [2, 1]);
});

test('a merge that leaves the queue is not written, and the others are (P6)', async (t) => {
  const stage = await open(t, []);
  const leaver = new AbortController();
  const leave = await holdBranch(stage.locks, table, undefined);
  const staying = stage.merge(await stage.request(tableOf([1, 'stays'])));
  const leaving = stage.merge(await stage.request(tableOf([2, 'leaves']), upsert, leaver.signal));
  leaver.abort(new LancegateError('TimedOut', 'left'));
  await assert.rejects(leaving, { kind: 'TimedOut' });
  leave();
  assert.equal((await staying).numInsertedRows, 1);
  assert.deepEqual(await stage.rows(), ['1:stays']);
});

describe('the engine gives a merge up because its time is over (P6)', () => {
  const timedOut = () => new LancegateError('TimedOut', 'nothing was written');
  const sources: readonly Pair[][] = [[[2, 'a']], [[3, 'b']]];

  for (const count of [1, 2]) {
    const send = async (stage: Stage) =>
      stage.together(await Promise.all(sources.slice(0, count).map((source) => stage.request(tableOf(...source)))));
    const kindsOf = (answers: unknown[]) => answers.map((answer) => (answer as LancegateError).kind);

    test(`before its commit: ${count} sharing learn that nothing was written`, async (t) => {
      const interruptions: Interruptions = {};
      const stage = await open(t, [[1, 'old']], { interruptions });
      interruptions.merge = async () => {
        throw timedOut();
      };
      assert.deepEqual(kindsOf(countsOf(await send(stage))), Array(count).fill('TimedOut'));
      interruptions.merge = undefined;
      assert.deepEqual(countsOf(await send(stage)), Array(count).fill([1, 0]));
    });
  }
});

test('a merge whose time is over when the shadow is to be committed is not written, unless another of its commit has time (P6)', async (t) => {
  const interruptions: Interruptions = {};
  const stage = await open(t, [[1, 'old']], { interruptions });
  let remainingMs = 1_000;
  interruptions.shadowCommit = async () => {
    remainingMs = 0;
  };
  const hurried = async (...pairs: Pair[]) => {
    const request = await stage.request(tableOf(...pairs));
    return { ...request, scope: { ...request.scope, remainingMs: () => remainingMs } };
  };
  await assert.rejects(stage.merge(await hurried([2, 'late'])), { kind: 'TimedOut' });
  assert.deepEqual(await stage.rows(), ['1:old']);
  remainingMs = 1_000;
  await stage.together([await hurried([2, 'late']), await stage.request(tableOf([3, 'b']))]);
  assert.deepEqual(await stage.rows(), ['1:old', '2:late', '3:b']);
});

test('keys written behind the back of the writer are not counted as new (P4)', async (t) => {
  const stage = await open(t, [[1, 'old']]);
  const send = async (...sources: Pair[][]) =>
    stage.together(await Promise.all(sources.map((source) => stage.request(tableOf(...source)))));
  await send([[1, 'a']], [[2, 'a']]);
  const externalWriter = await stage.engine.open({ location });
  const spec: MergeSpec = { ...upsert, on: ['id'] };
  await mergeInto(externalWriter, spec, ipcFile(tableOf([3, 'outside'])));
  const answers = await send([[3, 'b']], [[4, 'b']]);
  assert.deepEqual(countsOf(answers), [
    [0, 1],
    [1, 0],
  ]);
});

test('an external commit between the look and the commit makes the known keys worthless (P4)', async (t) => {
  const stage = await open(t, [[1, 'old']]);
  const requests = (...sources: Pair[][]) => Promise.all(sources.map((source) => stage.request(tableOf(...source))));
  await stage.together(await requests([[1, 'a']], [[2, 'a']]));
  stage.betweenLookAndCommit = async () => {
    const externalWriter = await stage.engine.open({ location });
    await mergeInto(externalWriter, { ...upsert, on: ['id'] }, ipcFile(tableOf([50, 'outside'])));
  };
  const keyed = { owner: 'o', requestDigest: 'd', bodyDigest: 'd', expiresAtMs: 0 } as unknown as KeyedRequest;
  const second = (await requests([[1, 'b']], [[3, 'b']])).map((request, index) => ({
    ...request,
    keyed: { ...keyed, key: `${index}` as IdempotencyKey },
  }));
  await stage.together(second);
  const answers = await stage.together(await requests([[50, 'c']], [[60, 'c']]));
  assert.deepEqual(countsOf(answers), [
    [0, 1],
    [1, 0],
  ]);
});

test('a reader that refreshes the dataset between the look and the shadow changes no count (P4)', async (t) => {
  const stage = await open(t, [[1, 'old']]);
  let looks = 0;
  stage.betweenLookAndCommit = async () => {
    looks += 1;
    if (looks > 1) return;
    const externalWriter = await stage.engine.open({ location });
    await mergeInto(externalWriter, { ...upsert, on: ['id'] }, ipcFile(tableOf([3, 'outside'])));
    await stage.datasets.latest(location, undefined);
  };
  const keyed = { owner: 'o', requestDigest: 'd', bodyDigest: 'd', expiresAtMs: 0 } as unknown as KeyedRequest;
  const requests = await Promise.all(
    [[3, 'b'] as Pair, [4, 'b'] as Pair].map((pair) => stage.request(tableOf(...[pair]))),
  );
  const answers = await stage.together(
    requests.map((request, index) => ({ ...request, keyed: { ...keyed, key: `${index}` as IdempotencyKey } })),
  );
  assert.deepEqual(countsOf(answers), [
    [0, 1],
    [1, 0],
  ]);
  assert.equal(looks, 2);
});

test('what fails after the commit never answers that nothing was written, nor is merged again (P6)', async (t) => {
  const interruptions: Interruptions = {};
  const stage = await open(t, [[1, 'old']], { interruptions });
  interruptions.shadowCommit = async () => {
    interruptions.sync = async () => {
      throw new LancegateError('InvalidInput', 'as an engine error could be translated');
    };
  };
  const requests = await Promise.all(
    [[2, 'a'] as Pair, [3, 'b'] as Pair].map((pair) => stage.request(tableOf(...[pair]))),
  );
  for (const answer of countsOf(await stage.together(requests)) as unknown[]) {
    assert.equal((answer as LancegateError).kind, 'Internal');
    assert.notEqual((answer as LancegateError).entry.written, 'nothing');
  }
  assert.deepEqual(await stage.rows(), ['1:old', '2:a', '3:b']);
  assert.deepEqual(stage.mergedVersions, [2], 'once');
});
