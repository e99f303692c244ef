/** Builds of indexes that take their time: what ends one, and what maintenance does with the index. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import {
  Field,
  FixedSizeList,
  Float32,
  Int32,
  makeData,
  Schema,
  Struct,
  Table,
  tableToIPC,
  vectorFromArray,
} from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { Answer, TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';

const dimension = 32;
const vectorType = new FixedSizeList(dimension, new Field('item', new Float32(), true));

function vectors(count: number, from = 0): Uint8Array {
  const values = Float32Array.from({ length: count * dimension }, (_, at) => Math.sin(from + at * at));
  const item = makeData({ type: new Float32(), length: values.length, data: values });
  const id = vectorFromArray(
    Array.from({ length: count }, (_, at) => from + at),
    new Int32(),
  );
  const fields = [new Field('id', new Int32(), true), new Field('vector', vectorType, true)];
  const children = [id.data[0]!, makeData({ type: vectorType, length: count, child: item })];
  const batch = makeData({ type: new Struct(fields), length: count, children: children as never });
  return tableToIPC(new Table(new Schema(fields), batch as never), 'stream');
}

/** The processes of this one that run queries or build indexes. */
const childProcesses = (): readonly number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const parent = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1];
        return Number(parent) === process.pid && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('reader.ts');
      } catch {
        return false;
      }
    });

describe('a build that takes long', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { AUTO_MAINTENANCE: 'false' });
    for (const table of ['killed', 'cancelled', 'dropped', 'kept'])
      succeeded(await service.post(`/v1/table/${table}/create`, vectors(20_000)));
  });
  const slow = { column: 'vector', index_type: 'IVF_HNSW_SQ', num_partitions: 1, m: 64, ef_construction: 2_000 };
  const stored = async (name: string) => (await (await connect(service.tablesFolder)).openTable(name)).listIndices();

  /** Begins a build, and hands on the id of its job. */
  async function begun(table: string): Promise<{ readonly id: string; readonly answer: Promise<Answer> }> {
    const answer = service.post(`/v1/table/${table}/create_index`, slow);
    let id: string | undefined;
    await eventually('the job runs', async () => {
      const { jobs } = succeeded(await service.post('/v1/jobs/list')) as { jobs: readonly Record<string, string>[] };
      id = jobs.find((job) => job.table === table && job.job_state === 'IN_PROGRESS')?.job_id;
      return id !== undefined && childProcesses().length > 0;
    });
    return { id: id!, answer };
  }
  const gauge = async (name: string): Promise<number> => {
    const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
    const shown = await (await fetch(`${service.url}/metrics`, { headers })).text();
    return Number(
      shown
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.slice(name.length) ?? 0,
    );
  };
  const described = async (id: string) => succeeded(await service.post('/v1/jobs/describe', { job_id: id }));

  test('is lost with its process, and nothing else is: the next one is built (P12)', async () => {
    const { id, answer } = await begun('killed');
    for (const pid of childProcesses()) process.kill(pid, 'SIGKILL');
    refused(await answer, 503, 17, /process that built the index died/);
    const job = await described(id);
    assert.equal(job.job_state, 'FAILED');
    assert.deepEqual((job.failure as Record<string, unknown>).retryable, true);
    assert.deepEqual(await stored('killed'), []);
    succeeded(await service.post('/v1/table/killed/create_index', { column: 'id', index_type: 'BTREE' }));
  });

  test('is cancelled, and nothing is written; the log does not say that it took too long', async () => {
    // Its process is there before it, so that a build that runs is one that the process works on.
    succeeded(await service.post('/v1/table/cancelled/create_index', { column: 'id', index_type: 'BTREE' }));
    const { id, answer } = await begun('cancelled');
    await eventually('a process works on it', async () => (await gauge('lancegate_index_builds_running')) === 1);
    const seen = service.log.length;
    const cancelled = succeeded(await service.post('/v1/jobs/cancel', { job_id: id }));
    assert.equal(cancelled.job_state, 'CANCELLED');
    refused(await answer, 400, 14, /cancelled/);
    assert.deepEqual(
      (await stored('cancelled')).map(({ columns }) => columns),
      [['id']],
    );
    assert.equal(await gauge('lancegate_index_builder_ends_total{reason="cancelled"}'), 1);
    const lines = service.log.slice(seen).map((line) => JSON.parse(line));
    assert.deepEqual(
      lines.filter(({ level }) => level === 'warn'),
      [],
    );
    assert.deepEqual(
      lines.filter(({ message }) => message.startsWith('an index was not built')).map(({ state }) => state),
      ['CANCELLED'],
    );
  });

  test('is not committed to a table that was dropped meanwhile, and the drop does not wait for it', async () => {
    const { id, answer } = await begun('dropped');
    succeeded(await service.post('/v1/table/dropped/drop'));
    assert.ok(['IN_PROGRESS', 'FAILED'].includes((await described(id)).job_state as string));
    await service.post('/v1/jobs/cancel', { job_id: id });
    assert.notEqual((await answer).status, 200);
    refused(await service.post('/v1/table/dropped/describe'), 404, 4);
  });

  test('an index is built again with its options when the table is maintained (P8)', async () => {
    const options = { column: 'vector', index_type: 'IVF_PQ', num_partitions: 3, num_sub_vectors: 4, num_bits: 4 };
    succeeded(await service.post('/v1/table/kept/create_index', { ...options, distance_type: 'dot', name: 'mine' }));
    const [first] = await stored('kept');
    succeeded(await service.post('/v1/table/kept/merge_insert?on=id', vectors(500, 30_000)));
    assert.equal((await stored('kept'))[0]?.numUnindexedRows, 500);
    succeeded(await service.post('/v1/table/kept/maintain'));
    const [second] = await stored('kept');
    assert.deepEqual([second?.numIndexedRows, second?.numUnindexedRows], [20_500, 0]);
    assert.deepEqual([second?.name, second?.indexDetails], ['mine', first?.indexDetails]);
    assert.notEqual(second?.indexUuid, first?.indexUuid);
  });

  test('an index that few rows cannot be trained with is left out, with all else maintained (P8)', async () => {
    const post = (route: string, body: object | Uint8Array = {}) => service.post(`/v1/table/few/${route}`, body);
    const builtFor = async () =>
      (await stored('few')).map(({ name, numIndexedRows }) => [name, numIndexedRows]).toSorted();
    succeeded(await post('create', vectors(300)));
    const trained = { column: 'vector', index_type: 'IVF_PQ', num_partitions: 1, num_sub_vectors: 4 };
    succeeded(await post('create_index', { ...trained, name: 'trained' }));
    succeeded(await post('create_index', { column: 'id', index_type: 'BITMAP', name: 'untrained' }));
    succeeded(await post('delete', { predicate: 'id >= 100' }));
    succeeded(await post('merge_insert?on=id&when_not_matched_insert_all=true', vectors(50, 1_000)));
    const { jobs } = succeeded(await post('maintain')) as { jobs: readonly Record<string, unknown>[] };
    const skipped = jobs.filter((each) => each.skipped !== undefined);
    assert.deepEqual(
      skipped.map(({ job, column }) => [job, column]),
      [['index', 'vector']],
    );
    assert.match(String(skipped[0]?.skipped), /at least 256 rows/);
    assert.deepEqual((await builtFor()).at(-1), ['untrained', 150]);
    assert.equal(succeeded(await post('count_rows')), 150);
    succeeded(await post('merge_insert?on=id&when_not_matched_insert_all=true', vectors(300, 2_000)));
    const { jobs: later } = succeeded(await post('maintain')) as { jobs: readonly Record<string, unknown>[] };
    assert.ok(later.every((each) => each.skipped === undefined));
    assert.deepEqual(await builtFor(), [
      ['trained', 450],
      ['untrained', 450],
    ]);
  });
});
