/** Mistakes in SQL are the client's (400), and no answer to one shows what is in a cell (P12). */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { filterReader } from '#src/wire/merge-parameters.ts';
import { SqlJudge, type SqlVerdict } from '#test/fuzz/sql-judge.ts';
import { showsSecret } from '#test/fuzz/sql-table.ts';

const mistakes: readonly string[] = [
  'CAST(v AS int) > 1',
  'v::int = 1',
  'CAST(v AS date) > now()',
  'CAST(v AS timestamp) > now()',
  'CAST(v AS boolean)',
  'CAST(v AS decimal(10,2)) > 1',
  "arrow_cast(v, 'Int8') = 1",
  "arrow_cast(v, 'Timestamp(Second, None)') > now()",
  "arrow_cast(v, 'Date32') > d",
  'to_timestamp(v) > now()',
  'to_timestamp(v, v) > now()',
  'to_date(v) > d',
  'to_time(v) IS NULL',
  'to_unixtime(v) > 1',
  "decode(v, 'hex') = X'00'",
  "decode('zz', 'hex') = X'00'",
  "decode(v, 'base64') = X'00'",
  "encode(v, 'nosuch') = 'a'",
  "chr(-1) = 'a'",
  "chr(pay) = 'a'",
  "date_trunc('x', now()) > now()",
  'date_trunc(v, ts) > now()',
  "date_part('x', ts) > 1",
  'date_part(v, ts) > 1',
  "date_bin(INTERVAL '0 day', ts) > now()",
  "coalesce(date_bin(INTERVAL '0 day', ts) > now())",
  "coalesce(ts + INTERVAL '99999999 years' > now())",
  "regexp_like(v, '(')",
  "regexp_like(v, '[')",
  "regexp_like(v, 'a', 'q')",
  "regexp_count(v, 'a', 0) > 1",
  "digest(v, 'nosuch') = X'00'",
  'a[99999999999] = 1',
  'element_at(a, 99) = 1',
  'pay / (pay - pay) > 1',
  'pay % 0 = 1',
  'factorial(pay) > 1',
  '-(-9223372036854775807 - 1) = 1',
  'abs(-9223372036854775807 - 1) = 1',
  'gcd(-9223372036854775807 - 1, 0) = 1',
  'lcm(pay, 9223372036854775807) = 1',
  'make_date(pay, 1, 1) > d',
  'make_date(2000, 13, 1) > d',
  'make_time(pay, 1, 1) IS NULL',
  'to_timestamp(pay * 1000000) > now()',
  "split_part(v, 'A', 0) = 'a'",
  "substr(v, -9223372036854775807) = 'a'",
  "coalesce(substr(v, 1, -5) = 'a')",
  'nosuch(v)',
  'v > 1',
  'b > v',
  'id + v > 1',
  'id + b > 1',
  'a = 1',
  'st = 1',
  'st.nosuch = 1',
  'nosuch = 1',
  'v',
  'id',
  'coalesce(v)',
  'NULL',
  'round(f, 99999999999) > 1',
  "json_get(v, 'a') = 'a'",
  "json_get_int(v, 'a') = 1",
  "json_extract(v, '$.a') = 'a'",
  "json_extract(v, 'zzz') = 'a'",
  'json_array_length(v) = 1',
  "json_exists(bin, '$.a')",
  "jsonb '{' = bin",
  'CAST(\'{"a"\' AS jsonb) = bin',
  'CAST(v AS jsonb) = bin',
  'map_keys(a) = a',
  'array_position(a, v) = 1',
  'coalesce(a[1:2:0] = a)',
  "array_sort(a, 'x', 'y') = a",
  'named_struct(v, 1) = st',
  "named_struct('a') = st",
  'get_field(st, v) = 1',
  "get_field(st, 'zz') = 1",
  'contains(v, id)',
  "to_hex(v) = 'a'",
  'ascii(id) = 1',
  "initcap(bin) = 'a'",
  "bin > 'a'",
  'array_distance(a, [1]) > 1',
  'inner_product(a, [1]) > 1',
  'is_valid()',
  'now(1) > ts',
  "TIMESTAMP 'xx' < ts",
  "DATE 'xx' < d",
  "d > 'xx'",
  "ts > 'xx'",
  "id = 'xx'",
  "id IN ('xx')",
  "b = 'xx'",
  "f > 'xx'",
  "dec = 'xx'",
  'id IN (SELECT)',
  '(1, 2) = id',
  'CASE WHEN b THEN b END',
  'v LIKE 1',
  "id LIKE 'a'",
  "v LIKE 'a' ESCAPE 'ab'",
  "v LIKE 'a' ESCAPE '!'",
  'id IS TRUE',
  'b AND id',
  "id BETWEEN 'a' AND 'b'",
  'coalesce(v, id) > 1',
  'coalesce(nullif(v, id) > 1)',
  'greatest(v, id) > 1',
  'instr(v, id) = 1',
  'bit_length(id) = 1',
  "datetrunc('day', v) > now()",
  "extract('year', v) = 1",
  "arrow_cast(v, 'Decimal128(38, -10)') = 1",
  "arrow_cast(v, 'FixedSizeBinary(3)') = X'00'",
  "arrow_cast(bin, 'FixedSizeBinary(3)') = X'00'",
  "arrow_cast(v, 'Interval(MonthDayNano)') IS NULL",
  "arrow_cast(a, 'Int64') = 1",
];

const read = filterReader([]);
const judge = new SqlJudge({ withIndex: false });
after(() => judge.stop());

async function refusalOf(mistake: string): Promise<{ kind: string; message: string }> {
  let verdict: SqlVerdict;
  try {
    verdict = await judge.judge({ way: 'count', sql: read(mistake, 'predicate') });
  } catch (error) {
    assert.ok(error instanceof LancegateError, String(error));
    assert.match(error.message, /^predicate: .* \((?:line \d+, )?column \d+\)$/);
    return error;
  }
  assert.ok('refusedAs' in verdict, JSON.stringify(verdict));
  assert.match(verdict.message, /^the filter /);
  return { kind: verdict.refusedAs, message: verdict.message };
}

describe(`${mistakes.length} kinds of mistakes`, () => {
  for (const mistake of mistakes) {
    test(mistake, async () => {
      const { kind, message } = await refusalOf(mistake);
      assert.match(kind, /^(?:InvalidInput|TableColumnNotFound)$/);
      assert.ok(!showsSecret(message, mistake), message);
    });
  }
});

test('the filters of merges tell no more of a row', async () => {
  const filters = [
    'CAST(target.v AS int) > 1',
    'target.pay * 9223372036854775807 * 3 / 0 > 1',
    // The engine calls these internal errors of its storage.
    'target.id BETWEEN 1 AND 2 BETWEEN 1 AND 2',
    'target.a BETWEEN 1 AND 2 = target.ts',
  ];
  for (const mistake of filters) {
    const verdict = await judge.judge({ way: 'update', sql: read(mistake, 'when_matched_update_all_filt') });
    assert.ok('refusedAs' in verdict && verdict.refusedAs === 'InvalidInput', JSON.stringify(verdict));
    assert.ok(!showsSecret(verdict.message, mistake), verdict.message);
  }
});
