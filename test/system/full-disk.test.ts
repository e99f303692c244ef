/** On a file system of a few megabytes and files, which a mount namespace of their own gives the tests of `full-disk-cases.ts`. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const cases = join(import.meta.dirname, 'full-disk-cases.ts');
const mountAndRun = 'mount -t tmpfs -o size=24m,nr_inodes=4000 lancegate "$0" && TMPDIR="$0" exec "$@"';

/** As root, or as who may have a user namespace; undefined where neither is allowed. */
function namespaceFlags(folder: string): string | undefined {
  return ['-m', '-rm'].find((flags) => inNamespace(flags, folder, ['true']).status === 0);
}

const inNamespace = (flags: string, folder: string, command: readonly string[]) => {
  // What the runner of this test tells its own children would make the cases report to it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  return spawnSync('unshare', [flags, 'sh', '-c', mountAndRun, folder, ...command], { env, encoding: 'utf8' });
};

test('a disk full of old versions gets free by itself, and by hand (P8)', { timeout: 180_000 }, (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const flags = namespaceFlags(folder);
  if (flags === undefined) return t.skip('no file system can be mounted here');
  const { status, stdout } = inNamespace(flags, folder, [process.execPath, '--test-reporter=spec', '--test', cases]);
  assert.equal(status, 0, stdout);
  assert.match(stdout, /pass 4\n/);
});
