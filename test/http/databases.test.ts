/** The database that a request names in `x-lancedb-database`, as every client of `db://NAME` does. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { before, describe, test } from 'node:test';
import { tableFromArrays, tableToIPC } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const rows = (...id: number[]) => tableToIPC(tableFromArrays({ id }), 'stream');
const inDatabase = (name: string) => ({ 'x-lancedb-database': name });

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"guest", action, resource in Namespace::"a");
`;

describe('a database', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    const file = join(temporaryFolder(later), 'policies.cedar');
    writeFileSync(file, policies);
    service = await startTestService(later, { POLICY_FILE: file });
    for (const name of ['a', 'b']) await succeed(`/v1/namespace/${name}/create`, {});
    await succeed('/v1/table/t/create', rows(1, 2, 3));
    await succeed('/v1/table/t/create', rows(1), inDatabase('a'));
    await succeed('/v1/table/t/create', rows(1, 2), inDatabase('b'));
  });

  const succeed = async (path: string, body: Uint8Array | object, headers = {}) => {
    const answer = await service.post(path, body, headers);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer;
  };
  const count = async (headers = {}) => (await service.post<number>('/v1/table/t/count_rows', {}, headers)).body;
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:admin', subject)}` });

  test('has tables of its own, whose names are below it and shown without it', async () => {
    assert.deepEqual([await count(inDatabase('a')), await count(inDatabase('b')), await count()], [1, 2, 3]);
    assert.equal((await service.post<number>('/v1/table/a$t/count_rows', {})).body, 1);
    const { body } = await service.post('/v1/table/t/describe', { id: ['t'] }, inDatabase('a'));
    assert.deepEqual([body.table, body.namespace], ['t', []]);
    assert.match(String(body.location), /\/a\/t\.lance$/);
    await succeed('/v1/namespace/n/create', {}, inDatabase('a'));
    await succeed('/v1/table/n$u/create', rows(1), inDatabase('a'));
    const list = async (path: string, headers = {}) => (await service.get(path, headers)).body;
    assert.deepEqual(await list('/v1/table/', inDatabase('a')), { tables: ['t'] });
    assert.deepEqual(await list('/v1/table', inDatabase('a')), { tables: ['n$u', 't'] });
    assert.deepEqual(await list('/v1/table'), { tables: ['a$n$u', 'a$t', 'b$t', 't'] });
    assert.deepEqual(await list('/v1/namespace/$/list', inDatabase('a')), { namespaces: ['n'] });
    assert.deepEqual(await list('/v1/namespace/$/list'), { namespaces: ['a', 'b'] });
    assert.deepEqual(await list('/v1/namespace/n/table/list', inDatabase('a')), { tables: ['u'] });
    const renamed = { new_table_name: 'v', new_namespace: [] };
    await succeed('/v1/table/n$u/rename', renamed, inDatabase('a'));
    assert.deepEqual((await succeed('/v1/table/v/drop', {}, inDatabase('a'))).body.id, ['v']);
    await succeed('/v1/namespace/n/drop', {}, inDatabase('a'));
    const root = await service.post('/v1/namespace/$/drop', { behavior: 'cascade' }, inDatabase('a'));
    assert.deepEqual([root.status, root.body.error], [400, 'The root namespace cannot be dropped.']);
    const full = await service.post('/v1/namespace/a/drop', {});
    assert.deepEqual([full.status, full.body.title], [409, 'The namespace has been concurrently modified']);
  });

  test('is asked about by its full names: by the policy, the audit, jobs, transactions and keys (P6, P9)', async () => {
    const guest = await as('guest');
    assert.equal(await count({ ...guest, ...inDatabase('a') }), 1);
    for (const headers of [guest, { ...guest, ...inDatabase('b') }, { ...guest, ...inDatabase('none') }]) {
      const { status, body } = await service.post('/v1/table/t/count_rows', {}, headers);
      assert.deepEqual([status, body.error], [403, "CountTableRows on table 't' is not allowed"]);
    }
    const records = service.log.map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.ok(records.some(({ table, subject }) => table === 'b$t' && subject === 'guest'));
    const keyed = { 'idempotency-key': 'one' };
    const made = await succeed('/v1/table/t/insert', rows(9), { ...keyed, ...inDatabase('a') });
    const other = await service.post('/v1/table/t/insert', rows(9), { ...keyed, ...inDatabase('b') });
    assert.deepEqual([other.status, await count(inDatabase('a')), await count(inDatabase('b'))], [400, 2, 2]);
    const transaction = `/v1/transaction/${String(made.body.transaction_id)}/describe`;
    const shown = await service.post<{ properties: { table: string } }>(transaction, {}, inDatabase('a'));
    assert.equal(shown.body.properties.table, 't');
    assert.equal((await service.post(transaction, {}, inDatabase('b'))).status, 404);
    await succeed('/v1/table/t/create_scalar_index', { column: 'id', index_type: 'BTREE' }, inDatabase('b'));
    const listed = async (name: string) =>
      (await service.post<{ jobs: { job_id: string; table: string }[] }>('/v1/jobs/list', {}, inDatabase(name))).body
        .jobs;
    const jobs = await listed('b');
    assert.deepEqual([jobs.map(({ table }) => table), await listed('a')], [['t'], []]);
    const described = (name: string) =>
      service.post('/v1/jobs/describe', { job_id: jobs[0]?.job_id }, inDatabase(name));
    assert.deepEqual([(await described('b')).status, (await described('a')).status], [200, 404]);
  });

  test('that is dropped is 404, and never the root; a name that was none is the root (P9)', async () => {
    await succeed('/v1/namespace/gone/create', {});
    await succeed('/v1/namespace/gone/drop', {});
    const gone = inDatabase('gone');
    for (const path of [
      '/v1/table/t/count_rows',
      '/v1/table/t/describe',
      '/v1/table/t/drop',
      '/v1/namespace/n/create',
    ]) {
      assert.equal((await service.post(path, {}, gone)).status, 404, path);
    }
    assert.equal((await service.post('/v1/table/t/create?mode=overwrite', rows(1), gone)).status, 404);
    for (const path of ['/v1/table/', '/v1/table']) assert.equal((await service.get(path, gone)).status, 404, path);
    for (const name of ['none', '', '..', 'x'.repeat(300)]) assert.equal(await count(inDatabase(name)), 3, name);
    await succeed('/v1/namespace/gone/create', {});
    assert.deepEqual((await service.get('/v1/table/', gone)).body, { tables: [] });
    await succeed('/v1/namespace/gone/drop', {});
    await service.restart();
    assert.equal((await service.get('/v1/table/', gone)).status, 404);
  });

  test('is one, and a prefix is refused by its name', async () => {
    const prefixed = await service.get('/v1/table/', { ...inDatabase('a'), 'x-lancedb-database-prefix': 'p' });
    assert.deepEqual([prefixed.status, /x-lancedb-database-prefix/.test(JSON.stringify(prefixed.body))], [406, true]);
    const deep = `/v1/table/${Array(32).fill('n').join('$')}/exists`;
    assert.equal((await service.post(deep, {}, inDatabase('a'))).status, 400);
  });

  test('of an upgrade is named in the log, once', async () => {
    const named = () => service.log.filter((line) => line.includes('these namespaces are databases from now on'));
    assert.equal(named().length, 0);
    await service.restart(async () => {
      using catalog = new DatabaseSync(join(service.dataFolder, 'catalog.sqlite'));
      catalog.exec('delete from databases');
    });
    assert.deepEqual(
      named().map((line) => (JSON.parse(line) as { namespaces: string[] }).namespaces),
      [['a', 'b']],
    );
    await service.restart();
    assert.equal(named().length, 1);
  });
});

describe('the setting of databases', () => {
  const later = afterSuite();
  const started = async (mode: string) => {
    const service = await startTestService(later, { DATABASES: mode });
    assert.equal((await service.post('/v1/namespace/a/create', {})).status, 200);
    return service;
  };

  test('with off, the header does nothing', async () => {
    const service = await started('off');
    assert.equal((await service.post('/v1/table/t/create', rows(1), inDatabase('a'))).status, 200);
    const headers = { ...inDatabase('a'), 'x-lancedb-database-prefix': 'p' };
    assert.deepEqual((await service.get('/v1/table/', headers)).body, { tables: ['t'] });
  });

  test('with required, no request means the root by mistake', async () => {
    const service = await started('required');
    assert.equal((await service.post('/v1/table/t/create', rows(1), inDatabase('a'))).status, 200);
    for (const headers of [{}, inDatabase('')]) {
      const { status, body } = await service.post('/v1/table/t/create', rows(1), headers);
      assert.deepEqual([status, /^x-lancedb-database: this service needs it/.test(String(body.error))], [400, true]);
      assert.equal((await service.get('/v1/table/', headers)).status, 400);
      assert.deepEqual((await service.get('/v1/namespace/$/list', headers)).body, { namespaces: ['a'] });
      assert.deepEqual((await service.get('/v1/table', headers)).body, { tables: ['a$t'] });
    }
    assert.equal((await service.post('/v1/table/t/create', rows(1), inDatabase('none'))).status, 404);
    assert.equal((await service.post<number>('/v1/table/a$t/count_rows', {})).body, 1);
  });
});
