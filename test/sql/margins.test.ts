/**
 * Four times of what `sqlLimits` allows, past the check and given to the real engine, ends no process. The figures of what
 * does are in docs/measurements/sql-limits.md.
 */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { sqlLimits } from '#src/sql/limits.ts';
import { filterReader } from '#src/wire/merge-parameters.ts';
import { SqlJudge, type SqlQuestion } from '#test/fuzz/sql-judge.ts';

const margin = 4;
const many = (count: number, text: string) => text.repeat(count);

/** What stands at the bottom, and what one more operator adds. */
const links: readonly (readonly [bottom: string, link: string])[] = [
  ['id', '+1'],
  ['id', '-id'],
  ['f', '*1'],
  ['id', '%7'],
  ['v', "||'b'"],
  ['id', '::int'],
  ['b', ' IS NULL'],
  ['b', ' IS NOT TRUE'],
  ['v', " LIKE 'a'"],
  ['b', '=true'],
  ['id', '<id'],
  ['b', ' IN (true)'],
  ['id', '<<1'],
  ['id', '&1'],
  ['id', '^1'],
  ['ts', " AT TIME ZONE 'UTC'"],
  ['st', "['x']"],
  ['a', '[1]'],
  ['b', ' OR b'],
  ['b', ' AND b'],
];
/** Around the bottom, a quarter of the depth, which is where calls can be. */
const nests: readonly (readonly [open: string, close: string])[] = [
  ['(', ')'],
  ['nullif(1, ', ')'],
  ['(1 IN (', '))'],
];

const depth = margin * sqlLimits.depth;
const chains = links.map(([bottom, link]) => `${bottom}${many(depth, link)}`);
const mixed = nests.flatMap(([open, close]) =>
  [" LIKE 'a'", ' IN (true)', '::int', ' IS TRUE'].map(
    (link) => `${many(16, open)}id${many(16, many((depth - 16) / 16, link) + close)}`,
  ),
);
const conditions = margin * sqlLimits.conditions;
const joined = [`id = 1${many(conditions, ' OR id = 2')}`, `id <> 1${many(conditions / 2, ' AND id <> 2 OR i = 3')}`];
const everywhere = (text: string): readonly SqlQuestion[] => [
  { way: 'count', sql: `(${text})` },
  { way: 'count', sql: `(coalesce(${text}) IS NULL)` },
  { way: 'delete', sql: `(coalesce(${text}) IS NULL)` },
  // Functions take no columns of `target`.
  { way: 'update', sql: `((${text.replaceAll(/\b(?:id|f|v|b|ts|st|a|i)\b(?!['"])/g, 'target.$&')}) IS NULL)` },
];

const most = sqlLimits.depth - 1;
const deepest = (column: string): readonly string[] => [
  `${many(most, '(')}${column}${many(most, ')')} = 1`,
  `${many(most, '- ')}${column} > 1`,
  `${many(most, '(')}${column} IS NULL${many(most, ')')}`,
];

describe('the engine reads what is as deep as the check lets it be', () => {
  const judge = new SqlJudge({ withIndex: false });
  after(() => judge.stop());
  const read = filterReader([]);
  for (const [way, column] of [
    ['count', 'id'],
    ['delete', 'id'],
    ['update', 'target.id'],
  ] as const) {
    test(way, async () => {
      for (const text of deepest(column)) {
        const verdict = await judge.judge({ way, sql: read(text, 'filter') });
        assert.ok('rows' in verdict, `${text}: ${JSON.stringify(verdict)}`);
        assert.throws(() => read(`(${text.replace(column, `((${column}))`)})`, 'filter'), { kind: 'InvalidInput' });
      }
    });
  }
});

for (const withIndex of [false, true]) {
  describe(`four times of what a filter may hold ends no process (P12), ${withIndex ? 'with' : 'without'} indexes`, () => {
    const judge = new SqlJudge({ withIndex });
    after(() => judge.stop());
    const survives = async (question: SqlQuestion) => {
      const verdict = await judge.judge(question);
      assert.ok('ms' in verdict, `${question.way}: ${question.sql.slice(0, 80)}: ${JSON.stringify(verdict)}`);
    };

    test('chains of every operator, bare and inside a function', async () => {
      for (const text of withIndex ? chains.slice(-2) : chains) {
        for (const question of everywhere(text)) await survives(question);
      }
    });

    if (!withIndex) {
      test('chains inside of nested brackets', async () => {
        for (const text of mixed) for (const question of everywhere(text).slice(0, 2)) await survives(question);
      });
    }

    test('ANDs and ORs that the engine balances', async () => {
      for (const text of joined) {
        await survives({ way: 'count', sql: `(${text})` });
        if (!withIndex) await survives({ way: 'delete', sql: `(${text})` });
      }
    });
  });
}
