import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const root = join(import.meta.dirname, '..', '..');
const depcruise = join(root, 'node_modules', '.bin', 'depcruise');

/** Runs the boundary check of this repository over a house of the given files. */
function check(t: TestContext, files: Readonly<Record<string, string>>): { status: number | null; output: string } {
  const folder = temporaryFolder((clean) => t.after(clean));
  for (const file of ['.dependency-cruiser.cjs', 'tsconfig.json', 'package.json']) {
    copyFileSync(join(root, file), join(folder, file));
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const run = spawnSync(process.execPath, [depcruise, '--config', '.dependency-cruiser.cjs', 'src'], { cwd: folder });
  return { status: run.status, output: `${run.stdout}${run.stderr}` };
}

const module = 'export const one = 1;\n';
const importing = (path: string) => `import { one } from '${path}';\nexport const two = one + 1;\n`;

test('the boundary check finds an import against the arrow', (t) => {
  const { status, output } = check(t, {
    'src/http/server.ts': module,
    'src/kernel/planted.ts': importing('../http/server.ts'),
  });
  assert.notEqual(status, 0);
  assert.match(output, /kernel-imports-against-the-arrow: src\/kernel\/planted\.ts → src\/http\/server\.ts/);
});

test('the boundary check finds a type import against the arrow', (t) => {
  const { status, output } = check(t, {
    'src/operations/commands.ts': 'export type Command = string;\n',
    'src/engine/planted.ts':
      "import type { Command } from '../operations/commands.ts';\nexport const run = (command: Command) => command;\n",
  });
  assert.notEqual(status, 0);
  assert.match(output, /engine-imports-against-the-arrow/);
});

test('the boundary check finds a vendor outside its room', (t) => {
  const { status, output } = check(t, {
    'src/operations/planted.ts': "import { connect } from '@lancedb/lancedb';\nexport const open = connect;\n",
  });
  assert.notEqual(status, 0);
  assert.match(output, /lance-only-in-its-adapter: src\/operations\/planted\.ts/);
});

test('the boundary check lets imports along the arrow pass, and has looked at them', (t) => {
  const { status, output } = check(t, {
    'src/kernel/one.ts': module,
    'src/http/server.ts': importing('../kernel/one.ts'),
  });
  assert.equal(status, 0, output);
  assert.match(output, /2 modules, 1 dependencies/);
});
