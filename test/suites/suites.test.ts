import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { filesOf, suiteNames } from './suites.ts';

const testFolder = join(import.meta.dirname, '..');

describe('the suites', () => {
  test('have every file of tests but those of clusters, each once', () => {
    const files = suiteNames.flatMap(filesOf);
    const others = globSync('**/*.test.ts', { cwd: testFolder, exclude: ['cluster/**', 'package/**'] });
    assert.deepEqual(files.sort(), others.sort());
  });

  test('need no object store, which npm cannot bring', () => {
    const files = globSync('**/*.ts', { cwd: testFolder, exclude: ['cluster/**', 'fixtures/**'] });
    const stores = /from '#test\/fixtures\/(s3-gateway|azure-emulator|gcs-emulator|stores-under-test)\.ts'/;
    assert.deepEqual(
      files.filter((file) => stores.test(readFileSync(join(testFolder, file), 'utf8'))),
      [],
    );
  });

  test('have a file each, which is what the runner is given', () => {
    const files = globSync('suites/*.suite.ts', { cwd: testFolder }).sort();
    assert.deepEqual(files, suiteNames.map((name) => `suites/${name}.suite.ts`).toSorted());
  });
});
