/** The reader processes of the service as an operator runs it. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Field, FixedSizeList, Float32, Int32, Table, tableToIPC, vectorFromArray } from 'apache-arrow';
import {
  argumentsOf,
  enginePriorities,
  environmentOf,
  isRunning,
  outOfMemoryScore,
  readersOf,
} from '#test/fixtures/reader-processes.ts';
import { listeningUrl, mintToken, serveArguments, textOf } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';
import { stallReads } from '#test/http/stalled-reads.ts';
import { entriesUnder } from '#test/http/stored.ts';

const secret = 'hidden-0123456789';
const rows = tableToIPC(new Table({ id: vectorFromArray([1, 2, 3], new Int32()) }), 'stream');

/** A service with a table `t`, and secrets in its environment. */
async function start(t: TestContext) {
  const dataFolder = temporaryFolder((clean) => t.after(clean));
  const token = await mintToken(dataFolder);
  const [systemsTemporary, scratch] = [temporaryFolder((clean) => t.after(clean)), join(dataFolder, 'scratch')];
  mkdirSync(join(scratch, 'process-before'), { recursive: true });
  writeFileSync(join(scratch, 'process-before/left'), 'by a service that was killed');
  const env = {
    PATH: process.env.PATH,
    TMPDIR: systemsTemporary,
    AWS_SECRET_ACCESS_KEY: secret,
    LANCEGATE_STORAGE_OPTIONS: JSON.stringify({ aws_secret_access_key: secret }),
  };
  const service = spawn(process.execPath, serveArguments(dataFolder, 'warn'), {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => service.kill('SIGKILL'));
  const log = textOf(service.stderr);
  const url = await listeningUrl(service);
  const post = async (path: string, body: Uint8Array | object) => {
    const isStream = body instanceof Uint8Array;
    const type = isStream ? 'application/vnd.apache.arrow.stream' : 'application/json';
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': type },
      body: isStream ? new Uint8Array(body) : JSON.stringify(body),
    });
    return [response.status, await response.text()] as const;
  };
  assert.equal((await post('/v1/table/t/create', rows))[0], 200);
  const count = () => post('/v1/table/t/count_rows', { predicate: 'id > 1' });
  const isQueryRunning = async () => {
    const metrics = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    return (await metrics.text()).includes('\nlancegate_reader_queries_running 1\n');
  };
  const folders = { tablesFolder: join(dataFolder, 'tables'), systemsTemporary, scratch };
  return { service, log, post, count, isQueryRunning, ...folders };
}

const onlyReader = (service: ChildProcess): number => {
  const [reader, ...others] = readersOf(service.pid);
  assert.ok(reader !== undefined && others.length === 0);
  return reader;
};

test('a reader gets no secret that it does not need, dies without the service, and ends with it (P9, P12)', async (t) => {
  const { service, log, count } = await start(t);
  assert.deepEqual(await count(), [200, '2']);
  const reader = onlyReader(service);
  assert.ok(!environmentOf(reader).includes(secret));
  assert.ok(!argumentsOf(reader).includes(secret));
  assert.deepEqual(enginePriorities(reader), [5], 'writers go first (P10)');
  assert.equal(outOfMemoryScore(reader), 500, 'the kernel ends readers first');
  process.kill(reader, 'SIGSEGV');
  await eventually('another one was begun', () => readersOf(service.pid).some((pid) => pid !== reader));
  assert.deepEqual(await count(), [200, '2']);
  const second = onlyReader(service);
  service.kill('SIGTERM');
  assert.deepEqual(await once(service, 'exit'), [0, null]);
  assert.ok(!isRunning(second));
  assert.match(await log, /a reader died/);
});

test('no reader outlives a service that is killed, not even in the middle of a query (P12)', async (t) => {
  const { service, count, isQueryRunning, tablesFolder } = await start(t);
  assert.deepEqual(await count(), [200, '2']);
  const reader = onlyReader(service);
  const reads = stallReads({ tablesFolder }, 't', (clean) => t.after(clean));
  const asked = assert.rejects(count());
  await eventually('the query runs', isQueryRunning);
  service.kill('SIGKILL');
  await asked;
  await eventually('the reader has ended', () => !isRunning(reader));
  reads.release();
});

const vectorType = new FixedSizeList(16, new Field('item', new Float32(), true));
const vectors = Array.from({ length: 2_000 }, (_, row) =>
  Array.from({ length: 16 }, (_, at) => Math.sin(row * at + row)),
);

test('an index build leaves no vectors behind, whether its process is killed or its service is stopped (P9)', async (t) => {
  const { service, post, systemsTemporary, scratch } = await start(t);
  assert.ok(!entriesUnder(scratch).includes('process-before'), 'a start removes what an earlier one left');
  const table = tableToIPC(new Table({ vector: vectorFromArray(vectors, vectorType) }), 'stream');
  assert.equal((await post('/v1/table/v/create', table))[0], 200);
  /** The builder, and the folder of its temporary files. */
  const built = async () => {
    const index = { column: 'vector', index_type: 'IVF_PQ', num_partitions: 4, num_sub_vectors: 4 };
    assert.equal((await post('/v1/table/v/create_index', index))[0], 200);
    const builder = readersOf(service.pid).at(-1)!;
    const [, folder = ''] = /^TMPDIR=(.+)$/m.exec(environmentOf(builder)) ?? [];
    assert.ok(folder.startsWith(join(scratch, 'process-')), folder);
    assert.equal(statSync(folder).mode & 0o777, 0o700);
    writeFileSync(join(folder, 'more'), 'as in the middle of a build');
    assert.deepEqual(entriesUnder(systemsTemporary), []);
    return { builder, folder };
  };
  const killed = await built();
  process.kill(killed.builder, 'SIGKILL');
  await eventually('its folder is gone', () => !entriesUnder(scratch).includes(basename(killed.folder)));
  await built();
  service.kill('SIGTERM');
  assert.deepEqual(await once(service, 'exit'), [0, null]);
  assert.deepEqual(entriesUnder(scratch), []);
  assert.deepEqual(entriesUnder(systemsTemporary), []);
});
