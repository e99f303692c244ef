/** Which sums, differences and products an expression has, and what each is made of. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { type Computation, parseArithmetic, textOf } from '#src/sql/arithmetic.ts';

/** With a bracket around whatever is computed, and `neg` before what is negated. */
const shown = (expression: Computation): string => {
  switch (expression.kind) {
    case 'words':
      return expression.parts.map((part) => (typeof part === 'string' ? part : shown(part))).join(' ');
    case 'brackets':
      return `( ${shown(expression.inner)} )`;
    case 'negated':
      return `neg{${shown(expression.operand)}}`;
    case 'joined':
      return `{${shown(expression.left)} ${expression.operator} ${shown(expression.right)}}`;
  }
};

const cases: readonly (readonly [sql: string, expected: string])[] = [
  ['a + b * c', '{a + {b * c}}'],
  ['a * b + c', '{{a * b} + c}'],
  ['a - b - c', '{{a - b} - c}'],
  ['a / b % c', '{{a / b} % c}'],
  ['( a + b ) * c', '{( {a + b} ) * c}'],
  ['- a * b', '{neg{a} * b}'],
  ['a - - b', '{a - neg{b}}'],
  ['+ a - b', '{+ a - b}'],
  ["'x' || a + 1", "'x' || a + 1"],
  ['a & b + 1', 'a & b + 1'],
  ['a < b + 1 AND NOT c', 'a < {b + 1} AND NOT c'],
  ['a BETWEEN b + 1 AND c - 1', 'a BETWEEN {b + 1} AND {c - 1}'],
  ['a NOT BETWEEN b + 1 AND c', 'a NOT BETWEEN {b + 1} AND c'],
  ['a NOT IN ( b + 1 , c )', 'a NOT IN ( {b + 1} , c )'],
  ["a NOT LIKE b ESCAPE 'x'", "a NOT LIKE b ESCAPE 'x'"],
  ['a IS NOT DISTINCT FROM b + c', 'a IS NOT DISTINCT FROM {b + c}'],
  ['CASE WHEN a > b + 1 THEN - c ELSE d * 2 END + 1', '{CASE WHEN a > {b + 1} THEN neg{c} ELSE {d * 2} END + 1}'],
  ['CASE a + 1 WHEN b THEN c END', 'CASE {a + 1} WHEN b THEN c END'],
  ['CASE WHEN a THEN end * 2 END', 'CASE WHEN a THEN {end * 2} END'],
  ['CASE WHEN a THEN b ELSE end END', 'CASE WHEN a THEN b ELSE end END'],
  ['time * 1000 + zone', '{{time * 1000} + zone}'],
  ['end - start', '{end - start}'],
  ['1 + end', '{1 + end}'],
  ["at + INTERVAL '1 day'", "{at + INTERVAL '1 day'}"],
  ["at AT TIME ZONE 'UTC'", "at AT TIME ZONE 'UTC'"],
  ['a :: BIGINT + 1', '{a :: BIGINT + 1}'],
  ['s . f + 1', '{s . f + 1}'],
  ['list [ i + 1 ] * 2', '{list [ {i + 1} ] * 2}'],
  ['[ a + 1 , b ]', '[ {a + 1} , b ]'],
  ['abs ( a - b ) + 1', '{abs ( {a - b} ) + 1}'],
  ['CAST ( a + 1 AS BIGINT )', 'CAST ( {a + 1} AS BIGINT )'],
  ['extract ( YEAR FROM a + b )', 'extract ( YEAR FROM {a + b} )'],
  ['substring ( a FROM 1 + b FOR 2 )', 'substring ( a FROM {1 + b} FOR 2 )'],
  ['trim ( BOTH FROM a ) + 1', '{trim ( BOTH FROM a ) + 1}'],
];

for (const [sql, expected] of cases) {
  test(`${sql} is computed as ${expected}`, () => {
    const expression = parseArithmetic(ownSql(sql));
    assert.equal(shown(expression), expected);
    assert.equal(textOf(expression), sql);
  });
}
