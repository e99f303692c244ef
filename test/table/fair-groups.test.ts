/** Whose merges go into the next commit, where not all can (P10). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { MergeRequest } from '#src/merge/batch.ts';
import { full, type Row } from './rows.ts';
import { never, type Spec, Stage, upsert } from './stage.ts';

/** Five of them fill a batch. */
const largeRows = 10_000;
const alone: Spec = { ...upsert, whenNotMatchedBySourceDelete: { filter: ownSql("v = 'gone'") } };

async function versionsOf(stage: Stage, requests: readonly MergeRequest[]): Promise<number[]> {
  const answers = await stage.together(requests);
  return answers.map((answer) => {
    assert.ok(answer.status === 'fulfilled', String(answer.status === 'rejected' && answer.reason));
    return answer.value.version;
  });
}

function request(stage: Stage, subject: string, ids: readonly number[], spec = upsert): Promise<MergeRequest> {
  return stage.request(full(...ids.map((id): Row => [id, subject])), spec, never, subject);
}

const range = (start: number, length: number): number[] => Array.from({ length }, (_, i) => start + i);

test('a small merge goes with the next batch, however many large ones of another principal wait before it', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  const large = await Promise.all(range(1, 12).map((i) => request(stage, 'greedy', range(i * largeRows, largeRows))));
  const small = await request(stage, 'small', [7]);
  const versions = await versionsOf(stage, [...large, small]);
  assert.equal(versions.at(-1), 2);
  assert.deepEqual(stage.commits, [5, 5, 3]);
  assert.deepEqual(
    versions.slice(0, -1),
    versions.slice(0, -1).toSorted((a, b) => a - b),
    'in the order of their arrival',
  );
});

test('principals whose merges cannot share a commit alternate, each in the order of arrival', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  const requests = await Promise.all(
    ['a', 'a', 'a', 'a', 'b', 'b', 'c'].map((subject, i) => request(stage, subject, [10 + i], alone)),
  );
  assert.deepEqual(await versionsOf(stage, requests), [2, 5, 7, 8, 3, 6, 4]);
});

test('one of them does not hold up those that share, and they do not hold up it', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  const kinds: (readonly [string, Spec])[] = [
    ['a', alone],
    ['a', alone],
    ['b', upsert],
    ['c', upsert],
    ['a', upsert],
    ['b', alone],
  ];
  const requests = await Promise.all(kinds.map(([subject, spec], i) => request(stage, subject, [10 + i], spec)));
  assert.deepEqual(await versionsOf(stage, requests), [2, 4, 3, 3, 3, 5]);
});

test('rows of two principals with one key end as the later one sent them, whichever led the batch (P5)', async (t) => {
  const stage = await Stage.open(t, full([1, 'old']));
  const requests = [
    await request(stage, 'a', [10], alone),
    await request(stage, 'a', [7]),
    await request(stage, 'b', [7]),
  ];
  assert.deepEqual(await versionsOf(stage, requests), [2, 3, 3]);
  assert.deepEqual(await stage.rows(), ['10:a', '1:old', '7:b']);
});
