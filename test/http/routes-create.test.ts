import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Field, Int32, Schema, Table, tableToIPC, Utf8 } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeBatch, encodeMessage, encodeSchema, endOfStream, schemaOf } from '#test/fixtures/ipc-writer.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people, storedRows, stream } from './rows.ts';

describe('create: every parameter', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
    succeeded(await service.post('/v1/table/there/create', people([1], 'old')));
  });
  const create = (table: string, query = '', headers = {}) =>
    service.post(`/v1/table/${table}/create?${query}`, people([1, 2], 'new'), headers);
  const json = (value: unknown) => encodeURIComponent(JSON.stringify(value));

  test('the answer has these fields and no others, and its context is the headers the service set', async () => {
    const answer = await create('fields', `properties=${json({ owner: 'ann' })}`, { 'x-request-id': 'my-request' });
    const { transaction_id: transactionId, location, ...fixed } = succeeded(answer);
    assert.deepEqual(fixed, {
      version: 1,
      storage_options: {},
      properties: { owner: 'ann' },
      context: {
        'header.x-request-id': 'my-request',
        'header.cache-control': 'no-store',
        'header.x-content-type-options': 'nosniff',
        'header.phalanx-version': '0.3.0',
      },
    });
    assert.equal(answer.headers.get('x-request-id'), 'my-request');
    assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
    assert.ok(existsSync(fileURLToPath(String(location))));
    assert.equal((await storedRows(service, 'fields')).length, 2);
    const transaction = succeeded(await service.post(`/v1/transaction/${transactionId}/describe`));
    assert.equal((transaction.properties as Record<string, string>).operation, 'create_table');
  });

  test('an empty stream makes an empty table with its schema; no bytes at all are 400', async () => {
    assert.equal(succeeded(await service.post('/v1/table/empty/create', people([], ''))).version, 1);
    assert.equal((await service.post<unknown>('/v1/table/empty/count_rows')).body, 0);
    const schema = succeeded(await service.post('/v1/table/empty/describe')).schema as { fields: { name: string }[] };
    assert.deepEqual(
      schema.fields.map(({ name }) => name),
      ['id', 'name'],
    );
    refused(await service.post('/v1/table/no_bytes/create'), 400, 13, /empty/);
    refused(await service.post('/v1/table/no_bytes/exists'), 404, 4);
  });

  test('a table may begin without columns, and gets them afterwards; rows it cannot have', async () => {
    const none = stream({});
    succeeded(await service.post('/v1/table/bare/create', none));
    assert.deepEqual(succeeded(await service.post('/v1/table/bare/describe')).schema, { fields: [] });
    assert.equal((await service.post<unknown>('/v1/table/bare/count_rows')).body, 0);
    const query = { vector: [], k: 1 };
    for (const [path, body] of Object.entries({
      query,
      explain_plan: { query },
      stats: {},
      maintain: {},
      'index/list': {},
    })) {
      assert.equal((await service.post(`/v1/table/bare/${path}`, body)).status, 200, path);
    }
    refused(await service.post('/v1/table/bare/merge_insert?on=id', people([1], 'new')), 400, 12, /no column id/);
    const batch = encodeMessage({ kind: 'batch', ...encodeBatch(2, [], 'none') });
    const rows = Buffer.concat([encodeSchema(schemaOf([])), batch, endOfStream]);
    for (const path of ['bare/insert', 'there/insert', 'other/create']) {
      refused(
        await service.post(`/v1/table/${path}`, rows),
        400,
        13,
        /^message 2 \(record batch\): 2 rows without columns$/,
      );
    }
    const schema = new Schema([new Field('id', new Int32(), true), new Field('name', new Utf8(), true)]);
    const columns = Buffer.from(tableToIPC(new Table(schema), 'stream'));
    const arrow = { 'content-type': 'application/vnd.apache.arrow.stream' };
    succeeded(await service.post('/v1/table/bare/add_columns', columns, arrow));
    succeeded(await service.post('/v1/table/bare/merge_insert?on=id', people([1, 2], 'new')));
    succeeded(await service.post('/v1/table/bare/insert', people([3], 'new')));
    assert.equal((await storedRows(service, 'bare')).length, 3);
    succeeded(await service.post('/v1/table/emptied/create', people([1], 'old')));
    assert.equal(succeeded(await service.post('/v1/table/emptied/create?mode=overwrite', none)).version, 1);
    succeeded(await service.post('/v1/table/emptied/create?mode=overwrite', people([1], 'new')));
  });

  const spellings = {
    create: ['create', 'Create', 'CREATE', '%22Create%22'],
    exist_ok: ['exist_ok', 'ExistOk', 'existok', 'EXIST_OK', 'exist-ok', '%22ExistOk%22', 'existOk'],
    overwrite: ['overwrite', 'Overwrite', 'OVERWRITE', '%22Overwrite%22'],
  };
  for (const spelling of spellings.create) {
    test(`mode=${spelling} is create, as is no mode`, async () => {
      refused(await create('there', `mode=${spelling}`), 409, 5);
      refused(await create('there'), 409, 5);
      succeeded(await create(`by_${encodeURIComponent(spelling).replaceAll('%', '')}`, `mode=${spelling}`));
    });
  }
  for (const spelling of spellings.exist_ok) {
    test(`mode=${spelling} is exist_ok`, async () => {
      succeeded(await create('there', `mode=${spelling}`));
      assert.deepEqual(
        (await storedRows(service, 'there')).map(({ name }) => name),
        ['old'],
      );
    });
  }
  for (const spelling of spellings.overwrite) {
    test(`mode=${spelling} is overwrite`, async () => {
      const table = `over_${encodeURIComponent(spelling).replaceAll('%', '')}`;
      succeeded(await service.post(`/v1/table/${table}/create`, people([1], 'old')));
      succeeded(await create(table, `mode=${spelling}`));
      assert.equal((await service.post<unknown>(`/v1/table/${table}/count_rows`)).body, 2);
    });
  }
  for (const spelling of ['', 'append', 'over write', 'createcreate']) {
    test(`mode="${spelling}" is refused, and the modes are named`, async () => {
      refused(
        await create('new', `mode=${encodeURIComponent(spelling)}`),
        400,
        13,
        /^mode: .*create, exist_ok, overwrite/,
      );
    });
  }

  test('properties are kept with the table and given back, whatever their text', async () => {
    const properties = { owner: 'ann', 'with space': 'ü "quoted"\n', created_at: '2024-01-01', '': '' };
    assert.deepEqual(succeeded(await create('described', `properties=${json(properties)}`)).properties, properties);
    await service.restart();
    assert.deepEqual(succeeded(await service.post('/v1/table/described/describe')).properties, properties);
    assert.deepEqual(succeeded(await create('plain', 'properties=%7B%7D')).properties, {});
  });

  for (const name of ['properties', 'storage_options']) {
    for (const wrong of ['', '{', '[]', '"text"', 'null', '{"a":1}', '{"a":null}', '{"a":{"b":"c"}}']) {
      test(`${name}=${wrong || '(empty)'} is refused by its name`, async () => {
        refused(await create('new', `${name}=${encodeURIComponent(wrong)}`), 400, 13, RegExp(`^${name}: `));
        refused(await service.post('/v1/table/new/exists'), 404, 4);
      });
    }
  }

  test('storage options that tune the write are taken and given back', async () => {
    const options = { new_table_data_storage_version: '2.1', CLIENT_MAX_RETRIES: '3' };
    assert.deepEqual(succeeded(await create('tuned', `storage_options=${json(options)}`)).storage_options, options);
    assert.equal((await storedRows(service, 'tuned')).length, 2);
  });

  const secret = 'do-not-repeat-me';
  const reaching = [
    'aws_endpoint',
    'AWS_SECRET_ACCESS_KEY',
    'proxy_url',
    'allow_http',
    'google_service_account',
    'region',
  ];
  for (const key of reaching) {
    test(`the storage option ${key} is refused by its name, and its value is not repeated (P9)`, async () => {
      const answer = await create('new', `storage_options=${json({ [key]: secret })}`);
      refused(answer, 400, 13, RegExp(`^storage_options: "${key}"`));
      assert.ok(!JSON.stringify([answer.body, service.log]).includes(secret));
    });
  }

  test('what create does not know is refused, and a branch: the rows would end up elsewhere', async () => {
    for (const query of ['shoe=1', 'location=%2Ftmp%2Felsewhere', '%ZZ=1', '=', 'mood=exist_ok']) {
      refused(await create('new', query), 400, 13, /is not known; did you mean \w+\?$/);
    }
    refused(await create('new', 'branch=dev'), 400, 13, /^branch: /);
    succeeded(await create('on_main', 'branch=main'));
  });

  test('a schema that cannot be stored is refused with code 20, and its column is named', async () => {
    refused(await service.post('/v1/table/new/create', stream({ 'a.b': [1] })), 400, 20, /`a\.b`/);
    refused(await service.post('/v1/table/new/exists'), 404, 4);
  });
});
