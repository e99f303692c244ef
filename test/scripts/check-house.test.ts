import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const script = join(import.meta.dirname, '..', '..', 'scripts', 'check-house.ts');

type Files = Readonly<Record<string, string>>;

/** The violations that are found in a house of the given files. */
function violationsIn(t: TestContext, files: Files): { status: number | null; found: readonly string[] } {
  const folder = temporaryFolder((clean) => t.after(clean));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const { status, stderr } = spawnSync(process.execPath, [script, folder], { encoding: 'utf8' });
  return { status, found: stderr.trim().split('\n').slice(0, -1) };
}

const numbered = (count: number, textOf: (number: number) => string): readonly string[] =>
  Array.from({ length: count }, (_, index) => textOf(index + 1));

const members = (count: number): string => numbered(count, (number) => `  m${number}(): void;\n`).join('');
const lines = (count: number): string => numbered(count, (number) => `  void ${number};\n`).join('');
interface Plant {
  readonly files: Files;
  readonly found: readonly string[];
}

const figures: Readonly<Record<string, Plant>> = {
  'more of what has a budget, of which the test folder has none': {
    files: {
      'scripts/house/budgets.json': JSON.stringify({
        ...{ lines: 8, 'numeric constants': 1, 'non-null assertions': 0, casts: 0, 'errors without a name': 0 },
        ...{ 'functions named commit': 1, 'members of Dataset': 2, 'members of Catalog': 2, settings: 1, smiles: 3 },
      }),
      'src/one.ts': 'const a = 1;\nconst b = 2 * 60_000;\nlet c = a! as const;\nthrow new Error(c as string);\n',
      'src/two.ts': 'class A {\n  commit() {}\n  #commit() {}\n}\nfunction commit() {}\n',
      'src/three.ts':
        'interface One {\n  a(): void;\n  b(): void;\n}\nexport interface Dataset extends One {\n  c(): void;\n}\n',
      'src/config/five.ts': "export const five = [{ flag: 'one' }, { flag: 'two' }];\n",
      'test/four.ts': 'const three = 3;\n',
    },
    found: [
      'scripts/house/budgets.json:1 src has 17 lines, at most 8',
      'scripts/house/budgets.json:1 src has 2 numeric constants, at most 1',
      'scripts/house/budgets.json:1 src has 1 non-null assertions, at most 0',
      'scripts/house/budgets.json:1 src has 1 casts, at most 0',
      'scripts/house/budgets.json:1 src has 1 errors without a name, at most 0',
      'scripts/house/budgets.json:1 src has 3 functions named commit, at most 1',
      'scripts/house/budgets.json:1 src has 3 members of Dataset, at most 2',
      'scripts/house/budgets.json:1 src has 2 settings, at most 1',
      'scripts/house/budgets.json:1 nothing counts "smiles"',
    ],
  },
  'a page of the design of more than 120 lines': {
    files: { 'docs/design/long.md': 'line\n'.repeat(121), 'docs/design/short.md': 'line\n'.repeat(120) },
    found: ['docs/design/long.md:121 a page of the design has 121 lines, at most 120'],
  },
  'an eleventh member of a port': {
    files: {
      'src/engine/port/large.ts': `export interface Large {\n${members(11)}}\n`,
      'src/engine/port/small.ts': `export interface Small {\n${members(10)}}\n`,
      'src/catalog/port.ts': `export interface Rows {\n${members(12)}}\n`,
    },
    found: [
      'src/catalog/port.ts:1 the port Rows has 12 members, at most 10',
      'src/engine/port/large.ts:1 the port Large has 11 members, at most 10',
    ],
  },
  'a port that extends others and has eleven members with theirs, save for the wholes': {
    files: {
      'src/engine/port/parts.ts': `export interface One {\n${members(6)}}\nexport interface Two extends One {\n${members(4)}}\n`,
      'src/engine/port/joined.ts': `export interface Joined extends Two {\n${members(1)}}\n`,
      'src/engine/port/engine.ts':
        'export interface Dataset extends One, Two {}\nexport interface Both extends One, Two, Rows {}\n',
      'src/catalog/port.ts': `export interface Rows {\n${members(6)}}\nexport interface Catalog extends Rows {\n${members(5)}}\n`,
    },
    found: [
      'src/engine/port/joined.ts:1 the port Joined has 11 members, at most 10',
      'src/engine/port/engine.ts:2 the port Both has 16 members, at most 10',
    ],
  },
  'a whole port that a caller takes': {
    files: {
      'src/engine/port/engine.ts': 'export interface Dataset {}\nexport interface Snapshot {}\n',
      'src/engine/lance/adapter.ts': "import type { Dataset } from '../port/engine.ts';\n",
      'src/table/open-datasets.ts': "import type { Dataset } from '../engine/port/engine.ts';\n",
      'src/merge/batch.ts': "import type { Dataset as Whole, Snapshot } from '../engine/port/engine.ts';\n",
    },
    found: ['src/merge/batch.ts:1 Dataset is all of a port: take the small interfaces that it joins'],
  },
  'a re-export, also of types': {
    files: { 'src/one.ts': "import { a } from './two.ts';\nexport type { B } from './two.ts';\nexport { a };\n" },
    found: ['src/one.ts:2 a re-export: import from the file that declares'],
  },
  'a type name for two things, exported or not, save for what means the same': {
    files: {
      'src/one.ts': 'export type Thing = string;\ninterface Deps {}\nexport { local };\n',
      'src/two.ts': '\nexport interface Thing {}\nexport class Other {}\ntype Own = 1;\ninterface Deps {}\n',
      'src/three.ts': 'class Own {}\n',
      'test/four.ts': 'class Other {}\n',
    },
    found: [
      'src/one.ts:1 the type Thing is also declared in src/two.ts',
      'src/two.ts:2 the type Thing is also declared in src/one.ts',
      'src/two.ts:4 the type Own is also declared in src/three.ts',
      'src/three.ts:1 the type Own is also declared in src/two.ts',
    ],
  },
  'a file name in two rooms, save for what means the same': {
    files: { 'src/a/same.ts': '', 'src/b/same.ts': '', 'src/a/request.ts': '', 'src/b/request.ts': '' },
    found: [
      'src/a/same.ts:1 a file of this name is also src/b/same.ts',
      'src/b/same.ts:1 a file of this name is also src/a/same.ts',
    ],
  },
  'a long function in a test, which a list of tests is not': {
    files: {
      'test/long.ts': `function long() {\n${lines(59)}}\n`,
      'test/short.ts': `function short() {\n${lines(58)}}\n`,
      'test/list.test.ts': `describe('list', () => {\n${lines(40)}test('one', () => {\n${lines(40)}});\n});\n`,
      'test/contract.ts': `function contract() {\n${lines(40)}test('one', () => {\n${lines(40)}});\n}\n`,
      'test/one.test.ts': `test('one', () => {\n${lines(60)}});\n`,
    },
    found: [
      'test/long.ts:1 a function of 61 lines, at most 60',
      'test/one.test.ts:1 a function of 62 lines, at most 60',
    ],
  },
};

const code = 'export function commitBatch() {}\nexport class Branch {\n  #head = "an_id of targetRows";\n}\n';

const names: Readonly<Record<string, Plant>> = {
  'a file, a folder or a decision that is not there': {
    files: {
      'src/merge/commit.ts': '/** See merge/commit.ts, `merge/`, commit.ts and `src/merge/gone/`. */\n// gone.ts\n',
      'bench/commit.ts': '// ADR 2, ADR 3\n',
      'docs/adr/0002-two.md': '',
      'docs/two.md': 'See `src/merge/commit.ts` and\n`docs/gone.md`.\n```\nreader.ts\n```\n',
    },
    found: [
      'src/merge/commit.ts:1 src/merge/gone/ is not in the repository',
      'bench/commit.ts:1 ADR 3 is not in docs/adr',
      'src/merge/commit.ts:2 gone.ts is not in the repository',
      'docs/two.md:2 docs/gone.md is not in the repository',
    ],
  },
  'a decision that code cites, in a comment, in a message or in a README beside it': {
    files: {
      'src/one.ts': "// Why: ADR 1\nthrow new RangeError('see docs/adr/0001');\n",
      'src/README.md': '[why](../docs/adr/0001-one.md)\n',
      'test/one.ts': '// ADR 1\n',
      'docs/adr/0001-one.md': '',
    },
    found: [
      'src/one.ts:1 "ADR" is a decision, which no code cites: docs/design/ has the present design',
      'src/one.ts:2 "adr/0001" is a decision, which no code cites: docs/design/ has the present design',
      'src/README.md:1 "adr/0001" is a decision, which no code cites: docs/design/ has the present design',
    ],
  },
  'a name that the code does not have': {
    files: {
      'src/one.ts': `${code}/**\n * \`commitBatch\`, \`Branch.head\`, \`commitBatch()\`, \`an_id\`, targetRows; \`commitBatches\` is gone. */\n`,
      'test/two.ts':
        '// `Branch.tail` and OldBranch, an ordinary word, \'`SELECT`\' and `x-request-id`\nconst text = "// notAComment";\n',
      'docs/names.md': '`Branch`, `commitBatch`, `takeBatch()` and an unquoted oldName\n',
    },
    found: [
      'src/one.ts:6 `commitBatches` is not in the code',
      'test/two.ts:1 `tail` is not in the code',
      'test/two.ts:1 OldBranch is not in the code',
      'docs/names.md:1 `takeBatch` is not in the code',
    ],
  },
  'a link that leads nowhere, also in what is dated; what that names is of its day': {
    files: {
      'docs/adr/0001-one.md':
        'See [two](0002-two.md), [one](../adr/0001-one.md#here), [out](https://x.y/z.md); `oldName`, gone.ts\n',
    },
    found: ['docs/adr/0001-one.md:1 the link to 0002-two.md leads nowhere'],
  },
  'a document that is not in the repository': {
    files: { 'src/one.ts': '/** As the founding\n * document says. */\n' },
    found: ['src/one.ts:1 "founding document" is a document that is not in the repository'],
  },
};

describe('the check of the house', () => {
  for (const [which, { files, found }] of Object.entries({ ...figures, ...names })) {
    test(`finds ${which}`, (t) => {
      const checked = violationsIn(t, files);
      assert.deepEqual(checked.found.toSorted(), found.toSorted());
      assert.equal(checked.status, 1);
    });
  }

  test('passes a house without violations', (t) => {
    const checked = violationsIn(t, { 'src/one.ts': code, 'README.md': '`commitBatch` in [one](src/one.ts)\n' });
    assert.deepEqual(checked, { status: 0, found: [] });
  });
});
