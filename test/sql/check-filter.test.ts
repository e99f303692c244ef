import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type CheckedSql, ownSql } from '#src/kernel/checked-sql.ts';
import type { LancegateError } from '#src/kernel/errors.ts';
import { roundsOf } from '#src/operations/rows/update-rows.ts';
import { sqlLimits } from '#src/sql/limits.ts';
import { filterReader } from '#src/wire/merge-parameters.ts';

const read = filterReader([]);
const accepted = (text: string): string => read(text, 'predicate');
function refusal(text: string): string {
  try {
    read(text, 'predicate');
  } catch (error) {
    assert.equal((error as LancegateError).kind, 'InvalidInput', text);
    return (error as LancegateError).message;
  }
  return assert.fail(`accepted: ${text.slice(0, 200)}`);
}

describe("what clients' filters may say (P12)", () => {
  const good = [
    `id = 1 AND NOT (v LIKE 'a%' ESCAPE '\\' OR v NOT ILIKE s) OR b IS NOT TRUE`,
    'id BETWEEN -1 AND +2 AND id NOT BETWEEN 1 AND 2 AND id NOT IN (1, -2, 3.5e7)',
    'target.n < source.n AND `a``b`.c = 1 AND `x"y` IS DISTINCT FROM 2',
    `d > DATE '2026-01-01' AND coalesce(ts > now() - INTERVAL '1' DAY)`,
    `CAST(id AS decimal(10, 2)) > 1 AND id::bigint unsigned > 1 AND try_cast(v AS int) IS NULL`,
    `a[1] = 1 AND (st).x = 2 AND st['x'] = 1 AND array_has_any(a, [1, -2])`,
    `coalesce(CASE WHEN id > 1 THEN true ELSE false END, CASE b WHEN true THEN false END)`,
    `coalesce(SUBSTRING(v FROM 1 FOR 3) = 'x', POSITION('E' IN v) = 2, TRIM(BOTH 'S' FROM v) = 'E')`,
    `coalesce(EXTRACT(YEAR FROM ts) = 1970, OVERLAY(v PLACING 'x' FROM 1) = 'x')`,
    `bin = X'0aFF' AND regexp_like(v, '^a{3}$', 'i') AND key IN (arrow_cast('1.5', 'Decimal128(10, 2)'))`,
    'order = 1 AND date = 2 AND `end` = 3 AND été = 4 AND _rowid = 5',
  ];
  for (const text of good) test(text, () => assert.equal(accepted(text), `(${text})`));

  test('comments reach the engine as blanks, and lines stay where they are', () => {
    assert.equal(accepted('id /* ) */ = 1 -- )\n OR b'), '(id         = 1     \n OR b)');
    assert.equal(accepted("v = '-- /* '"), "(v = '-- /* ')");
  });

  test('a name in double quotes reaches the engine in backticks: in an expression it would make a text of it', () => {
    assert.equal(accepted('"x""y" = "a`b" /* "z" */'), '(`x"y` = `a``b`          )');
    assert.equal(accepted(`st."x" = '"c"' AND \`"d"\` > "e"["f"]`), `(st.\`x\` = '"c"' AND \`"d"\` > \`e\`[\`f\`])`);
  });

  test('texts may stand in double quotes directly behind an equals sign, where a reader asks for that', () => {
    const quoted = (text: string): string => read(text, 'predicate', 'texts behind =');
    assert.equal(quoted(`a = "it's" AND "b" == "x""y"`), `(a = 'it''s' AND \`b\` == 'x"y')`);
    assert.equal(
      quoted('a != "b" OR a > "b" OR a IN ("b") OR a = ("b")'),
      accepted('a != "b" OR a > "b" OR a IN ("b") OR a = ("b")'),
    );
  });

  test('what is as long as is allowed can be read again for the names in it', () => {
    const list = Array.from({ length: (sqlLimits.tokens - 4) / 2 }, () => '1').join();
    const value = accepted(`NOT id IN (${list})`) as CheckedSql;
    const updates = [
      { column: 'id', value: ownSql('1') },
      { column: 'is_old', value },
    ];
    assert.deepEqual(
      roundsOf(updates).map((round) => round.map(({ column }) => column)),
      [['is_old'], ['id']],
    );
  });

  test('an operator can allow more functions', () => {
    assert.match(refusal("repeat(v, 2) = 'x'"), /the function repeat is not one/);
    assert.equal(filterReader(['repeat'])("repeat(v, 2) = 'x'", 'p'), "(repeat(v, 2) = 'x')");
  });
});

describe('a refusal names the parameter, what is wrong, and where', () => {
  const bad: readonly (readonly [text: string, message: RegExp])[] = [
    ['', /^predicate: the expression is empty \(column 1\)$/],
    [' -- nothing', /the expression is empty/],
    ["id > 1 v = 'x'", /^predicate: v stands where an operator should come, such as = or AND \(column 8\)$/],
    ['id > 1\n  OR = 2', /= stands where a value should come \(line 2, column 6\)/],
    ['id > 1) OR (true', /\) closes what was not opened \(column 7\)/],
    ['(id > 1', /\( is not closed \(column 1\)/],
    ['id >', /ends where a value should come \(column 5\)/],
    ['id = 1;', /";" has no meaning here \(column 7\)/],
    ["v = 'x", /the quoted text does not end \(column 5\)/],
    ['id = 1 /* x', /the comment does not end \(column 8\)/],
    ['id = 1 /* /* */ */', /a comment begins inside another/],
    ['id = ?', /has no meaning here/],
    ['id = $1', /has no meaning here/],
    ['v = $$x$$', /has no meaning here/],
    ["v = E'x'", /stands where an operator should come/],
    ["v = N'x'", /stands where an operator should come/],
    ['id = 1.5.5', /runs into what follows/],
    ['id = 1e309', /the number 1e309 is larger than any/],
    [`id IN (1${'0'.repeat(309)})`, /larger than any/],
    ['id#a = 1', /written in backticks/],
    ['id = 1 OR `` = 1', /a quoted name is empty \(column 11\)/],
    ['json_array_length(v, concat(v))', /argument 2 of json_array_length must be a text, written out/],
    ["json_array_contains(v, '$..a', 1)", /may not hold/],
    ['id IN ()', /a value should come here/],
    ['id IN (SELECT 1)', /no subqueries/],
    ['EXISTS (SELECT 1)', /no subqueries/],
    ['id = ANY(a)', /the function any/],
    ['ARRAY[1] = a', /write an array as/],
    ["v ~ 'x'", /"~" has no meaning/],
    ["v SIMILAR TO 'x'", /SIMILAR stands where an operator/],
    ['id XOR 1', /XOR stands where an operator/],
    ['CASE WHEN b THEN 1', /CASE is not closed/],
    ['id::nosuchtype = 1', /a type should come here, one of bigint, .*\(column 5\)/],
    ['id::decimal(999, 2) = 1', /a precision of 1 to 38/],
    ["arrow_cast(v, 'Foo') = 1", /'Foo' is not an Arrow type/],
    ["arrow_cast(v, 'FixedSizeBinary(2000000000)') = 1", /more than 9999 bytes/],
    ['arrow_cast(v, v) = 1', /argument 2 of arrow_cast must be a text, written out/],
    ["regexp_like(v, '(a{50}){50}')", /repeats more than 100 times/],
    [`regexp_like(v, concat('(', v))`, /must be a text, written out/],
    ["v LIKE '%' || v", /LIKE takes a text, written out, or a column/],
    [`v LIKE '${'%a'.repeat(101)}'`, /more than 100 wildcards/],
    ['pg_catalog.length(v) = 1', /has no dots/],
    ['array_has([[1]], LENGTH) AND length(ALL v) = 1', /stands where an operator should come/],
    ...[
      'repeat(v, 2000000000)',
      '"repeat"(v, 2)',
      '`RePeat`(v, 2)',
      'lpad(v, 9)',
      'range(0, 3e9)',
      'generate_series(0, 3e9)',
      'array_repeat(1, 9)',
      'array_resize(a, 9)',
      'regexp_replace(v, v, v)',
      'random()',
      'uuid()',
      'pg_sleep(9)',
      'sum(id)',
      'st_area(v)',
    ].map((call) => [`${call} IS NULL`, /the function \w+ is not one that filters may call/] as const),
  ];
  for (const [text, message] of bad) test(text.slice(0, 60), () => assert.match(refusal(text), message));
});

describe('an expression is bounded (P12)', () => {
  const many = (count: number, text: string, separator = '') => Array(count).fill(text).join(separator);

  test('chains and nesting are as deep as the limit, whatever they are made of', () => {
    const links = [
      '+1',
      '-id',
      '||v',
      '::int',
      ' IS NULL',
      '=true',
      ' IN (1)',
      '[1]',
      " AT TIME ZONE 'UTC'",
      '&1',
      '^1',
    ];
    for (const link of links) {
      accepted(`id${many(sqlLimits.depth - 2, link)}`);
      assert.match(
        refusal(`id${many(sqlLimits.depth + 1, link)}`),
        new RegExp(`more than ${sqlLimits.depth} operators, functions and brackets`),
        link,
      );
    }
    const nests = [
      ['(', ')', 1],
      ['NOT ', '', 1],
      ['- ', '', 1],
    ] as const;
    for (const [open, close, each] of nests) {
      const most = (sqlLimits.depth - 2) / each;
      accepted(`${many(most, open)}id${many(most, close)}`);
      assert.match(refusal(`${many(most + 3, open)}id${many(most + 3, close)}`), /inside of one another/, open);
    }
  });

  test('depth adds up along the way, through brackets and the branches of CASE', () => {
    const nested = (depth: number) => `${many(depth, '(1-')}id${many(depth, ')')} = 1`;
    accepted(nested(20));
    assert.match(refusal(nested(25)), /inside of one another/);
    assert.match(refusal(`coalesce(CASE ${many(50, 'WHEN b THEN 1 ')}END)`), /inside of one another/);
  });

  test('ANDs and ORs that the engine balances may be many, and what to write instead is said', () => {
    accepted(many(sqlLimits.conditions, 'id = 1', ' OR '));
    accepted(`NOT (${many(1000, 'id BETWEEN 1 AND 2', ' AND ')}) OR (${many(1000, 'b', ' OR ')})`);
    assert.match(refusal(many(sqlLimits.conditions + 2, 'id = 1', ' OR ')), /write id IN \(1, 2, …\)/);
    assert.match(refusal(`coalesce(${many(60, 'b', ' OR ')})`), /inside of one another/);
  });

  test('what the engine writes or reads twice is in few of its own kind, as each multiplies the others', () => {
    const kinds = [
      ['', ' NOT BETWEEN 1 AND 2'],
      ['coalesce(', ', b)'],
      ['nvl2(', ', b, b)'],
      ['CASE WHEN ', ' THEN b ELSE b END'],
      ['NOT (', ')'],
      ['TRIM(', ')'],
      ['encode(', ", 'hex')"],
      ['arrow_cast(', ", 'Binary')"],
      ['(', '::bytea)'],
    ] as const;
    for (const [open, close] of kinds) {
      accepted(`${many(4, open)}b${many(4, close)}`);
      assert.match(refusal(`${many(5, open)}b${many(5, close)}`), /more than 8 functions/, open);
    }
    assert.match(
      refusal(
        '(((NOT (b)) BETWEEN true AND b) BETWEEN coalesce(b BETWEEN b AND b) AND b) BETWEEN b AND b BETWEEN b AND b',
      ),
      /more than 8 functions/,
    );
    accepted(`${many(8, 'length(')}v${many(8, ')')} = 1`);
    assert.match(refusal(`${many(9, 'length(')}v${many(9, ')')} = 1`), /more than 8 functions/);
    accepted(many(100, 'NOT (id BETWEEN 1 AND 2)', ' AND '));
  });

  test('replace takes texts, written out, and makes of a text one of at most eight times its length', () => {
    accepted("replace(v, '&', '&amp;') = 'a'");
    accepted(`${many(8, 'replace(')}v${many(8, ", 'long', 's')")} = 'a'`);
    accepted("replace(replace(v, 'é', 'e'), ' ', '') = 'a'");
    const mistakes = [
      ['replace(v, v, v)', /argument 2 of replace must be a text, written out/],
      ["replace(v, 'a', v)", /argument 3 of replace must be a text, written out/],
      ["replace(v, 'a', 'b' || v)", /argument 3 of replace must be a text, written out/],
      ["replace(v, '', 'b')", /is empty/],
      [`replace(v, 'a', '${many(9, 'b')}')`, /more than 8 times as long as the text that it replaces/],
      [`replace(v, 'a', '${many(5, 'é')}')`, /more than 8 times as long/],
      [`replace(v, '${many(1001, 'a')}', 'b')`, /longer than 1000 characters/],
      ["replace(replace(v, 'a', 'bbb'), 'b', 'ccc')", /more than 8 functions/],
      [`${many(9, 'replace(')}v${many(9, ", 'a', 'b')")}`, /more than 8 functions/],
    ] as const;
    for (const [text, message] of mistakes) assert.match(refusal(`${text} = 'a'`), message, text);
  });

  test('many deep terms are refused for their work alone', () => {
    assert.match(refusal(many(100, `id${many(40, '+1')} > 1`, ' OR ')), /too many operators/);
  });

  test('calls with a syntax of their own are few and short, for a mistake in them is read again and again', () => {
    accepted(`${many(4, 'CAST(')}id${many(4, ' AS int)')} = 1`);
    assert.match(refusal(`${many(5, 'CAST(')}id${many(5, ' AS int)')} = 1`), /more than 8 functions/);
    assert.match(refusal(`CAST(id IN (${many(2000, '1', ',')}) AS int) = 1`), /CAST holds more than 1000/);
  });

  test('a list of 100,000 literals is read, and arrays and calls hold fewer', () => {
    accepted(`id IN (${many(100_000, '-7', ', ')})`);
    accepted(`v IN (${many(100_000, "'3f0c8f0e-7f5f-4a2b-9d53-9a3f6a0c1b2d'", ',')})`);
    assert.match(refusal(`array_has_any(a, [${many(10_001, '1', ',')}])`), /holds more than 10000 values/);
    accepted(`concat(${many(100, 'v', ',')}) = 'x'`);
    assert.match(refusal(`concat(${many(101, 'v', ',')}) = 'x'`), /holds more than 100 values/);
    assert.match(refusal(`v = '${many(9, 'x'.repeat(1 << 20))}'`), /longer than 8388608 characters/);
    assert.match(refusal(`id IN (${many(400_000, '1', ',')})`), /more than 600000 words and signs/);
    assert.match(refusal(`${many(40, 'a', '.')} = 1`), /at most 32 segments/);
  });
});
