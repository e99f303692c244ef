import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { configurationMarkdown } from '#src/config/describe-config.ts';
import { environmentName } from '#src/config/environment.ts';

import { groups, settings } from '#src/config/settings.ts';
import { notOfferedPaths } from '#src/http/routes/not-offered.ts';
import { runInProcess } from '#test/cli/in-process.ts';

const committed = readFileSync(new URL('../../docs/configuration.md', import.meta.url), 'utf8');

/** Help is wrapped. */
const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ');

test('docs/configuration.md is what `lancegate config --markdown` prints', () => {
  assert.equal(committed, configurationMarkdown());
});

test('every setting is documented with its flag, its variable and a sentence', async () => {
  const help = oneLine((await runInProcess(['serve', '--help'])).stdout.toString());
  for (const setting of Object.values(settings)) {
    assert.equal(committed.includes(`### \`--${setting.flag}\``), setting.group !== 'former', setting.flag);
    assert.ok(committed.includes(`\`${environmentName(setting)}\``), setting.flag);
    assert.ok(help.includes(oneLine(setting.doc)), setting.flag);
    assert.match(setting.doc, /^[A-Z].*\.$/, setting.flag);
  }
});

test('no two settings share a flag, and no group is empty', () => {
  const flags = Object.values(settings).map(({ flag }) => flag);
  assert.equal(new Set(flags).size, flags.length);
  assert.deepEqual(new Set(Object.values(settings).map(({ group }) => group)), new Set(Object.keys(groups)));
});

test('docs/clients.md names every route that is answered 406', () => {
  const clients = readFileSync(new URL('../../docs/clients.md', import.meta.url), 'utf8');
  for (const path of notOfferedPaths) {
    const name = path.replace(/^\/v1\/(?:table\/:id\/)?/, '').replaceAll(/:(\w+)/g, '{$1}');
    assert.ok(clients.includes(`\`${name}\``), name);
  }
});
