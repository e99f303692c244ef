import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Field, Int32, Struct, tableFromIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people, storedRows, stream } from './rows.ts';
import { receivedBytes, untilReceived } from './stalled-reads.ts';
import { Upload } from './upload-client.ts';

/** Those of `people`. */
const columns = {
  fields: [
    { name: 'id', type: { type: 'int32' }, nullable: true },
    { name: 'name', type: { type: 'string' }, nullable: true },
  ],
};
const inner = new Struct([new Field('id', new Int32()), new Field('name', new Utf8())]);

describe('a table that is only declared', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });
  const declare = async (table: string, properties: Record<string, string> = {}) =>
    succeeded(await service.post(`/v1/table/${table}/declare`, { properties }));
  const query = async (table: string, accept: string, columns?: readonly string[]) => {
    const authorization = `Bearer ${await service.mint('lancegate:read')}`;
    const headers = { accept, authorization, 'content-type': 'application/json' };
    const body = JSON.stringify({ k: 10, filter: 'id > 0', columns });
    const answer = await fetch(`${service.url}/v1/table/${table}/query`, { method: 'POST', headers, body });
    assert.equal(answer.status, 200);
    return Buffer.from(await answer.arrayBuffer());
  };
  const isOnlyDeclared = async (table: string) =>
    succeeded(await service.post(`/v1/table/${table}/describe`)).is_only_declared;

  test('comes into being with the first merge, at the location and with the properties it was declared with', async () => {
    const { location } = await declare('first', { owner: 'ann' });
    assert.equal(existsSync(fileURLToPath(String(location))), false);
    assert.equal(await isOnlyDeclared('first'), true);
    const merged = succeeded(await service.post('/v1/table/first/merge_insert?on=id', people([1, 2], 'a')));
    assert.deepEqual(
      [merged.num_inserted_rows, merged.num_updated_rows, merged.num_deleted_rows, merged.version],
      [2, 0, 0, 1],
    );
    const described = succeeded(await service.post('/v1/table/first/describe'));
    assert.deepEqual(
      [described.location, described.properties, described.is_only_declared, described.version],
      [location, { owner: 'ann' }, false, 1],
    );
    assert.equal((await storedRows(service, 'first')).length, 2);
  });

  test('is created also by a merge that only updates, with all rows: there is nothing to match yet', async () => {
    await declare('update_only');
    const merged = await service.post(
      '/v1/table/update_only/merge_insert?on=id&when_matched_update_all',
      people([1, 2], 'a'),
    );
    assert.equal(succeeded(merged).num_inserted_rows, 2);
  });

  test('is not created by a source that holds a key twice, whose field is missing, or that names a branch (P2)', async () => {
    await declare('strict');
    const merge = (query: string, ids: readonly number[]) =>
      service.post(`/v1/table/strict/merge_insert?${query}`, people(ids, 'a'));
    refused(await merge('on=id', [1, 2, 1]), 400, 13, /a key twice: id = 1/);
    refused(await merge('on=none', [1]), 400, 12, /the source has no column none/);
    refused(await merge('on=id&branch=dev', [1]), 404, 22);
    assert.equal(await isOnlyDeclared('strict'), true);
    succeeded(await merge('on=id', [1, 2]));
  });

  test('is created by a merge on a nested field, and holds one row per key then and later (P2)', async () => {
    await declare('nested');
    const source = (ids: readonly number[], name: string) =>
      stream({
        person: vectorFromArray(
          ids.map((id) => ({ id, name })),
          inner,
        ),
      });
    const merge = (body: Buffer) => service.post('/v1/table/nested/merge_insert?on=person.id', body);
    refused(await merge(source([5, 5], 'twice')), 400, 13, /person\.id = 5/);
    assert.equal(succeeded(await merge(source([1, 2], 'a'))).num_inserted_rows, 2);
    const again = succeeded(await merge(source([2, 3], 'b')));
    assert.deepEqual([again.num_inserted_rows, again.num_updated_rows], [1, 1]);
    assert.deepEqual(await storedRows(service, 'nested'), [
      { person: { id: 1, name: 'a' } },
      { person: { id: 2, name: 'b' } },
      { person: { id: 3, name: 'b' } },
    ]);
  });

  test('takes two merges at once: one creates it, the other merges, every key has one row (P2, P4)', async () => {
    for (const round of [1, 2, 3]) {
      const table = `race_${round}`;
      await declare(table);
      const merges = await Promise.all(
        ['a', 'b', 'c'].map((name) => service.post(`/v1/table/${table}/merge_insert?on=id`, people([1, 2, 3], name))),
      );
      const answers = merges.map(succeeded);
      assert.deepEqual(answers.map((answer) => Number(answer.num_inserted_rows)).sort(), [0, 0, 3]);
      assert.deepEqual(answers.map((answer) => Number(answer.num_updated_rows)).sort(), [0, 3, 3]);
      const rows = await storedRows(service, table);
      assert.deepEqual(
        rows.map(({ id }) => id),
        [1, 2, 3],
      );
      assert.equal(new Set(rows.map(({ name }) => name)).size, 1, 'the last one wrote all of them');
    }
  });

  test('takes the schema of the merge that made it, and refuses the other if it does not fit', async () => {
    await declare('schemas');
    const [narrow, wide] = await Promise.all([
      service.post('/v1/table/schemas/merge_insert?on=id', stream({ id: [1], a: ['x'] })),
      service.post('/v1/table/schemas/merge_insert?on=id', stream({ id: [1], b: ['x'] })),
    ]);
    const [won, lost] = narrow.status === 200 ? [narrow, wide] : [wide, narrow];
    succeeded(won);
    refused(lost, 400, 20);
    assert.equal((await storedRows(service, 'schemas')).length, 1);
  });

  test('is merged into anew where it came into being with columns for which no memory was taken (P7)', async () => {
    const schema = schemaOf([
      field('id', { kind: 'int', bitWidth: 32, signed: true }),
      field('name', { kind: 'null' }),
    ]);
    const nullNames = encodeStream(schema, [{ id: [2n], name: [null] }]);
    const whole = stream({ id: [1, 2], name: ['a', 'b'] });
    const late = { partial: stream({ id: [2] }), null: nullNames };
    for (const [table, source] of Object.entries(late)) {
      await declare(table);
      const received = await receivedBytes(service);
      const path = `${service.url}/v1/table/${table}/merge_insert?on=id`;
      const upload = new Upload(path, { authorization: `Bearer ${await service.mint('lancegate:write')}` });
      await upload.write(source.subarray(0, -8));
      await untilReceived(service, received + source.length - 8);
      succeeded(await service.post(`/v1/table/${table}/create`, whole));
      await upload.write(source.subarray(-8));
      const { status, body } = await upload.end();
      assert.deepEqual([status, body.code], [503, 14], JSON.stringify(body));
      assert.match(String(body.error), /was created while the body arrived.*; nothing was written/);
      assert.equal(succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id`, source)).num_updated_rows, 1);
    }
  });

  test('is filled by a create in any mode, and is there before', async () => {
    for (const mode of ['create', 'exist_ok', 'overwrite']) {
      const { location } = await declare(`by_${mode}`);
      const created = succeeded(await service.post(`/v1/table/by_${mode}/create?mode=${mode}`, people([1], 'a')));
      assert.deepEqual([created.location, created.version], [location, 1]);
      assert.equal((await storedRows(service, `by_${mode}`)).length, 1);
    }
  });

  test('has no rows, which every form of an answer says, and no version or branch to read (P11)', async () => {
    await declare('nothing');
    await declare('columns', { 'lancegate.schema': JSON.stringify(columns) });
    for (const table of ['nothing', 'columns']) {
      const ask = (what: string, body: object) => service.post(`/v1/table/${table}/${what}`, body);
      for (const body of [{}, { predicate: 'id > 1' }]) assert.equal((await ask('count_rows', body)).body, 0);
      assert.deepEqual(succeeded(await ask('index/list', {})).indexes, []);
      for (const [what, body] of Object.entries({ count_rows: {}, query: { k: 1 }, 'index/list': {} })) {
        refused(await ask(what, { ...body, version: 1 }), 404, 11, /only declared and has no version/);
        refused(await ask(what, { ...body, branch: 'dev' }), 404, 22, /only declared and has no branch/);
      }
    }
    const texts = { 'application/json': 'id', 'application/x-ndjson': '', 'text/csv': 'id,name' };
    for (const [accept, found] of Object.entries(texts)) {
      assert.match((await query('columns', accept)).toString(), new RegExp(found));
    }
    assert.equal((await query('columns', 'text/csv', ['name'])).toString().trim(), 'name');
    assert.equal((await query('columns', 'text/csv', ['name', 'id'])).toString().trim(), 'name,id');
    for (const accept of ['application/vnd.apache.arrow.file', 'application/vnd.apache.arrow.stream'])
      for (const [table, names] of [
        ['nothing', []],
        ['columns', ['id', 'name']],
      ] as const) {
        const read = tableFromIPC(await query(table, accept));
        assert.deepEqual([read.schema.names, read.numRows], [names, 0]);
      }
  });

  test('with columns is shown to the SDKs with them, and is made of them by its first rows', async () => {
    await declare('columns_first', { 'lancegate.schema': JSON.stringify(columns) });
    const shown = succeeded(await service.post('/v1/table/columns_first/describe/'));
    assert.deepEqual([shown.version, shown.schema, shown.is_only_declared], [0, columns, true]);
    const others = succeeded(await service.post('/v1/table/columns_first/describe'));
    assert.deepEqual([others.version, others.schema], [undefined, undefined], 'other clients tell it apart by that');
    const merge = (body: Buffer, query = '') =>
      service.post(`/v1/table/columns_first/merge_insert?on=id${query}`, body);
    refused(await merge(stream({ id: [1] }), '&branch=dev'), 404, 22);
    assert.equal(await isOnlyDeclared('columns_first'), true);
    assert.equal(succeeded(await merge(stream({ id: [1] }))).num_inserted_rows, 1);
    assert.equal(succeeded(await merge(people([1, 2], 'a'))).num_updated_rows, 1);
    refused(await merge(stream({ id: [1], other: [1] })), 400, 20, /column other/);
    assert.deepEqual(await storedRows(service, 'columns_first'), [
      { id: 1, name: 'a' },
      { id: 2, name: 'a' },
    ]);
    await declare('columns_insert', { 'lancegate.schema': JSON.stringify(columns) });
    const inserts = await Promise.all(
      [1, 2, 3].map((id) => service.post('/v1/table/columns_insert/insert', stream({ id: [id] }))),
    );
    for (const inserted of inserts) succeeded(inserted);
    assert.equal((await storedRows(service, 'columns_insert')).length, 3);
  });

  test('is not declared with columns that it could not have', async () => {
    const type = (value: unknown) => ({ fields: [{ name: 'a', type: value }] });
    const wrong: readonly [unknown, number, RegExp][] = [
      ['['.repeat(1_000), 13, /lancegate\.schema is nested more than 64 deep/],
      ['{', 13, /lancegate\.schema: it is not JSON/],
      [[], 13, /lancegate\.schema: expected \{"fields"/],
      [{ fields: [{ type: { type: 'int64' } }] }, 13, /fields\[0\] lacks a name/],
      [type('int64'), 13, /fields\[0\] lacks a type/],
      [type({ type: 'int63' }), 13, /declared of type "int63"/],
      [type({ type: 'fixed_size_list', fields: [{ name: 'item', type: { type: 'float' } }] }), 13, /length/],
      [type({ type: 'timestamp:us:Mars/Phobos' }), 20, /time zone/],
      [type({ type: 'large_list', fields: [{ name: 'item', type: { type: 'int8' } }] }), 20, /as Arrow only/],
    ];
    for (const [schema, code, says] of wrong) {
      const properties = { 'lancegate.schema': typeof schema === 'string' ? schema : JSON.stringify(schema) };
      refused(await service.post('/v1/table/wrong/declare', { properties }), 400, code, says);
    }
    refused(await service.post('/v1/table/wrong/exists'), 404, 4);
  });

  test('has no property of the service that is not known, nor has one that is created or registered', async () => {
    const says = /properties: no "lancegate\.ttl_colum" is known; did you mean lancegate\.ttl_column\?/;
    const properties = { owner: 'ann', 'lancegate.ttl_colum': 'at', 'lancegate.ttl': '1h' };
    refused(await service.post('/v1/table/slip/declare', { properties }), 400, 13, says);
    const query = new URLSearchParams({ properties: JSON.stringify(properties) });
    refused(await service.post(`/v1/table/slip/create?${query}`, people([1], 'a')), 400, 13, says);
    refused(await service.post('/v1/table/slip/register', { location: 'none.lance', properties }), 400, 13, says);
    refused(await service.post('/v1/table/slip/exists'), 404, 4);
    const known = { 'lancegate.on_duplicate': 'last', 'lancegate.max_invalid': '3', lancegate: 'mine' };
    assert.deepEqual(succeeded(await service.post('/v1/table/known/declare', { properties: known })).properties, known);
  });

  test('can be distinguished from one that is there: it has no branches, and it is listed', async () => {
    await declare('shown');
    refused(await service.post('/v1/table/shown/branches/list'), 400, 19);
    refused(await service.post('/v1/table/shown/describe', { version: 1 }), 404, 11);
    refused(await service.post('/v1/table/shown/describe', { branch: 'dev' }), 404, 22);
    refused(await service.post('/v1/table/shown/declare'), 409, 5);
    succeeded(await service.post('/v1/table/shown/exists'));
    const listed = async (query: string) => succeeded(await service.get(`/v1/table?${query}`)).tables as string[];
    assert.ok((await listed('')).includes('shown'));
    assert.ok(!(await listed('include_declared=false')).includes('shown'));
  });

  test('is dropped as any other, and lets go of its name', async () => {
    await declare('dropped');
    succeeded(await service.post('/v1/table/dropped/drop'));
    refused(await service.post('/v1/table/dropped/merge_insert?on=id', people([1], 'a')), 404, 4);
    succeeded(await service.post('/v1/table/dropped/create', people([1], 'a')));
  });
});
