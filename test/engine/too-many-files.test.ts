import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

interface Outcome {
  readonly call: 'merge' | 'append' | 'create';
  readonly free: number;
  readonly outcome: string;
  readonly rows: number;
}

const written = { merge: 2, append: 1, create: 1 };

test('writes that find no file to open are refused with nothing written, and the next ones go on (P6)', (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const script = join(import.meta.dirname, 'starved-writes.ts');
  const { stdout, stderr } = spawnSync('sh', [
    '-c',
    'ulimit -n 256 && exec "$0" "$@"',
    process.execPath,
    script,
    folder,
  ]);
  const outcomes = JSON.parse(stdout.toString() || assert.fail(stderr.toString())) as readonly Outcome[];
  for (const { call, free, outcome, rows } of outcomes) {
    const isWhole = outcome === 'done' && rows === written[call];
    assert.ok(isWhole || (outcome === 'StorageUnavailable' && rows === 0), `${call} with ${free}: ${outcome}, ${rows}`);
  }
  const refused = outcomes.filter(({ outcome }) => outcome !== 'done').map(({ call }) => call);
  const done = outcomes.filter(({ outcome }) => outcome === 'done').map(({ call }) => call);
  assert.deepEqual([new Set(refused), new Set(done)], Array(2).fill(new Set(['merge', 'append', 'create'])));
});
