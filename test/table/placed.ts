import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Table } from 'apache-arrow';
import type { MergeCounts } from '#src/engine/port/merge-spec.ts';
import type { MergeRequest } from '#src/merge/batch.ts';
import { full, type Row } from './rows.ts';
import { countsOf, type Interruptions, Stage, type StageOptions } from './stage.ts';

/** How many commits were by the places of their rows. */
export const placed = ({ replacements }: Stage): number => replacements.filter((each) => each === 'made').length;

/** Answers, in one commit, that no places are being read beside any more. */
export async function sendTogether(
  stage: Stage,
  requests: readonly Promise<MergeRequest>[],
): Promise<PromiseSettledResult<MergeCounts>[]> {
  const answers = await stage.together(await Promise.all(requests));
  await stage.placesRead();
  return answers;
}

/** Merges until a commit is by places; answers how many there were. `counts` are those of each. */
export async function sendUntilPlaced(
  stage: Stage,
  request: () => Promise<MergeRequest>,
  counts: readonly [number, number] = [0, 1],
): Promise<number> {
  const before = placed(stage);
  for (let sent = 0; ; sent++) {
    if (placed(stage) > before) return sent;
    assert.ok(sent < 200, 'the places are never known');
    assert.deepEqual(countsOf(await sendTogether(stage, [request()])), [counts]);
  }
}

/** One request for each source, all in one commit: what each inserted and updated. */
export async function sendRows(stage: Stage, ...sources: readonly (readonly Row[])[]): Promise<unknown[]> {
  const requests = sources.map((rows) => stage.request(full(...rows)));
  return countsOf(await sendTogether(stage, requests));
}

/** A table with the key 1, whose row is known by its place. */
export async function openKnown(t: TestContext, rows: Table, options: StageOptions = {}) {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, rows, { interruptions, knowsPlaces: true, ...options });
  await sendUntilPlaced(stage, () => stage.request(full([1, 'known'])));
  stage.replacements.length = 0;
  const once = (does: () => Promise<unknown>): void => {
    interruptions.merge = async () => {
      interruptions.merge = undefined;
      await does();
    };
  };
  return { stage, interruptions, once };
}
