/**
 * The other family of clients: the generated lance-namespace clients (Python, Java, Rust) and the REST client inside
 * Lance. Their requests are reproduced byte for byte where it matters: no trailing slash, no or an empty
 * `Content-Type`, `delimiter=%24` on everything, `id` repeated in JSON bodies.
 */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { before, describe, test } from 'node:test';
import { tableToIPC } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { openDirectly, type Row, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

const [ann, bob] = [person(1, 'ann', 1), person(2, 'bob', 2)];
const stream = (...rows: readonly Row[]): Uint8Array => tableToIPC(peopleTable(rows), 'stream');
const delimiter = 'delimiter=%24';

interface RawAnswer {
  readonly status: number;
  readonly type: string | undefined;
  readonly json: Record<string, unknown>;
}

describe('requests of the lance-namespace clients', () => {
  const later = afterSuite();
  let service: TestService;
  let token: string;
  before(async () => {
    service = await startTestService(later);
    token = await service.mint('lancegate:admin');
  });

  /** Sends exactly these headers; `fetch` would add a `Content-Type` to a text. */
  const send = (
    method: string,
    path: string,
    { body, type, auth = `Bearer ${token}` }: { body?: Uint8Array | string; type?: string; auth?: string } = {},
  ): Promise<RawAnswer> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: auth, ...(type === undefined ? {} : { 'content-type': type }) };
      const sent = request(service.url + path, { method, headers, agent: false }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          resolve({
            status: response.statusCode ?? 0,
            type: response.headers['content-type'],
            json: (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>,
          });
        });
      });
      sent.on('error', reject);
      sent.end(body);
    });
  const post = (path: string, body?: Uint8Array | string, type?: string) =>
    send('POST', path, { ...(body === undefined ? {} : { body }), ...(type === undefined ? {} : { type }) });
  const postJson = (path: string, body: unknown) => post(path, JSON.stringify(body), 'application/json');

  test('create and merge_insert without any Content-Type, as Lance’s own REST client sends them', async () => {
    const created = await post(`/v1/table/untyped/create?${delimiter}&mode=Create`, stream(ann));
    assert.equal(created.status, 200, JSON.stringify(created.json));
    assert.match(created.type ?? '', /^application\/json/);
    assert.equal(created.json.version, 1);
    const merged = await post(`/v1/table/untyped/merge_insert?${delimiter}&on=id`, stream(ann, bob));
    assert.equal(merged.status, 200, JSON.stringify(merged.json));
    const { num_inserted_rows: inserted, num_updated_rows: updated, num_deleted_rows: deleted } = merged.json;
    assert.deepEqual([inserted, updated, deleted], [1, 1, 0]);
    assert.deepEqual(await rowsInOrder(await openDirectly(service, 'untyped'), 'id'), [ann, bob]);
  });

  test('every number of an answer is a whole number, none is null or a text', async () => {
    await post('/v1/table/numbers/create', stream(ann));
    const { json } = await post('/v1/table/numbers/merge_insert?on=id', stream(bob));
    for (const name of [
      'version',
      'num_inserted_rows',
      'num_updated_rows',
      'num_deleted_rows',
      'num_attempts',
      'num_rows',
    ])
      assert.ok(Number.isSafeInteger(json[name]), `${name}: ${json[name]}`);
    assert.equal(typeof json.transaction_id, 'string');
  });

  test('the generated clients’ Content-Type, octet-stream and parameters are as good as none', async () => {
    const types = [
      'application/vnd.apache.arrow.stream',
      'application/octet-stream',
      'application/vnd.apache.arrow.stream; v=1',
    ];
    for (const [i, type] of types.entries()) {
      const { status, json } = await post(`/v1/table/typed_${i}/create`, stream(ann), type);
      assert.equal(status, 200, `${type}: ${JSON.stringify(json)}`);
    }
  });

  test('a body of another type is refused in JSON', async () => {
    const says = {
      'text/html': /content-type/i,
      'multipart/form-data; boundary=x': /content-type/i,
      'application/json': /array of objects/,
      'text/csv': /first line/,
    };
    for (const [type, pattern] of Object.entries(says)) {
      const { status, json } = await post('/v1/table/mistyped/create', stream(ann), type);
      assert.deepEqual([status, json.code], [400, 13], type);
      assert.match(String(json.error), pattern);
    }
  });

  test('an identifier is found however its delimiter is written, and with a delimiter of one’s own', async () => {
    await postJson('/v1/namespace/ns/create', {});
    await post(`/v1/table/ns%24people/create?${delimiter}`, stream(ann));
    const same = [
      'ns%24people',
      'ns$people',
      `ns%24people?${delimiter}`,
      'ns.people?delimiter=.',
      'ns%2Fpeople?delimiter=%2F',
    ];
    for (const path of same) {
      const [id, query = ''] = path.split('?');
      const { status, json } = await post(`/v1/table/${id}/describe?${query}`);
      assert.equal(status, 200, `${path}: ${JSON.stringify(json)}`);
      assert.equal(json.version, 1);
    }
  });

  test('a space is a plus for Lance’s own client, and %20 for the generated ones', async () => {
    await postJson(`/v1/namespace/my+ns/create?${delimiter}`, {});
    const created = await post(`/v1/table/my+ns%24a+table/create?${delimiter}`, stream(ann));
    assert.equal(created.status, 200, JSON.stringify(created.json));
    assert.equal((await post('/v1/table/my%20ns%24a%20table/describe')).status, 200);
  });

  test('a JSON body repeats the id; one that says something else is refused', async () => {
    await post('/v1/table/repeated/create', stream(ann));
    assert.equal((await postJson('/v1/table/repeated/describe', { id: ['repeated'] })).status, 200);
    const { status, json } = await postJson('/v1/table/repeated/describe', { id: ['other'] });
    assert.deepEqual([status, json.code], [400, 13]);
    assert.match(String(json.error), /id/);
  });

  test('a body that is not there is as good as an empty one, also under application/json', async () => {
    await post('/v1/table/bodyless/create', stream(ann));
    assert.equal((await post('/v1/table/bodyless/describe', undefined, 'application/json')).status, 200);
    assert.equal((await post('/v1/table/bodyless/describe', 'null', 'application/json')).status, 200);
    assert.equal((await postJson('/v1/table/bodyless/exists', {})).status, 200);
    assert.equal((await post('/v1/table/bodyless/exists')).status, 200);
    assert.equal((await post('/v1/table/bodyless/drop')).status, 200);
  });

  test('the query of a describe wins over its body', async () => {
    const declared = await postJson('/v1/table/declared/declare', { id: ['declared'] });
    assert.equal(declared.status, 200, JSON.stringify(declared.json));
    assert.equal(typeof declared.json.location, 'string');
    const body = { with_table_uri: false, check_declared: false };
    const { status, json } = await postJson('/v1/table/declared/describe?check_declared=true', body);
    assert.equal(status, 200);
    assert.equal(json.is_only_declared, true);
    assert.ok(!('version' in json && 'schema' in json), 'Lance takes both for a table that is already created');
  });

  test('a merge into a declared table makes it', async () => {
    await postJson('/v1/table/to_make/declare', {});
    const { status, json } = await post('/v1/table/to_make/merge_insert?on=id', stream(ann, bob));
    assert.equal(status, 200, JSON.stringify(json));
    assert.deepEqual([json.num_inserted_rows, json.num_updated_rows, json.version], [2, 0, 1]);
    assert.equal((await post('/v1/table/to_make/describe')).json.is_only_declared, false);
  });

  test('rows are counted with GET and with POST, as a bare number', async () => {
    await post('/v1/table/counted/create', stream(ann, bob));
    assert.equal((await send('GET', `/v1/table/counted/count_rows?${delimiter}`)).json, 2);
    assert.equal((await post('/v1/table/counted/count_rows')).json, 2);
    assert.equal((await postJson('/v1/table/counted/count_rows', { predicate: 'id = 1', version: null })).json, 1);
  });

  test('GET /v1/table lists every table by its whole identifier, a namespace’s list by names', async () => {
    await postJson('/v1/namespace/shelf/create', {});
    await post('/v1/table/shelf$book/create', stream(ann));
    const all = (await send('GET', '/v1/table?limit=1000')).json.tables as string[];
    assert.ok(all.includes('shelf$book'));
    const dotted = (await send('GET', '/v1/table?limit=1000&delimiter=.')).json.tables as string[];
    assert.ok(dotted.includes('shelf.book'));
    assert.deepEqual((await send('GET', '/v1/namespace/shelf/table/list')).json.tables, ['book']);
    const root = (await send('GET', `/v1/namespace/%24/list?${delimiter}`)).json.namespaces as string[];
    assert.ok(root.includes('shelf'));
  });

  test('branches are made, listed and deleted', async () => {
    await post('/v1/table/branched/create', stream(ann));
    assert.equal((await postJson('/v1/table/branched/branches/create', { name: 'draft' })).status, 200);
    const merged = await post('/v1/table/branched/merge_insert?on=id&branch=draft', stream(bob));
    assert.equal(merged.status, 200, JSON.stringify(merged.json));
    const { branches } = (await postJson('/v1/table/branched/branches/list', {})).json;
    const { draft } = branches as Record<string, Record<string, unknown>>;
    for (const name of ['parentVersion', 'createAt', 'manifestSize'])
      assert.ok(Number.isSafeInteger(draft?.[name]), name);
    assert.equal((await post('/v1/table/branched/count_rows')).json, 1);
    assert.equal((await postJson('/v1/table/branched/count_rows', { branch: 'draft' })).json, 2);
    assert.equal((await postJson('/v1/table/branched/branches/delete', { name: 'draft' })).status, 200);
  });

  test('namespaces answer JSON, never 204, and say by code what is wrong', async () => {
    assert.equal((await postJson('/v1/namespace/n1/create', { properties: { owner: 'ann' } })).status, 200);
    assert.deepEqual((await postJson('/v1/namespace/n1/describe', {})).json.properties, { owner: 'ann' });
    assert.equal((await postJson('/v1/namespace/n1/exists', {})).status, 200);
    assert.equal((await postJson('/v1/namespace/n1/create', {})).json.code, 2);
    await post('/v1/table/n1$t/create', stream(ann));
    assert.equal((await postJson('/v1/namespace/n1/drop', {})).json.code, 3);
    const dropped = await postJson('/v1/namespace/n1/drop', { mode: 'Fail', behavior: 'Cascade' });
    assert.equal(dropped.status, 200);
    assert.match(dropped.type ?? '', /^application\/json/);
    assert.equal((await postJson('/v1/namespace/n1/exists', {})).json.code, 1);
  });

  const refusals: readonly (readonly [string, number, number, () => Promise<RawAnswer>])[] = [
    ['no such table', 404, 4, () => post('/v1/table/nowhere/describe')],
    ['no such table to merge into', 404, 4, () => post('/v1/table/nowhere/merge_insert?on=id', stream(ann))],
    ['no such namespace', 404, 1, () => post('/v1/table/nowhere$t/create', stream(ann))],
    ['a table of that name exists', 409, 5, () => post('/v1/table/there/create', stream(ann))],
    ['a table of that name exists, and is declared again', 409, 5, () => postJson('/v1/table/there/declare', {})],
    ['no such column', 400, 12, () => post('/v1/table/there/merge_insert?on=shoe', stream(ann))],
    ['no key at all', 400, 13, () => post('/v1/table/there/merge_insert', stream(ann))],
    ['no such branch', 404, 22, () => post('/v1/table/there/merge_insert?on=id&branch=nowhere', stream(ann))],
    ['a table is not a namespace', 400, 13, () => post(`/v1/table/%24/describe?${delimiter}`)],
    ['an empty name', 400, 13, () => post('/v1/table/there%24/describe')],
    ['an empty delimiter', 400, 13, () => post('/v1/table/there/describe?delimiter=')],
    ['no bytes at all', 400, 13, () => post('/v1/table/no_bytes/create')],
    ['a mode that is none', 400, 13, () => post('/v1/table/no_mode/create?mode=sideways', stream(ann))],
    [
      'properties that are no texts',
      400,
      13,
      () => post('/v1/table/no_text/create?properties=%7B%22a%22%3A1%7D', stream(ann)),
    ],
    ['no credential', 401, 16, () => send('POST', '/v1/table/there/describe', { auth: '' })],
    ['a route of the specification that is not offered', 406, 0, () => postJson('/v1/table/there/backfill_column', {})],
    ['no route at all', 404, 0, () => post('/v1/tables')],
    ['a body that is no JSON', 400, 13, () => post('/v1/table/there/describe', '{', 'application/json')],
  ];
  describe('refusals carry the numeric code that these clients go by, and both shapes of the body', () => {
    before(async () => {
      await post('/v1/table/there/create', stream(ann));
    });
    for (const [what, status, code, ask] of refusals) {
      test(`${what}: ${status}, code ${code}`, async () => {
        const answer = await ask();
        assert.deepEqual([answer.status, answer.json.code], [status, code], JSON.stringify(answer.json));
        assert.match(answer.type ?? '', /^application\/json/);
        assert.equal(answer.json.status, status);
        for (const name of ['type', 'title', 'detail', 'instance', 'error'])
          assert.equal(typeof answer.json[name], 'string', name);
      });
    }
  });
});
