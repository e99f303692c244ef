import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
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
  const args = [depcruise, '--config', '.dependency-cruiser.cjs', 'src', 'test'];
  mkdirSync(join(folder, 'test'), { recursive: true });
  const run = spawnSync(process.execPath, args, { cwd: folder });
  return { status: run.status, output: `${run.stdout}${run.stderr}` };
}

const module = 'export const one = 1;\n';
const importing = (path: string) => `import { one } from '${path}';\nexport const two = one + 1;\n`;
const importingType = (path: string) => `import type { One } from '${path}';\nexport const two = (one: One) => one;\n`;
const ofVendor = (name: string) => `import * as vendor from '${name}';\nexport const one = vendor;\n`;

/** Each kind of rule, with the files that break it and what is reported. */
const planted: Readonly<Record<string, { files: Readonly<Record<string, string>>; reported: string }>> = {
  'an import of a room above': {
    files: { 'src/http/server.ts': module, 'src/kernel/planted-1.ts': importing('../http/server.ts') },
    reported: 'kernel-imports-against-the-arrow: src/kernel/planted-1.ts → src/http/server.ts',
  },
  'an import of a type of a room above': {
    files: {
      'src/operations/planted-2.ts': 'export type One = string;\n',
      'src/engine/port/planted-2.ts': importingType('../../operations/planted-2.ts'),
    },
    reported: 'engine-imports-against-the-arrow: src/engine/port/planted-2.ts → src/operations/planted-2.ts',
  },
  'an import of the service by the format': {
    files: { 'src/query/one.ts': module, 'src/lance-format/check/planted-3.ts': importing('../../query/one.ts') },
    reported: 'lance-format-imports-against-the-arrow: src/lance-format/check/planted-3.ts → src/query/one.ts',
  },
  'the driver of PostgreSQL outside its catalog': {
    files: { 'src/operations/planted-pg.ts': ofVendor('pg') },
    reported: 'pg-only-in-the-postgres-catalog: src/operations/planted-pg.ts',
  },
  'the library of an object store outside its adapter': {
    files: { 'src/engine/lance/commit/planted-store.ts': ofVendor('@azure/storage-blob') },
    reported: 'object-stores-only-in-their-adapters: src/engine/lance/commit/planted-store.ts',
  },
  "Google's library outside its adapter": {
    files: { 'src/engine/lance/commit/planted-google.ts': ofVendor('google-auth-library') },
    reported: 'object-stores-only-in-their-adapters: src/engine/lance/commit/planted-google.ts',
  },
  'a package in the format': {
    files: { 'src/lance-format/manifest/planted-4.ts': ofVendor('jose') },
    reported: 'lance-format-imports-node-only: src/lance-format/manifest/planted-4.ts',
  },
  'an import of a higher sub-room': {
    files: { 'src/http/routes/one.ts': module, 'src/http/body/planted-5.ts': importing('../routes/one.ts') },
    reported: 'http/body-reaches-a-higher-sub-room: src/http/body/planted-5.ts → src/http/routes/one.ts',
  },
  'a way into a higher sub-room through a file of the room itself': {
    files: {
      'src/merge/strategy/one.ts': module,
      'src/merge/between.ts': importing('./strategy/one.ts').replace('two', 'one2'),
      'src/merge/key-index/planted-6.ts': "import { one2 } from '../between.ts';\nexport const three = one2 + 1;\n",
    },
    reported: 'merge/key-index-reaches-a-higher-sub-room: src/merge/key-index/planted-6.ts → src/merge/strategy/one.ts',
  },
  'a cycle between two files': {
    files: {
      'src/wire/planted-7.ts': importing('./planted-7b.ts').replace('two', 'uno'),
      'src/wire/planted-7b.ts': "import { uno } from './planted-7.ts';\nexport const one = () => uno;\n",
    },
    reported: 'no-cycles: src/wire/planted-7.ts',
  },
  'an import of the engine past its port': {
    files: {
      'src/engine/lance/adapter/one.ts': module,
      'src/table/planted-8.ts': importing('../engine/lance/adapter/one.ts'),
    },
    reported: 'lance-is-behind-its-port: src/table/planted-8.ts → src/engine/lance/adapter/one.ts',
  },
  'a vendor outside its room': {
    files: { 'src/operations/planted-9.ts': ofVendor('@lancedb/lancedb') },
    reported: 'lance-only-in-its-adapter: src/operations/planted-9.ts',
  },
  'input or output in the kernel': {
    files: { 'src/kernel/planted-10.ts': ofVendor('node:fs') },
    reported: 'kernel-does-no-io: src/kernel/planted-10.ts',
  },
  'a file that is not there': {
    files: { 'src/sql/planted-11.ts': importing('./absent.ts') },
    reported: 'nothing-unresolved: src/sql/planted-11.ts',
  },
  'a test of the system that looks inside': {
    files: { 'src/sql/one.ts': module, 'test/system/planted-12.ts': importing('../../src/sql/one.ts') },
    reported: 'system-tests-are-black-box: test/system/planted-12.ts → src/sql/one.ts',
  },
};

describe('the boundary check', () => {
  test('finds every kind of planted import', (t) => {
    const files = Object.assign({}, ...Object.values(planted).map((plant) => plant.files)) as Record<string, string>;
    const { status, output } = check(t, files);
    assert.notEqual(status, 0);
    const missed = Object.entries(planted).filter(([, { reported }]) => !output.includes(reported));
    assert.deepEqual(
      missed.map(([which]) => which),
      [],
      output,
    );
  });

  test('does not run over a folder that it has no rules for', (t) => {
    const { status, output } = check(t, { 'src/merge/novel/one.ts': module });
    assert.notEqual(status, 0);
    assert.match(output, /knows nothing of src\/merge\/novel/);
  });

  test('lets imports along the arrow pass, and has looked at them', (t) => {
    const { status, output } = check(t, {
      'src/kernel/one.ts': module,
      'src/http/body/two.ts': importing('../../kernel/one.ts'),
      'src/http/admission/three.ts': importing('../body/two.ts')
        .replaceAll('one', 'two')
        .replace('const two', 'const three'),
    });
    assert.equal(status, 0, output);
    assert.match(output, /3 modules, 2 dependencies/);
  });
});
