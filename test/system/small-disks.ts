/** Runs tests where the folder of temporary files has small file systems, in a mount namespace of their own. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import type { TestContext } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

interface Disks {
  /** Options of tmpfs, by the folder below that of temporary files; '' is that folder itself. */
  readonly mounts: Readonly<Record<string, string>>;
  /** The file with the tests. */
  readonly cases: string;
}

/** Returns what the tests said, all of which must pass; undefined, with the test skipped, where nothing can be mounted. */
export function runOnDisks(t: TestContext, { mounts, cases }: Disks): string | undefined {
  const folder = temporaryFolder((clean) => t.after(clean));
  const flags = namespaceFlags(folder);
  if (flags === undefined) {
    t.skip('no file system can be mounted here');
    return undefined;
  }
  const mounting = Object.entries(mounts).map(
    ([name, options]) => `mkdir -p "$0/${name}" && mount -t tmpfs -o ${options} lancegate "$0/${name}"`,
  );
  const command = [process.execPath, '--test-reporter=spec', '--test', cases];
  const { status, stdout } = inNamespace(flags, mounting, folder, command);
  assert.equal(status, 0, stdout);
  return stdout;
}

/** As root, or as who may have a user namespace; undefined where neither is allowed. */
function namespaceFlags(folder: string): string | undefined {
  const trial = ['mount -t tmpfs lancegate "$0"'];
  return ['-m', '-rm'].find((flags) => inNamespace(flags, trial, folder, ['true']).status === 0);
}

function inNamespace(flags: string, mounting: readonly string[], folder: string, command: readonly string[]) {
  // What the runner of this test tells its own children would make the cases report to it.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const script = [...mounting, 'TMPDIR="$0" exec "$@"'].join(' && ');
  const maxBuffer = 2 ** 26;
  return spawnSync('unshare', [flags, 'sh', '-c', script, folder, ...command], { env, encoding: 'utf8', maxBuffer });
}
