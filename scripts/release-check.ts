/**
 * The part of docs/release.md that a machine can check, on the tree as it is. Prints each step and what is wrong.
 *   node scripts/release-check.ts
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { contentProblems, type Licensed, licenceProblems, versionProblems } from './release/checks.ts';

const root = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const output = (program: string, ...args: readonly string[]): string =>
  execFileSync(program, args, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 });
const lines = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');

interface Lock {
  readonly version: string;
  readonly packages: Readonly<Record<string, { readonly license?: string; readonly dev?: boolean }>>;
}

const manifest = JSON.parse(read('package.json')) as { readonly name: string; readonly version: string };
const lock = JSON.parse(read('package-lock.json')) as Lock;

const steps: readonly (readonly [title: string, problems: () => readonly string[]])[] = [
  ['the name is reserved', nameProblems],
  ['the tree is clean', () => lines(output('git', 'status', '--porcelain')).map((line) => `changed: ${line}`)],
  ['the version is the same everywhere', ofVersion],
  ['publint finds nothing', () => failureOf('npx', 'publint', '--strict')],
  ['the package has what it should', ofContents],
  ['the licences go with ours', () => licenceProblems([...installed(), ...copied()])],
  ['the package runs', () => failureOf('scripts/test-package.sh')],
];

function nameProblems(): readonly string[] {
  const { status, stdout, stderr } = spawnSync('npm', ['view', manifest.name, 'maintainers', '--loglevel', 'error'], {
    encoding: 'utf8',
  });
  if (status === 0) return [`${stdout.trim()}: see that these are ours`];
  return [/E404/.test(stderr) ? 'nobody has the name: reserve it first' : stderr.trim()];
}

function ofVersion(): readonly string[] {
  return versionProblems({
    version: manifest.version,
    lockVersion: lock.version,
    changelog: read('CHANGELOG.md'),
    pages: ['README.md', 'deploy/README.md'].map((path) => ({ path, text: read(path) })),
    tags: lines(output('git', 'tag')),
  });
}

function ofContents(): readonly string[] {
  const [packed] = JSON.parse(output('npm', 'pack', '--dry-run', '--json', '--silent')) as [
    { readonly size: number; readonly files: readonly { readonly path: string }[] },
  ];
  return contentProblems(
    packed.files.map(({ path }) => path),
    packed.size,
  );
}

/** Where the lockfile has none: forms of the engine for other machines, and a package that is older than the field. */
const unsaidLicences: Readonly<Record<string, string>> = {
  'node_modules/@lancedb/lancedb': 'Apache-2.0',
  'node_modules/json-bignum': 'MIT',
};

/** With a package, for its users. */
const installed = (): readonly Licensed[] =>
  Object.entries(lock.packages)
    .filter(([path, { dev }]) => path !== '' && dev !== true)
    .map(([name, { license }]) => ({
      name,
      license: license ?? unsaidLicences[name.replace(/-(?:darwin|linux|win32)-.*/, '')],
    }));

/** Into the package, by the build. */
const copied = (): readonly Licensed[] =>
  [...read('dist/vendor/LICENSES.md').matchAll(/^# (\S+) \S+: (.+)$/gm)].map(([, name, license]) => ({
    name: name!,
    license,
  }));

function failureOf(program: string, ...args: readonly string[]): readonly string[] {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: root, encoding: 'utf8' });
  return status === 0 ? [] : lines(stdout + stderr).slice(-20);
}

let isReady = true;
for (const [title, problems] of steps) {
  const found = problems();
  if (found.length > 0) isReady = false;
  console.log(`${found.length === 0 ? 'yes' : 'NO '}  ${title}`);
  for (const problem of found) console.log(`     ${problem}`);
}
console.log('By hand: CI is green on this commit; then publish, tag, and the image (docs/release.md).');
process.exitCode = isReady ? 0 : 1;
