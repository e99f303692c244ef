import assert from 'node:assert/strict';
import { test } from 'node:test';
import { contentProblems, licenceProblems, versionProblems } from '../../scripts/release/checks.ts';

const ready = {
  version: '1.2.3',
  lockVersion: '1.2.3',
  changelog: '# Changelog\n\n## 1.2.3, 1 December 2026\n\n## 1.2.2, 1 November 2026\n',
  pages: [{ path: 'README.md', text: 'npm install ./lancegate-1.2.3.tgz' }],
  tags: ['v1.2.2'],
};

test('a release has one version, with a day, and no tag yet', () => {
  assert.deepEqual(versionProblems(ready), []);
  const changelog = '## 1.2.4, not released\n';
  const pages = [{ path: 'README.md', text: 'lancegate-1.2.2.tgz' }];
  assert.deepEqual(versionProblems({ version: '1.2.3', lockVersion: '1.2.2', changelog, pages, tags: ['v1.2.3'] }), [
    'package-lock.json has 1.2.2, package.json 1.2.3',
    'CHANGELOG.md begins with 1.2.4, package.json has 1.2.3',
    'CHANGELOG.md has no day for 1.2.4',
    'the tag v1.2.3 is there already',
    'README.md names lancegate-1.2.2.tgz',
  ]);
});

test('a release holds what runs, and nothing that is for us alone', () => {
  const files = [
    'bin/lancegate.js',
    'dist/main.js',
    'dist/reader.js',
    'samples/capitals.ndjson',
    'docs/design/commit.md',
    'LICENSE',
  ];
  assert.deepEqual(contentProblems([...files, 'package.json', 'docs/sql.md'], 1), []);
  assert.deepEqual(contentProblems([...files.slice(1), 'test/a.test.ts', 'dist/b.ts'], 1), [
    'test/a.test.ts would be published',
    'dist/b.ts would be published',
    'bin/lancegate.js would be missing',
  ]);
});

test('a licence that does not go with ours, or none, is named', () => {
  const packages = [
    { name: 'a', license: 'MIT' },
    { name: 'b', license: '(GPL-3.0 OR MIT)' },
    { name: 'c', license: 'GPL-3.0' },
    { name: 'd', license: undefined },
  ];
  assert.deepEqual(licenceProblems(packages), ['c has the licence GPL-3.0', 'd has the licence that it does not name']);
});
