/** What clients ask of a table's rows, over HTTP: every parameter, who may ask, and how a result reaches a client. */
import assert from 'node:assert/strict';
import { type IncomingMessage, request } from 'node:http';
import { before, describe, test } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { Field, FixedSizeList, Float32, Int32, Struct, tableFromIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { readersOf } from '#test/fixtures/reader-processes.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, startUnderPolicies, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people, stream } from './rows.ts';

const vectors = (count: number) =>
  vectorFromArray(
    Array.from({ length: count }, (_, id) => [id, 0, 1]),
    new FixedSizeList(3, new Field('item', new Float32(), true)),
  );

/** Ids 0 to 9, each with a text and a vector. */
const points = stream({
  id: Array.from({ length: 10 }, (_, id) => id),
  text: vectorFromArray(
    Array.from({ length: 10 }, (_, id) => `t${id % 3}`),
    new Utf8(),
  ),
  v: vectors(10),
});

type Fields = Readonly<Record<string, unknown>>;
const noVector = { vector: [], k: 100, prefilter: true };
const rowsOf = (body: unknown): readonly Fields[] =>
  tableFromIPC(body as Buffer)
    .toArray()
    .map(
      (row) => JSON.parse(JSON.stringify(row, (_, v: unknown) => (typeof v === 'bigint' ? Number(v) : v))) as Fields,
    );

describe('POST /v1/table/{id}/query', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
    succeeded(await service.post('/v1/table/points/create', points));
  });
  const query = (body: Fields, table = 'points', path = 'query') => service.post(`/v1/table/${table}/${path}`, body);
  const ids = async (body: Fields) => rowsOf(succeeded(await query({ ...noVector, ...body }))).map(({ id }) => id);

  const found: readonly (readonly [what: string, body: Fields, ids: readonly number[]])[] = [
    ['a limit and an offset', { k: 2, offset: 3 }, [3, 4]],
    ['no limit, as 2^63-1', { k: 2 ** 63 }, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]],
    ['a limit just above 32 bits', { k: 2 ** 32 + 1, filter: 'id > 7' }, [8, 9]],
    ['a limit of none', { k: 0 }, []],
    ['a limit of none, with an order', { k: 0, order_by: [{ column_name: 'id' }] }, []],
    ['a limit of none, with row ids', { k: 0, with_row_id: true, offset: 3 }, []],
    ['a filter', { filter: "text = 't2' AND id < 6" }, [2, 5]],
    ['a filter on row ids', { filter: '_rowid IN (1, 7)' }, [1, 7]],
    ['a filter on row offsets', { filter: '_rowoffset IN (9, 0)' }, [0, 9]],
    ['an order', { order_by: [{ column_name: 'id', ascending: false }], k: 2 }, [9, 8]],
    ['a vector', { vector: [4.1, 0, 1], k: 2 }, [4, 5]],
    ['a vector of the Lance REST shape', { vector: { single_vector: [4.1, 0, 1] }, k: 1 }, [4]],
    [
      'many vectors of the Lance REST shape',
      {
        vector: {
          multi_vector: [
            [1, 0, 1],
            [8, 0, 1],
          ],
        },
        k: 1,
      },
      [1, 8],
    ],
    ['a vector of no numbers there', { vector: { single_vector: [] }, k: 1 }, [0]],
    ['a vector and a filter', { vector: [4.1, 0, 1], k: 1, filter: 'id > 6' }, [7]],
    ['a vector and a filter afterwards', { vector: [4.1, 0, 1], k: 1, filter: 'id > 6', prefilter: false }, []],
    [
      'a vector with all knobs',
      { vector: [4, 0, 1], k: 1, nprobes: 3, ef: 7, refine_factor: 2, vector_column: 'v' },
      [4],
    ],
    ['bounds of the distance', { vector: [4, 0, 1], k: 9, lower_bound: 0.5, upper_bound: 1.5 }, [3, 5]],
    ['probes of old SDKs', { vector: [4, 0, 1], k: 1, nprobes: 20, minimum_nprobes: 20, maximum_nprobes: 0 }, [4]],
    ['words without an index on the column', { full_text_query: { query: 't1', columns: ['text'] } }, [1, 4, 7]],
    [
      'words of the Lance REST shape',
      { vector: {}, full_text_query: { string_query: { query: 't1', columns: ['text'] } } },
      [1, 4, 7],
    ],
    [
      'a structured text query',
      { full_text_query: { structured_query: { query: { match: { terms: 't1', column: 'text' } } } } },
      [1, 4, 7],
    ],
  ];
  for (const [what, body, expected] of found) {
    test(`finds by ${what}`, async () => {
      assert.deepEqual((await ids(body)).toSorted(), [...expected].toSorted());
    });
  }

  test('more is asked of an index than there is memory for, and found (P12)', async () => {
    const many = Array.from({ length: 500 }, (_, id) => id);
    succeeded(await service.post('/v1/table/indexed/create', stream({ id: many, v: vectors(500) })));
    const database = await connect(service.tablesFolder);
    await (await database.openTable('indexed')).createIndex('v', { config: Index.ivfFlat({ numPartitions: 2 }) });
    const nearest = { vector: [4, 0, 1], nprobes: 2, columns: ['id'], prefilter: true };
    for (const body of [{ k: 2 ** 63 }, { k: 2 ** 32 - 1, refine_factor: 10_000 }, { k: 500, offset: 2 ** 32 - 1 }]) {
      const rows = rowsOf(succeeded(await query({ ...nearest, ...body }, 'indexed')));
      assert.equal(rows.length, 'offset' in body ? 0 : 500);
    }
  });

  const shaped: readonly (readonly [what: string, body: Fields, row: Fields])[] = [
    ['names, in order', { columns: ['text', 'id'] }, { text: 't0', id: 0 }],
    ['names of the Lance REST shape', { columns: { column_names: ['id'] } }, { id: 0 }],
    ['aliases of the Lance REST shape', { columns: { column_aliases: { key: 'id' } } }, { key: 0 }],
    ['expressions', { columns: { b: 'id + 1', a: "concat(text, '!')" } }, { b: 1, a: 't0!' }],
    ['the row id', { columns: ['id'], with_row_id: true }, { id: 0, _rowid: 0 }],
    ['the row id by name', { columns: ['_rowid', '_rowoffset'] }, { _rowid: 0, _rowoffset: 0 }],
    ['the distance', { columns: ['id'], vector: [0, 0, 1] }, { id: 0, _distance: 0 }],
  ];
  for (const [what, body, row] of shaped) {
    test(`columns: ${what}`, async () => {
      const [first] = rowsOf(succeeded(await query({ ...noVector, k: 1, ...body })));
      assert.deepEqual(Object.entries(first!), Object.entries(row));
    });
  }

  test('an empty result is a file with the schema', async () => {
    const answer = await query({ ...noVector, filter: 'id < 0', columns: ['id'] });
    assert.equal(answer.headers.get('content-type'), 'application/vnd.apache.arrow.file');
    const table = tableFromIPC(succeeded(answer) as unknown as Buffer);
    assert.deepEqual([table.numRows, table.schema.fields.map(({ name }) => name)], [0, ['id']]);
  });

  const wrong: readonly (readonly [body: Fields, error: RegExp, code?: number])[] = [
    [{ vector: [1, 2] }, /^vector: it has 2 numbers, and the table has vectors of 3 only$/],
    [{ vector: [1, 2], vector_column: 'v' }, /^vector: it has 2 numbers, and column v takes 3$/],
    [{ vector: [1, 0, 1], vector_column: 'id' }, /^vector_column: column id holds no vectors, but int32$/],
    [{ vector: [1, 0, 1], vector_column: 'w' }, /^vector_column: the table has no column w$/, 12],
    [{ vector: [1, 'x', 1] }, /^vector: number 2 is not a number$/],
    [{ vector: [1, 1e39, 1] }, /^vector: number 2 is beyond a 32-bit float$/],
    [{ vector: [1, null, 1] }, /^vector: number 2 is not a number$/],
    [
      {
        vector: [
          [1, 0, 1],
          [1, 0],
        ],
      },
      /^vector: one has 3 numbers and another 2$/,
    ],
    [{ vector: [[]] }, /^vector: a vector has 1 to 65536 numbers$/],
    [{ vector: 'x' }, /^vector must be an array/],
    [{ vector: Array.from({ length: 1_001 }, () => [1, 0, 1]) }, /^vector: there are more than 1000 vectors$/],
    [{ vector: [1, 0, 1], k: 0 }, /^k must be above 0/],
    [{ vector: [1, 0, 1], distance_type: 'far' }, /^distance_type must be one of l2, cosine, dot, hamming$/],
    [{ vector: [1, 0, 1], distance_type: 'hamming' }, /^distance_type: hamming does not go with these vectors$/],
    [{ vector: [1, 0, 1], minimum_nprobes: 5, maximum_nprobes: 2 }, /^minimum_nprobes must not be above/],
    [{ vector: [1, 0, 1], refine_factor: 10_001 }, /^refine_factor must be <= 10000/],
    [{ vector: [1, 0, 1], ef: -1 }, /^ef must be >= 0/],
    [{ k: 1.5 }, /^k must be a whole number$/],
    [{ k: -1 }, /^k must be >= 0/],
    [{ offset: 2 ** 32 }, /^offset must be <= 4294967295/],
    [{ filter: 'nope = 1' }, /names a column that does not exist: nope$/, 12],
    [{ filter: 'version() = 1' }, /^filter: the function version is not one that filters may call/],
    [{ filter: 'id = (SELECT 1)' }, /^filter: SELECT: a filter has no subqueries/],
    [{ columns: ['nope'] }, /names a column that does not exist: nope$/, 12],
    [{ columns: ['id', 'id'] }, /^columns: "id" is there twice$/],
    [{ columns: { a: 'repeat(text, 9)' } }, /^columns.a: the function repeat is not one/],
    [{ columns: { a: 'id) FROM x --' } }, /^columns.a: /],
    [{ columns: { a: 1 } }, /^columns: the value of a must be SQL/],
    [{ columns: [''] }, /^columns: a name is empty$/],
    [{ columns: { one: '1' } }, /^columns: at least one must be of the table$/],
    [{ order_by: [{ column_name: 'nope' }] }, /^order_by: the table has no column nope$/, 12],
    [{ order_by: [{ column_name: 'id' }], columns: ['text'] }, /^order_by: select the columns to order by, too/],
    [
      { full_text_query: { query: 'x' } },
      /^full_text_query: no column has a full-text index: create_index makes one, .*FTS$/,
    ],
    [{ full_text_query: { query: 'x', columns: ['id'] } }, /^full_text_query: column id holds no text$/],
    [{ full_text_query: { query: 'x', columns: ['w'] } }, /^full_text_query: the table has no column w$/, 12],
    [{ full_text_query: { query: { combined_fields: {} } } }, /does not know "combined_fields"$/],
    [{ full_text_query: { query: { match: { terms: 'x', fuzziness: 9 } } } }, /match: fuzziness is not valid$/],
    [{ full_text_query: { query: { boolean: { must_not: [] } } } }, /a boolean query needs a part that/],
    [{ full_text_query: { query: nested(20) } }, /nested more than 8 deep$/],
    [{ full_text_query: { query: 'x' }, vector: [1, 0, 1] }, /^vector, full_text_query: one query has one of them/],
    [{ use_lsm: true }, /^use_lsm, use_rte: /],
    [{ version: 99 }, /no such version/, 11],
    [{ branch: 'nope' }, /no such branch/, 22],
    [{ branch: 'nope', version: 1 }, /no such branch/, 22],
  ];
  for (const [body, error, code = 13] of wrong) {
    test(`${JSON.stringify(body).slice(0, 90)}: ${error}`, async () => {
      const status = code === 11 || code === 22 ? 404 : 400;
      refused(await query({ ...noVector, ...body }), status, code, error);
    });
  }

  test("what the engine finds wrong only as it looks at indexes is the client's mistake, too", async () => {
    const st = vectorFromArray(Array(10).fill({ a: 'x' }), new Struct([new Field('a', new Utf8(), true)]));
    const rows = stream({ id: Array.from({ length: 10 }, (_, id) => id), v: vectors(10), st });
    succeeded(await service.post('/v1/table/mistaken/create', rows));
    const table = await (await connect(service.tablesFolder)).openTable('mistaken');
    await table.createIndex('v', { config: Index.hnswSq({ numPartitions: 1 }) });
    const words = (columns: readonly string[]) => ({ full_text_query: { query: '"t1 t2"', columns } });
    const mistakes: readonly (readonly [body: Fields, path: string, error: RegExp, code?: number])[] = [
      [{ vector: [1, 0, 1], k: 5, ef: 1 }, 'query', /^ef: it must not be below k/],
      [{ ...noVector, ...words(['st.a', 'id']) }, 'query', /a phrase, in one column/],
      [{ ...noVector, ...words(['st.b']) }, 'query', /^full_text_query: st has no such field$/, 12],
      [{ ...noVector, k: 0, order_by: [{ column_name: 'id' }] }, 'analyze_plan', /^k must be above 0/],
      [{ vector: [1, 0, 1], k: 1, columns: ['_rowoffset'] }, 'analyze_plan', /^_rowoffset: the engine cannot analyse/],
    ];
    for (const [body, path, error, code = 13] of mistakes)
      refused(await query(body, 'mistaken', path), 400, code, error);
  });

  test('explain_plan and analyze_plan are texts without the place of the table (P9)', async () => {
    const plan = succeeded(
      await query({ query: { ...noVector, filter: 'id > 3' }, verbose: true }, 'points', 'explain_plan'),
    );
    assert.match(plan as unknown as string, /^ProjectionExec[\s\S]*full_filter=id > Int32\(3\)/);
    const analysis = succeeded(await query({ ...noVector, filter: 'id > 3' }, 'points', 'analyze_plan'));
    assert.match(analysis as unknown as string, /output_rows=6/);
    for (const text of [plan, analysis]) assert.doesNotMatch(text as unknown as string, /lancegate|points|tables/);
    refused(await query({ query: { k: 1, columns: ['nope'] } }, 'points', 'explain_plan'), 400, 12);
    refused(await query({ query: [] }, 'points', 'explain_plan'), 400, 13, /^query must be a JSON object$/);
  });

  test('nor is the place in one of several scans', async () => {
    const nearest = { vector: [4.1, 0, 1], k: 2, filter: 'id > 3' };
    const plan = succeeded(await query({ query: nearest, verbose: true }, 'points', 'explain_plan'));
    const analysis = succeeded(await query(nearest, 'points', 'analyze_plan'));
    for (const text of [plan, analysis].map(String)) {
      assert.ok(text.matchAll(/\buri=\(hidden\), projection=\[/g).toArray().length >= 2, text);
      assert.doesNotMatch(text, /lancegate|points|tables/);
    }
  });

  test('a query reads the branch and the version that it names, and sees every acknowledged commit (P11)', async () => {
    succeeded(await service.post('/v1/table/fresh/create', people([0], 'x')));
    succeeded(await service.post('/v1/table/fresh/branches/create', { name: 'b' }));
    const count = async (body: Fields) => rowsOf(succeeded(await query({ ...noVector, ...body }, 'fresh'))).length;
    for (let id = 1; id <= 10; id++) {
      succeeded(await service.post('/v1/table/fresh/merge_insert?on=id', people([id], 'x')));
      assert.equal(await count({}), id + 1);
    }
    assert.equal(await count({ version: 3 }), 3);
    assert.equal(await count({ branch: 'b' }), 1);
  });

  test('a count takes a filter on row ids', async () => {
    const { body } = await service.post('/v1/table/points/count_rows', {
      predicate: '_rowid IN (1, 2) OR _rowid = 99',
    });
    assert.equal(body, 2);
  });
});

describe('who may query', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    const isTester = `principal.subject == "tester"`;
    const policies = [
      `permit (principal, action, resource) when { ${isTester} };`,
      `permit (principal, action == Action::"QueryTable", resource) when { principal.subject == "ann" && context.branch == "b" };`,
      `permit (principal, action == Action::"ExplainTableQueryPlan", resource) when { principal.subject == "bob" };`,
    ];
    service = await startUnderPolicies(later, policies.join('\n'));
    succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
    succeeded(await service.post('/v1/table/t/branches/create', { name: 'b' }));
  });

  test('each of the three has an action of its own, and the branch in the body decides', async () => {
    const as = async (subject: string, path: string, body: Fields) =>
      (
        await service.post(`/v1/table/t/${path}`, body, {
          authorization: `Bearer ${await service.mint('lancegate:read', subject)}`,
        })
      ).status;
    const plain = { vector: [], k: 1 };
    assert.equal(await as('ann', 'query', { ...plain, branch: 'b' }), 200);
    assert.equal(await as('ann', 'query', plain), 403);
    assert.equal(await as('ann', 'explain_plan', { query: { ...plain, branch: 'b' } }), 403);
    assert.equal(await as('bob', 'explain_plan', { query: plain }), 200);
    assert.equal(await as('bob', 'analyze_plan', plain), 403);
    assert.equal(await as('bob', 'query', plain), 403);
  });
});

describe('a large result', () => {
  const later = afterSuite();
  let service: TestService;
  const rows = 30_000;
  before(async () => {
    service = await startCheckedService(later, { READERS: '2', UPLOAD_IDLE_TIMEOUT: '1s' });
    const long = 'x'.repeat(1_000);
    const id = Array.from({ length: rows }, (_, i) => i);
    const text = vectorFromArray(
      id.map((i) => `${i}${long}`),
      new Utf8(),
    );
    succeeded(await service.post('/v1/table/large/create', stream({ id: vectorFromArray(id, new Int32()), text })));
  });
  /** An answer whose body has not been read yet. */
  const begin = async (parameters = ''): Promise<IncomingMessage> => {
    const asked = request(`${service.url}/v1/table/large/query${parameters}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${await service.mint('lancegate:read')}`, connection: 'close' },
    });
    asked.end(JSON.stringify({ vector: [], k: 2 ** 63 }));
    return new Promise((resolve, reject) => {
      asked.once('response', resolve).once('error', reject);
    });
  };
  const whole = async (answer: IncomingMessage): Promise<Buffer> => Buffer.concat(await answer.toArray());
  const record = (facts: (record: Fields) => boolean): Fields | undefined =>
    service.log
      .map((line) => JSON.parse(line) as Fields)
      .find((line) => line.route === '/v1/table/:id/query' && facts(line));

  test('arrives as one file, in pieces, and the audit record says how much it was', async () => {
    const answer = await begin();
    assert.equal(answer.headers['transfer-encoding'], 'chunked');
    const bytes = await whole(answer);
    const table = tableFromIPC(bytes);
    assert.equal(table.numRows, rows);
    assert.ok(table.batches.length > 3, `${table.batches.length} batches`);
    assert.equal(table.getChild('id')?.get(rows - 1), rows - 1);
    await eventually('it is recorded', () => record(({ readRows }) => readRows === rows) !== undefined);
    const { version, sentBytes, status } = record(({ readRows }) => readRows === rows)!;
    assert.deepEqual({ version, sentBytes, status }, { version: 1, sentBytes: bytes.length, status: 200 });
  });

  test('goes no faster than its client, and is given up when that takes a byte now and then (P7, P10)', async () => {
    const answer = await begin('?timeout=20s');
    await eventually('it is given up', () => {
      answer.read(1);
      return record(({ refusal }) => refusal === 'TimedOut') !== undefined;
    });
    const { sentBytes } = record(({ refusal }) => refusal === 'TimedOut')!;
    assert.ok(Number(sentBytes) < 16 * 2 ** 20, `${sentBytes} of 30 MB`);
    await assert.rejects(whole(answer), /aborted|ECONNRESET/);
    await eventually('no query runs', async () => (await running()) === 0);
  });

  test('that exceeds its deadline ends in a broken body', async () => {
    await whole(await begin()); // the start of a reader may take as long
    const answer = await begin('?timeout=500ms');
    const isLate = ({ refusal, durationMs }: Fields) => refusal === 'TimedOut' && Number(durationMs) < 1_000;
    await eventually('it is given up', () => record(isLate) !== undefined);
    await assert.rejects(whole(answer), /aborted|ECONNRESET/);
  });

  test('of a reader that dies ends in a broken body, never in fewer rows (P12)', async () => {
    const answer = await begin();
    for (const pid of readersOf(process.pid)) process.kill(pid, 'SIGKILL');
    await assert.rejects(whole(answer), /aborted|ECONNRESET/);
    await eventually('it is recorded', () => record(({ refusal }) => refusal === 'ReaderDied') !== undefined);
  });

  test('that its client leaves ends the query (P12)', async () => {
    const answer = await begin();
    await eventually('it runs', async () => (await running()) === 1);
    answer.destroy();
    await eventually('no query runs', async () => (await running()) === 0);
  });

  const running = async (): Promise<number> => {
    const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
    const text = await (await fetch(`${service.url}/metrics`, { headers })).text();
    return Number(/^lancegate_reader_queries_running (.+)$/m.exec(text)?.[1]);
  };
});

/** A boolean query in a boolean query, and so on. */
function nested(depth: number): Fields {
  return depth === 0 ? { match: { terms: 'x', column: 'text' } } : { boolean: { must: [nested(depth - 1)] } };
}
