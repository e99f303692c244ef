/** docs/promises.md names a command that proves each promise; the files of each command exist. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';

const packageFolder = join(import.meta.dirname, '../..');
const text = readFileSync(join(packageFolder, 'docs/promises.md'), 'utf8');
const sections = text.split(/^## /m).slice(1);

describe('docs/promises.md', () => {
  it('has one section for each promise, in order', () => {
    const numbers = sections.map((section) => /^P(\d+) /.exec(section)?.[1]);
    assert.deepEqual(
      numbers,
      Array.from({ length: 12 }, (_, index) => String(index + 1)),
    );
  });

  for (const section of sections) {
    const [title = ''] = section.split('\n', 1);
    it(`proves ${title} with tests that exist`, () => {
      const command = /`npx node --test ([^`]+)`/.exec(section.replaceAll(/\s+/g, ' '))?.[1];
      assert.ok(command, 'the section has no command');
      for (const pattern of command.replaceAll("'", '').split(' ')) {
        assert.notDeepEqual(globSync(pattern, { cwd: packageFolder }), [], pattern);
      }
    });
  }
});
