/**
 * What who comes new sees of `npm ci`. The packages ask for a newer Node than many systems have, and the service runs on the
 * one that is installed with them: a warning for each of them is alarming and means nothing.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const project = join(import.meta.dirname, '../..');
const engines = { node: '>=999' };

/** A project with this one's npm settings, and one dependency that asks for a Node that does not exist. */
function projectIn(folder: string): void {
  copyFileSync(join(project, '.npmrc'), join(folder, '.npmrc'));
  mkdirSync(join(folder, 'part'));
  const part = { name: 'part', version: '1.0.0', engines };
  const root = { name: 'whole', version: '1.0.0', engines, dependencies: { part: 'file:part' } };
  const packages = { '': root, part: part, 'node_modules/part': { resolved: 'part', link: true } };
  writeFileSync(join(folder, 'part/package.json'), JSON.stringify(part));
  writeFileSync(join(folder, 'package.json'), JSON.stringify(root));
  const lock = { name: 'whole', version: '1.0.0', lockfileVersion: 3, requires: true, packages };
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock));
}

const install = (folder: string) => {
  const { npm_config_loglevel: _, ...env } = process.env;
  return spawnSync('npm', ['ci', '--offline', '--no-audit'], { cwd: folder, env, encoding: 'utf8' });
};

test('npm ci warns of no Node that is older than the packages ask for', (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  projectIn(folder);
  const { status, stderr, stdout } = install(folder);
  assert.equal(status, 0, stderr);
  assert.doesNotMatch(stderr, /EBADENGINE/);
  assert.match(stdout, /added 1 package/);
});

test('npm ci still shows an error', (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  projectIn(folder);
  rmSync(join(folder, 'package-lock.json'));
  const { status, stderr } = install(folder);
  assert.equal(status, 1);
  assert.match(stderr, /npm error .*package-lock\.json/);
});
