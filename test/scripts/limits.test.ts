import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const root = join(import.meta.dirname, '..', '..');
const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> };

/** What a script of this repository says in a folder that has these files in `src`. */
function run(t: TestContext, script: string, files: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder((clean) => t.after(clean));
  for (const file of ['biome.json', '.oxlintrc.json', 'tsconfig.json', 'package.json', '.gitignore']) {
    copyFileSync(join(root, file), join(folder, file));
  }
  for (const name of ['src', 'test', 'bench', 'scripts', '.git']) mkdirSync(join(folder, name));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, 'src', name), text);
  const [program = '', ...args] = scripts[script]?.split(' ') ?? [];
  const { status, stdout, stderr } = spawnSync(join(root, 'node_modules', '.bin', program), args, { cwd: folder });
  assert.notEqual(status, 0);
  return `${stdout}${stderr}`;
}

const lines = (count: number, text: string): string => text.repeat(count);

/** A planted file by the rule that must find it. */
type Plants = Readonly<Record<string, string>>;

const filesOf = (plants: Plants): Record<string, string> =>
  Object.fromEntries(Object.values(plants).map((text, index) => [`planted-${index}.ts`, text]));

function missedIn(output: string, plants: Plants): readonly string[] {
  return Object.keys(plants).filter(
    (rule, index) => !output.split('\n').some((line, at, all) => isReport(rule, index, `${all[at - 1]}${line}`)),
  );
}

/** Biome has file and rule in one line, oxlint has the file in the line after the rule. */
const isReport = (rule: string, index: number, twoLines: string): boolean =>
  twoLines.includes(rule) && twoLines.includes(`planted-${index}.ts`);

const ofBiome: Plants = {
  noExcessiveLinesPerFunction: `export function long(): void {\n${lines(61, '  void 0;\n')}}\n`,
  noExcessiveLinesPerFile: lines(401, 'void 0;\n'),
  noExcessiveCognitiveComplexity: `export function tangled(a: number): number {\n${lines(6, '  if (a > 1) { if (a > 2) return 1; }\n')}  return 2;\n}\n`,
  useMaxParams: 'export const add = (a: 1, b: 1, c: 1, d: 1, e: 1, f: 1): number => a + b + c + d + e + f;\n',
  noBarrelFile: "export { add } from './planted-3.ts';\n",
  noDefaultExport: 'export default 1;\n',
  noExplicitAny: 'export const anything: any = 1;\n',
};

const ofOxlint: Plants = {
  'max-depth':
    'export function deep(a: number[][][][]): void {\n  for (const b of a) for (const c of b) for (const d of c) {\n    if (d) void 0;\n  }\n}\n',
  'no-floating-promises': 'export function forget(): void {\n  Promise.resolve();\n}\n',
  TS2322: "export const wrong: number = 'text';\n",
};

describe('the limits of npm run check', () => {
  test('are held by Biome', (t) => {
    const output = run(t, 'check:format', filesOf(ofBiome));
    assert.deepEqual(missedIn(output, ofBiome), [], output);
  });

  test('are held by oxlint', (t) => {
    const output = run(t, 'check:types', filesOf(ofOxlint));
    assert.deepEqual(missedIn(output, ofOxlint), [], output);
  });
});
