import assert from 'node:assert/strict';
import type { MergeCounts } from '#src/engine/port.ts';
import type { MergeRequest } from '#src/table/merge-request.ts';
import { countsOf, type Stage } from './stage.ts';

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
