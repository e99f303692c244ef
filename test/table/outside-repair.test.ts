/** Putting right what an outsider did beside a merge, while that is made difficult. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { full } from './rows.ts';
import { byAppending, byMerging, countsOf, type Interruptions, Stage, upsert } from './stage.ts';

const once = (interruptions: Interruptions, call: keyof Interruptions, work: () => Promise<unknown>): void => {
  interruptions[call] = async () => {
    interruptions[call] = undefined;
    await work();
  };
};

test('rows that the outsider changes before one of them is removed still end as one (P2)', async (t) => {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, full([1, 'old']), { interruptions });
  once(interruptions, 'merge', byAppending(stage, full([9, 'them'])));
  once(interruptions, 'deleteRows', byMerging(stage, full([9, 'later'])));
  const answers = await stage.together([await stage.request(full([9, 'us']))]);
  assert.deepEqual(countsOf(answers), [[0, 1]]);
  assert.deepEqual(await stage.rows(), ['1:old', '9:later']);
});

test('what is added meanwhile does not stop it', async (t) => {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, full([1, 'old']), { interruptions });
  once(interruptions, 'merge', byAppending(stage, full([9, 'them'])));
  once(interruptions, 'deleteRows', byAppending(stage, full([50, 'later'])));
  const answers = await stage.together([await stage.request(full([9, 'us']))]);
  assert.deepEqual(countsOf(answers), [[0, 1]]);
  assert.deepEqual(await stage.rows(), ['1:old', '50:later', '9:us']);
});

test('the answer names the version that has one row for each key, and both commits are in the log (P5)', async (t) => {
  const interruptions: Interruptions = {};
  const stage = await Stage.open(t, full([1, 'old']), { interruptions });
  once(interruptions, 'merge', byAppending(stage, full([9, 'them'])));
  const [answer] = await stage.together([await stage.request(full([9, 'us']))]);
  assert.ok(answer?.status === 'fulfilled');
  assert.equal(answer.value.version, 4);
  const lines = stage.warnings.map((line) => JSON.parse(line) as Record<string, unknown>);
  assert.deepEqual(
    lines.map(({ table, matched, version, newVersion, message }) => [table, matched, version, newVersion, message]),
    [
      ['t', 1, 3, undefined, 'somebody outside the service committed beside a merge'],
      ['t', 1, 3, 4, 'put right what both had written'],
    ],
  );
});

for (const [why, work] of Object.entries({
  'its commit fails': () => () => Promise.reject(new LancegateError('Internal', 'no space')),
  'the outsider changes the same rows for ever': (stage: Stage) => byMerging(stage, full([9, 'again'])),
})) {
  test(`a merge is not acknowledged where ${why} (P6)`, async (t) => {
    const interruptions: Interruptions = {};
    const stage = await Stage.open(t, full([1, 'old']), { interruptions });
    once(interruptions, 'merge', byAppending(stage, full([9, 'them'])));
    const hinder = work(stage);
    interruptions.deleteRows = async () => void (await hinder());
    const answers = await stage.together([await stage.request(full([9, 'us'])), await stage.request(full([10, 'us']))]);
    for (const answer of answers) {
      assert.ok(answer.status === 'rejected' && answer.reason instanceof LancegateError);
      assert.equal(answer.reason.kind, 'Internal');
      assert.match(answer.reason.message, /were merged.*keys may be there twice/);
    }
    assert.deepEqual(stage.commits, []);
    interruptions.deleteRows = undefined;
    const next = await stage.together([await stage.request(full([10, 'next']), upsert)]);
    assert.deepEqual(countsOf(next), [[0, 1]]);
  });
}
