import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Table } from 'apache-arrow';
import type { MergeRequest } from '#src/merge/batch.ts';
import type { WriteCounts } from '#src/write/write.ts';
import { full, type Row } from './rows.ts';
import { countsOf, type Interruptions, Stage, type StageOptions } from './stage.ts';

/** How many commits were by row address. */
export const directCommits = ({ replacements }: Stage): number => replacements.filter((each) => each === 'made').length;

/** Answers of one commit, once no row addresses are being read any more. */
export async function sendTogether(
  stage: Stage,
  requests: readonly Promise<MergeRequest>[],
): Promise<PromiseSettledResult<WriteCounts>[]> {
  const answers = await stage.together(await Promise.all(requests));
  await stage.addressesRead();
  return answers;
}

/** Merges until a commit is direct; answers how many merges there were. `counts` are those of each. */
export async function sendUntilDirectCommit(
  stage: Stage,
  request: () => Promise<MergeRequest>,
  counts: readonly [number, number] = [0, 1],
): Promise<number> {
  const before = directCommits(stage);
  for (let sent = 0; ; sent++) {
    if (directCommits(stage) > before) return sent;
    assert.ok(sent < 200, 'the key index is never there');
    assert.deepEqual(countsOf(await sendTogether(stage, [request()])), [counts]);
  }
}

/** One request for each source, all in one commit: what each inserted and updated. */
export async function sendRows(stage: Stage, ...sources: readonly (readonly Row[])[]): Promise<unknown[]> {
  const requests = sources.map((rows) => stage.request(full(...rows)));
  return countsOf(await sendTogether(stage, requests));
}

/** A table with the key 1, whose row address the key index has. */
export async function openKnown(t: TestContext, rows: Table, options: StageOptions = {}) {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, rows, { interruptions, hasKeyIndex: true, ...options });
  await sendUntilDirectCommit(stage, () => stage.request(full([1, 'known'])));
  stage.replacements.length = 0;
  const once = (does: () => Promise<unknown>): void => {
    interruptions.merge = async () => {
      interruptions.merge = undefined;
      await does();
    };
  };
  return { stage, interruptions, once };
}
