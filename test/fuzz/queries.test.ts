/**
 * Whatever a client asks of a table's rows, the answer has them or says what is wrong: no reader dies of it, and no error shows a cell
 * (P12). By hand:
 *   LANCEGATE_QUERY_RUNS=20000 LANCEGATE_QUERY_SEED=7 node --test test/fuzz/queries.test.ts
 */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { Field, FixedSizeList, Float32, Table, tableFromIPC, tableToIPC, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { randomOf } from '#test/fuzz/mutations.ts';
import { SqlWriter } from '#test/fuzz/sql-grammar.ts';
import { showsSecret, sqlTableFile } from '#test/fuzz/sql-table.ts';

const runs = Number(process.env.LANCEGATE_QUERY_RUNS ?? 250);
const seed = Number(process.env.LANCEGATE_QUERY_SEED ?? 1);

type Fields = Readonly<Record<string, unknown>>;
type Random = (bound: number) => number;

const pick = <Item>(random: Random, items: readonly Item[]): Item => items[random(items.length)] as Item;
/** Some of these fields, each made only where it is taken. */
const some = (random: Random, fields: Readonly<Record<string, () => unknown>>): Fields =>
  Object.fromEntries(
    Object.entries(fields)
      .filter(() => random(3) === 0)
      .map(([name, make]) => [name, make()]),
  );

const limits = [0, 1, 3, 20, 10_000, 2 ** 32 - 1, 2 ** 63];
const names = ['id', 'i', 's', 'v', 'st.x', '_rowid', 'vec', 'no', 'dec', 'a'];

function queryOf(random: Random): Fields {
  const sql = () => new SqlWriter(random).condition();
  const search = pick(random, [() => ({}), () => nearest(random), () => ({ full_text_query: textSearch(random) })]);
  return {
    vector: [],
    k: pick(random, limits),
    ...some(random, {
      filter: sql,
      columns: () => pick(random, [() => [pick(random, names)], () => ({ x: sql(), id: 'id' })])(),
      offset: () => pick(random, limits.slice(0, 6)),
      order_by: () => [{ column_name: pick(random, names), ascending: random(2) === 0, nulls_first: random(2) === 0 }],
      with_row_id: () => true,
      fast_search: () => true,
      prefilter: () => random(2) === 0,
    }),
    ...search(),
  };
}

const nearest = (random: Random): Fields => ({
  vector: pick(random, [
    [1, 2, 3],
    [
      [0, 0, 1],
      [1, 0, 0],
    ],
    Array.from({ length: 200 }, (_, i) => [i, 1, 0]),
    [1],
    [3.4e38, -3.4e38, 1e-45],
  ]),
  ...some(random, {
    distance_type: () => pick(random, ['l2', 'cosine', 'dot', 'hamming']),
    refine_factor: () => pick(random, [1, 3, 10_000]),
    nprobes: () => pick(random, [1, 20, 1_000_000]),
    ef: () => pick(random, [1, 100_000]),
    lower_bound: () => pick(random, [-1, 0, 5]),
    upper_bound: () => pick(random, [-1, 0, 3e38]),
    bypass_vector_index: () => true,
    vector_column: () => pick(random, ['vec', 'id', 'no']),
  }),
});

const words = ['salary98765', 'SALARY', '7', '', ' ', 'a'.repeat(5_000), '"x y"', '💥 ü', '-'];

function textSearch(random: Random): Fields {
  if (random(3) > 0) return { query: textQuery(random, 1 + random(4)) };
  return { query: pick(random, words), columns: pick(random, [[], ['v'], ['s'], ['no']]) };
}

function textQuery(random: Random, depth: number): Fields {
  const terms = pick(random, words);
  const column = () => pick(random, ['v', 'v', 'v', 's', 'id']);
  const inner = () => textQuery(random, depth - 1);
  const match = () => ({
    match: {
      terms,
      ...some(random, {
        column,
        boost: () => pick(random, [0, 1, 1e6]),
        fuzziness: () => pick(random, [0, 1, 2]),
        max_expansions: () => pick(random, [1, 1_000]),
        operator: () => pick(random, ['AND', 'OR']),
        prefix_length: () => pick(random, [0, 3, 1_000]),
      }),
    },
  });
  const phrase = () => ({ phrase: { terms, ...some(random, { column, slop: () => pick(random, [0, 1_000]) }) } });
  const many = () => ({ multi_match: { query: terms, columns: [column(), ...(random(2) === 0 ? ['v'] : [])] } });
  if (depth <= 0) return pick(random, [match, match, phrase, many])();
  const parts = () => Array.from({ length: random(4) }, inner);
  const boost = () => ({
    boost: { positive: inner(), negative: inner(), negative_boost: pick(random, [0, 0.5, 1e6]) },
  });
  const boolean = () => ({ boolean: some(random, { should: parts, must: parts, must_not: parts }) });
  return pick(random, [match, phrase, many, boost, boolean])();
}

describe(`${runs} queries at random, seed ${seed}`, () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startTestService(later);
    const plain = tableFromIPC(sqlTableFile());
    const type = new FixedSizeList(3, new Field('item', new Float32(), true));
    const vec = vectorFromArray(
      Array.from({ length: plain.numRows }, (_, i) => [i, 1, 0]),
      type,
    );
    const body = Buffer.from(tableToIPC(plain.assign(new Table({ vec })), 'stream'));
    const { status } = await service.post('/v1/table/t/create', body);
    assert.equal(status, 200);
    const table = await (await connect(service.tablesFolder)).openTable('t');
    await table.createIndex('v', { config: Index.fts({ withPosition: true }) });
  });

  const faultOf = async (body: Fields): Promise<string | undefined> => {
    const { status, body: answer } = await service.post('/v1/table/t/query', body);
    if (status === 200) return undefined;
    const { error } = answer;
    if (status !== 400) return `${status} ${error}`;
    return showsSecret(String(error), JSON.stringify(body)) ? `shows a cell: ${error}` : undefined;
  };

  it('are answered, or refused with what is wrong (P12)', async (t) => {
    const faults: string[] = [];
    for (let run = 0; run < runs; run++) {
      const body = queryOf(randomOf(seed, run));
      const fault = await faultOf(body);
      if (fault !== undefined) faults.push(`seed ${seed}, run ${run}: ${fault}: ${JSON.stringify(body).slice(0, 400)}`);
    }
    t.diagnostic(`seed ${seed}: ${faults.length} faults`);
    assert.deepEqual(faults.slice(0, 10), []);
  });
});
