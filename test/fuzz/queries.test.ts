/**
 * Whatever a client asks of a table's rows, the answer has them or says what is wrong: no reader dies of it, and no error shows a cell
 * (P12). By hand:
 *   LANCEGATE_QUERY_RUNS=20000 LANCEGATE_QUERY_SEED=7 node --test test/fuzz/queries.test.ts
 */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import {
  type DataType,
  Field,
  FixedSizeList,
  Float32,
  List,
  Schema,
  Table,
  tableFromIPC,
  tableToIPC,
  Uint8,
  vectorFromArray,
} from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { randomOf } from '#test/fuzz/mutations.ts';
import { SqlWriter } from '#test/fuzz/sql-grammar.ts';
import { showsSecret, sqlTableFile } from '#test/fuzz/sql-table.ts';

const runs = Number(process.env.LANCEGATE_QUERY_RUNS ?? 125);
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
const names = ['id', 'i', 's', 'v', 'st.x', '_rowid', 'vec', 'no', 'dec', 'a', '_score', '_distance', 'ID'];

function queryOf(random: Random): Fields {
  const sql = () => pick(random, [() => new SqlWriter(random).condition(), () => 'id > 3', () => 'i IS NULL'])();
  const search = pick(random, [() => ({}), () => nearest(random), () => ({ full_text_query: textSearch(random) })]);
  return {
    vector: [],
    k: pick(random, limits),
    ...some(random, {
      filter: sql,
      columns: () =>
        pick(random, [
          () => [pick(random, names)],
          () => ({ x: sql(), id: 'id' }),
          () => ({ x: pick(random, ['1', 'NULL', "'a'", '[1, 2]', sql()]) }),
          () => ({ column_aliases: { x: pick(random, names) } }),
          () => ({ column_aliases: { x: 'id', id: 'v' } }),
          () => ({ column_names: [] }),
        ])(),
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
    vector_column: () => pick(random, ['vec', 'vec', 'bits', 'many', 'id', 'no']),
  }),
});

const words = ['salary98765', 'SALARY', '7', '', ' ', 'a'.repeat(5_000), '"x y"', '💥 ü', '-'];

function textSearch(random: Random): Fields {
  if (random(3) > 0) return { query: textQuery(random, 1 + random(4)) };
  return { query: pick(random, words), columns: pick(random, [[], ['v'], ['s'], ['no']]) };
}

function textQuery(random: Random, depth: number): Fields {
  const terms = pick(random, words);
  const column = () => pick(random, ['v', 'v', 'v', 'v', 'v', 'v', 's', 's', 'id']);
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

const vectorsOf = (type: DataType) => new FixedSizeList(3, new Field('item', type, true));
const vectorColumns = (rows: number) => {
  const of = (type: DataType, value: (row: number) => unknown) =>
    vectorFromArray(
      Array.from({ length: rows }, (_, row) => value(row)),
      type,
    );
  return new Table({
    vec: of(vectorsOf(new Float32()), (row) => [row, 1, 0]),
    bits: of(vectorsOf(new Uint8()), (row) => [row, 1, 0]),
    many: of(new List(new Field('item', vectorsOf(new Float32()), true)), (row) => [[row, 1, 0]]),
  });
};

/** Tables of the same columns with and without rows and indexes, one with nothing at all. */
async function makeTables(service: TestService): Promise<readonly string[]> {
  const plain = tableFromIPC(sqlTableFile());
  const whole = plain.assign(vectorColumns(plain.numRows));
  const create = async (name: string, table: Table) => {
    const { status, body } = await service.post(`/v1/table/${name}/create`, Buffer.from(tableToIPC(table, 'stream')));
    assert.equal(status, 200, JSON.stringify(body));
  };
  const open = async (name: string) => (await connect(service.tablesFolder)).openTable(name);
  await create('t', whole);
  await (await open('t')).createIndex('v', { config: Index.fts({ withPosition: true }) });
  await create('indexed', whole);
  const indexed = await open('indexed');
  await indexed.createIndex('v', { config: Index.fts({ withPosition: false }) });
  await indexed.createIndex('s', { config: Index.fts({ withPosition: true }) });
  await indexed.createIndex('vec', { config: Index.hnswSq({ numPartitions: 1 }) });
  await create('empty', whole.slice(0, 0));
  await create('bare', new Table(new Schema([])));
  return ['t', 't', 'indexed', 'indexed', 'empty', 'bare'];
}

describe(`${runs} queries at random, seed ${seed}`, () => {
  const later = afterSuite();
  let service: TestService;
  let tables: readonly string[];
  before(async () => {
    service = await startTestService(later);
    tables = await makeTables(service);
  });

  const faultOf = async (path: string, body: Fields): Promise<string | undefined> => {
    const { status, body: answer } = await service.post(path, body);
    if (status === 200) return undefined;
    const { error } = answer;
    if (status !== 400) return `${status} ${error} ${causeIn(service.log)}`;
    return showsSecret(String(error), JSON.stringify(body)) ? `shows a cell: ${error}` : undefined;
  };

  it('are answered, or refused with what is wrong (P12)', async (t) => {
    const faults: string[] = [];
    for (let run = 0; run < runs; run++) {
      const random = randomOf(seed, run);
      const query = queryOf(random);
      const [route, body] = pick(random, [
        ...Array.from({ length: 4 }, () => ['query', query] as const),
        ['explain_plan', { query }],
        ['analyze_plan', query],
        ['count_rows', { predicate: query.filter ?? 'id > 3' }],
      ] as const);
      const path = `/v1/table/${pick(random, tables)}/${route}`;
      const fault = await faultOf(path, body);
      if (fault !== undefined) {
        faults.push(`seed ${seed}, run ${run}: ${fault}: ${path} ${JSON.stringify(body).slice(0, 600)}`);
      }
    }
    t.diagnostic(`seed ${seed}: ${faults.length} faults`);
    assert.deepEqual(faults.slice(0, 10), []);
  });
});

/** What the engine said last. */
function causeIn(log: readonly string[]): string {
  const last = log.findLast((line) => line.includes('a request failed unexpectedly')) ?? '{}';
  const { error } = JSON.parse(last) as { readonly error?: { readonly message: string } };
  return (error?.message ?? '').slice(0, 300);
}
