/** `create_index`, `index/{name}/drop` and the jobs of builds, with what a hostile client sends. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import {
  Field,
  FixedSizeList,
  Float32,
  Int32,
  LargeUtf8,
  makeData,
  Schema,
  Struct,
  Table,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { branchBranchesWithIndexes } from './branched-indexes.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { stream } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"builder", action == Action::"CreateTableIndex", resource);
permit (principal == Principal::"guest", action in Action::"read", resource);
`;

const vectorType = new FixedSizeList(8, new Field('item', new Float32(), true));

function documents(count: number): Uint8Array {
  const ids = Array.from({ length: count }, (_, id) => id);
  const columns = {
    id: vectorFromArray(ids, new Int32()),
    n: vectorFromArray(
      ids.map((id) => ({ text: `text ${id}` })),
      new Struct([new Field('text', new Utf8(), true)]),
    ),
    vector: vectorFromArray(
      ids.map((id) => Array.from({ length: 8 }, (_, at) => Math.sin(8 * id + at))),
      vectorType,
    ),
  };
  const fields = Object.entries(columns).map(([name, { type }]) => new Field(name, type, true));
  const children = Object.values(columns).map(({ data: [only] }) => only!);
  const batch = makeData({ type: new Struct(fields), length: count, children });
  return tableToIPC(new Table(new Schema(fields), batch as never), 'stream');
}

describe('indexes of a table', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    succeeded(await service.post('/v1/table/t/create', documents(300)));
    succeeded(await service.post('/v1/table/empty/create', documents(0)));
    succeeded(await service.post('/v1/table/declared/declare', {}));
  });
  const build = (body: object, table = 't', path = 'create_index') => service.post(`/v1/table/${table}/${path}`, body);
  const drop = (name: string, query = '') => service.post(`/v1/table/t/index/${encodeURIComponent(name)}/drop${query}`);
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });
  const stored = async (name = 't') => (await (await connect(service.tablesFolder)).openTable(name)).listIndices();
  const pq = { column: 'vector', index_type: 'IVF_PQ' };

  test('a build is a transaction, and its options are in the index', async () => {
    const made = succeeded(
      await build({ ...pq, distance_type: 'cosine', num_partitions: 3, num_sub_vectors: 2, max_iterations: 7 }),
    );
    const { status } = succeeded(await service.post(`/v1/transaction/${String(made.transaction_id)}/describe`));
    assert.equal(status, 'SUCCEEDED');
    const [index] = await stored();
    const details = index?.indexDetails as Record<string, Record<string, unknown>>;
    assert.equal(details.metric_type, 'COSINE');
    assert.equal(details.compression?.num_sub_vectors, 2);
    assert.deepEqual(
      [details.runtime_hints?.['lance.ivf.max_iters'], details.runtime_hints?.['lancegate.ivf.num_partitions']],
      ['7', '3'],
    );
    succeeded(await drop('vector_idx'));
    assert.deepEqual(await stored(), []);
  });

  test('a column in a struct is named by its path, and the index after it', async () => {
    succeeded(await build({ column: 'n.text', index_type: 'INVERTED' }, 't', 'create_scalar_index'));
    assert.deepEqual(
      (await stored()).map(({ name, indexType }) => [name, indexType]),
      [['n.text_idx', 'FTS']],
    );
    succeeded(await drop('n.text_idx'));
  });

  test('one that exists is replaced, unless the request says otherwise', async () => {
    const body = { column: 'id', index_type: 'BTREE', name: 'mine' };
    succeeded(await build(body));
    const [first] = await stored();
    succeeded(await build(body));
    const [second] = await stored();
    assert.notEqual(first?.indexUuid, second?.indexUuid);
    refused(await build({ ...body, replace: false }), 409, 7, /mine/);
    refused(await build({ ...body, replace: false }, 't', 'create_index/'), 400, 7, /mine/);
    refused(await build({ ...body, column: 'n.text' }), 400, 13, /another column/);
    succeeded(await drop('mine'));
    refused(await drop('mine'), 404, 6, /mine/);
  });

  test('on a branch it is of the branch alone', async () => {
    succeeded(await service.post('/v1/table/t/branches/create', { name: 'dev' }));
    succeeded(await build({ column: 'id', index_type: 'BITMAP', branch: 'dev' }));
    assert.deepEqual(await stored(), []);
    refused(await drop('id_idx'), 404, 6);
    succeeded(await drop('id_idx', '?branch=dev'));
  });

  const faults: Readonly<Record<string, readonly [body: object, status: number, code: number, says: RegExp]>> = {
    'a column that is not there': [{ column: 'none', index_type: 'BTREE' }, 400, 12, /no column none/],
    'a malformed path': [{ column: 'a..b', index_type: 'BTREE' }, 400, 13, /path/],
    'no column': [{ index_type: 'BTREE' }, 400, 13, /column/],
    'a type that there is not': [{ column: 'id', index_type: 'MAGIC' }, 400, 13, /BTREE/],
    'a type that the engine cannot build': [{ column: 'id', index_type: 'ZONEMAP' }, 406, 0, /ZONEMAP/],
    'vectors of numbers': [{ column: 'id', index_type: 'IVF_FLAT' }, 400, 13, /int32/],
    'texts of vectors': [{ column: 'vector', index_type: 'FTS' }, 400, 13, /fixed_size_list/],
    'a distance that there is not': [{ ...pq, distance_type: 'far' }, 400, 13, /distance_type/],
    'hamming of floats, of which the engine dies': [
      { column: 'vector', index_type: 'IVF_FLAT', metric_type: 'hamming' },
      ...([400, 13] as const),
      /hamming/,
    ],
    'no partitions, of which the engine dies': [{ ...pq, num_partitions: 0 }, 400, 13, /num_partitions/],
    'more partitions than rows': [{ ...pq, num_partitions: 5_000 }, 400, 13, /num_partitions/],
    'parts that do not divide the vectors': [{ ...pq, num_sub_vectors: 3 }, 400, 13, /num_sub_vectors/],
    'five bits': [{ ...pq, num_bits: 5 }, 400, 13, /num_bits/],
    'a language of which the engine dies': [
      { column: 'n.text', index_type: 'FTS', language: 'Klingon' },
      ...([400, 13] as const),
      /language/,
    ],
    'a tokenizer that is a path': [
      { column: 'n.text', index_type: 'FTS', base_tokenizer: 'jieba/../../etc' },
      ...([400, 13] as const),
      /base_tokenizer/,
    ],
    'too many stop words': [
      { column: 'n.text', index_type: 'FTS', custom_stop_words: Array.from({ length: 10_001 }, () => 'a') },
      ...([400, 13] as const),
      /custom_stop_words/,
    ],
    'a name that is a path': [{ column: 'id', index_type: 'BTREE', name: '../x' }, 400, 13, /name/],
    "a name of the engine's own": [{ column: 'id', index_type: 'BTREE', name: '__lance' }, 400, 13, /name/],
  };
  for (const [what, [body, status, code, says]] of Object.entries(faults)) {
    test(`${what}: refused with ${status}, nothing is written (P12)`, async () => {
      refused(await build(body), status, code, says);
      assert.deepEqual(await stored(), []);
    });
  }

  test('a vector index of too few rows, or of none, says so; others are built', async () => {
    refused(await build(pq, 'empty'), 400, 13, /rows/);
    refused(await build({ ...pq, index_type: 'IVF_HNSW_SQ' }, 'empty'), 400, 13, /rows/);
    succeeded(await build({ column: 'id', index_type: 'BTREE' }, 'empty'));
    refused(await build(pq, 'declared'), 400, 19);
    refused(await build(pq, 'none'), 404, 4);
  });

  test('IVF_RQ on vectors whose dimension does not divide by 8 says so', async () => {
    const type = new FixedSizeList(3, new Field('item', new Float32(), true));
    const v = vectorFromArray(
      Array.from({ length: 40 }, (_, id) => [id, 0, 1]),
      type,
    );
    succeeded(
      await service.post('/v1/table/three/create', stream({ id: Array.from({ length: 40 }, (_, id) => id), v })),
    );
    const asked = await service.post('/v1/table/three/create_index', { column: 'v', index_type: 'IVF_RQ' });
    refused(asked, 400, 13, /divides by 8/);
  });

  test('who may build indexes may do that, and who may read may not', async () => {
    const body = { column: 'id', index_type: 'BTREE', name: 'theirs' };
    succeeded(await service.post('/v1/table/t/create_index', body, await as('builder')));
    refused(await service.post('/v1/table/t/create_index', body, await as('guest')), 403, 15, /CreateTableIndex/);
    const path = '/v1/table/t/index/theirs/drop';
    refused(await service.post(path, undefined, await as('builder')), 403, 15, /DropTableIndex/);
    succeeded(await drop('theirs'));
  });

  test('a principal sees the jobs of the tables that it may describe, the newest first (P9)', async () => {
    const { jobs } = succeeded(await service.post('/v1/jobs/list')) as { jobs: readonly Record<string, unknown>[] };
    const [last] = jobs;
    assert.deepEqual([last?.table, last?.job_state, last?.job_type], ['t', 'DONE', 'create_index']);
    const asked = { job_id: last?.job_id };
    const described = succeeded(await service.post('/v1/jobs/describe', asked, await as('guest')));
    assert.deepEqual(described.spec, {
      ...{ table: 't', branch: 'main', index_name: 'theirs', column: 'id', index_type: 'BTREE' },
    });
    refused(await service.post('/v1/jobs/describe', asked, await as('builder')), 404, 10);
    assert.deepEqual(succeeded(await service.post('/v1/jobs/list', {}, await as('builder'))).jobs, []);
    refused(await service.post('/v1/jobs/cancel', asked, await as('guest')), 404, 10);
    assert.equal(succeeded(await service.post('/v1/jobs/cancel', asked)).job_state, 'DONE');
    refused(await service.post('/v1/jobs/describe', { job_id: 'none' }), 404, 10);
  });

  test('a request that is sent again after a lost answer is not a second build', async () => {
    const headers = { 'x-request-id': 'the-same' };
    const body = { column: 'id', index_type: 'BTREE', replace: false };
    const first = succeeded(await service.post('/v1/table/t/create_index', body, headers));
    const again = succeeded(await service.post('/v1/table/t/create_index', body, headers));
    assert.deepEqual(again, first);
    const path = '/v1/table/t/index/id_idx/drop';
    const dropped = succeeded(await service.post(path, undefined, { 'x-request-id': 'another' }));
    assert.deepEqual(succeeded(await service.post(path, undefined, { 'x-request-id': 'another' })), dropped);
  });

  test('an index that the engine does not build on values of this type is refused by the name of the column', async () => {
    succeeded(
      await service.post('/v1/table/typed/create', stream({ id: [1], text: vectorFromArray(['a'], new LargeUtf8()) })),
    );
    const body = { column: 'text', index_type: 'BTREE' };
    refused(await service.post('/v1/table/typed/create_scalar_index', body), 400, 13, /text/);
    assert.deepEqual(succeeded(await service.post('/v1/table/typed/index/list')).indexes, []);
  });

  test('an index of a column whose name the engine quotes is replaced under its name', async () => {
    succeeded(await service.post('/v1/table/spaced/create', stream({ 'a name': [1, 2], other: [1, 2] })));
    for (const type of ['BTREE', 'BITMAP']) {
      const body = { column: '`a name`', index_type: type };
      succeeded(await service.post('/v1/table/spaced/create_index', body));
    }
    const { indexes } = succeeded(await service.post('/v1/table/spaced/index/list'));
    assert.equal((indexes as object[]).length, 1);
    const taken = { column: 'other', index_type: 'BTREE', name: 'a name_idx' };
    refused(await service.post('/v1/table/spaced/create_index', taken), 400, 13, /another column/);
  });

  test('an index is found on a branch of a branch that has it from main (P11)', async () => {
    const ask = async (path: string, body: object) => succeeded(await service.post(`/v1/table/${path}`, body));
    await branchBranchesWithIndexes(ask);
    for (const branch of ['b', 'c']) {
      assert.equal(await ask('branched/count_rows', { branch, predicate: "name = 'one'" }), 2);
    }
    assert.equal(await ask('branched/count_rows', { branch: 'a' }), 3);
  });
});
