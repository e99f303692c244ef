import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { checkErrorBody, refused, startCheckedService, succeeded } from './checked-service.ts';
import { people, storedRows } from './rows.ts';

describe('identifiers in paths, and paths themselves', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
    for (const namespace of ['prod', 'prod$eu', 'a.b'])
      succeeded(await service.post(`/v1/namespace/${namespace}/create`));
  });
  const create = (id: string, query = '') => service.post(`/v1/table/${id}/create${query}`, people([1], 'x'));
  const exists = async (id: string, query = '') =>
    (await service.post(`/v1/table/${id}/exists${query}`)).status === 200;

  const delimiters: readonly (readonly [string, string, string])[] = [
    ['the default', 'prod$eu$d1', ''],
    ['the default, encoded', 'prod%24eu%24d2', ''],
    ['a dot', 'prod.eu.d3', '?delimiter=.'],
    ['a slash, encoded', 'prod%2Feu%2Fd4', '?delimiter=%2F'],
    ['two characters', 'prod::eu::d5', '?delimiter=::'],
    ['several characters, encoded', 'prod%20%2B%20eu%20%2B%20d6', '?delimiter=%20%2B%20'],
    ['characters that regular expressions know', 'prod.*eu.*d7', '?delimiter=.*'],
    ['one beyond ASCII', 'prod%C2%A7eu%C2%A7d8', '?delimiter=%C2%A7'],
  ];
  for (const [index, [what, id, query]] of delimiters.entries()) {
    test(`${what} as delimiter reaches the table two namespaces down`, async () => {
      succeeded(await create(id, query));
      assert.ok(await exists(`prod$eu$d${index + 1}`));
      assert.equal((await storedRows(service, `prod/eu/d${index + 1}`)).length, 1);
    });
  }

  test('with another delimiter, the default one is a character like others', async () => {
    succeeded(await create('prod$eu', '?delimiter=.'));
    assert.ok(await exists('prod%24eu', '?delimiter=.'));
    assert.ok(!(await exists('prod$eu')), 'and does not reach into the namespace');
  });

  test('the delimiter alone is the root namespace, which is no table', async () => {
    for (const [id, query] of [
      ['$', ''],
      ['%24', ''],
      ['::', '?delimiter=::'],
    ] as const) {
      succeeded(await service.post(`/v1/namespace/${id}/exists${query}`));
      refused(
        await service.post(`/v1/table/${id}/merge_insert${query}${query === '' ? '?' : '&'}on=id`),
        400,
        13,
        /root namespace/,
      );
    }
  });

  for (const id of [
    'prod$',
    '$prod',
    'prod$$eu',
    'prod$..',
    'prod$.',
    '..$t',
    'a%00b',
    'x%0Ay',
    'n'.repeat(256),
    '%ff',
  ]) {
    test(`the identifier ${id.slice(0, 20)} is refused, and names no file (P9)`, async () => {
      const before = readdirSync(service.tablesFolder, { recursive: true });
      refused(await create(id), 400, 13);
      assert.deepEqual(readdirSync(service.tablesFolder, { recursive: true }), before);
    });
  }

  test('names of any letters are tables, each in a folder of its own inside the root (P9)', async () => {
    const names = ['Größe', '表', 'a b', '../../etc/passwd', 'a/b', 'x.lance', 'CON', '-rf', "it's", 'n'.repeat(255)];
    for (const name of names) {
      succeeded(await create(encodeURIComponent(name)));
      assert.equal((await service.post<unknown>(`/v1/table/${encodeURIComponent(name)}/count_rows`)).body, 1, name);
    }
    const listed = succeeded(await service.get('/v1/namespace/$/table/list')).tables as string[];
    for (const name of names) assert.ok(listed.includes(name), name);
    for (const folder of readdirSync(service.tablesFolder)) assert.match(folder, /^[A-Za-z0-9_.-]{1,120}$/);
  });

  for (const path of [
    '/v1/table/there/merge_insert/',
    '//v1/table/there/merge_insert',
    '/v1//table///there//merge_insert//',
  ]) {
    test(`${path} is the route, slashes or not`, async () => {
      succeeded(await create('there', '?mode=exist_ok'));
      assert.equal(succeeded(await service.post(`${path}?on=id`, people([1], 'y'))).num_updated_rows, 1);
    });
  }

  test('what only a newer or another client sends does no harm to a read, also where it is broken', async () => {
    succeeded(await create('there', '?mode=exist_ok'));
    const query = 'shoe_size=1&shoe_size=2&%ZZZZZZ=%ZZ&&delimiter=$';
    const { headers } = await service.post(`/v1/table/there/describe?${query}`);
    assert.equal(headers.get('x-lancegate-ignored'), 'shoe_size, %25ZZZZZZ');
  });

  test('what is no route is 404 with code 0, to every client and by every method', async () => {
    for (const path of [
      '/',
      '/v1',
      '/v2/table/t/create',
      '/v1/table/t/creates',
      '/v1/table/t/create/now',
      '/v1/tables',
    ]) {
      refused(await service.post(path), 404, 0, /no such route/);
      refused(await service.get(path, { authorization: '' }), 404, 0, /no such route/);
    }
  });

  const byMethod = async (method: string, path: string) => {
    const { status, headers, body } = await fetch(service.url + path, { method });
    const text = await new Response(body).text();
    return { status, allow: headers.get('allow'), body: text === '' ? undefined : JSON.parse(text) };
  };
  const oneMethodEach: readonly (readonly [path: string, methods: string])[] = [
    ['/v1/table/t/create', 'POST'],
    ['/v1/table/t/merge_insert/', 'POST'],
    ['//v1/table/a%2Fb//describe?delimiter=.', 'POST'],
    ['/v1/table/t/count_rows', 'GET, HEAD, POST'],
    ['/v1/namespace/list?delimiter=.', 'GET, HEAD'],
    ['/v1/table/', 'GET, HEAD'],
    ['/metrics', 'GET, HEAD'],
    ['/healthz', 'GET, HEAD'],
  ];
  for (const [path, methods] of oneMethodEach) {
    test(`${path} by another method than ${methods} is 405 with code 0, and says which it has`, async () => {
      for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'PROPFIND', 'QUERY']) {
        const { status, allow, body } = await byMethod(method, path);
        assert.deepEqual([status, allow, body.code], [405, methods, 0], method);
        assert.equal(body.error, `the path has no ${method}, only ${methods}`);
        checkErrorBody(status, body, path);
      }
      const head = await byMethod('HEAD', path);
      if (methods.includes('HEAD')) assert.notEqual(head.status, 405);
      else assert.deepEqual(head, { status: 405, allow: methods, body: undefined });
    });
  }

  test('HEAD is answered where GET is, with its status and headers, and by the same rights (P9)', async () => {
    const headers = { authorization: `Bearer ${await service.mint('lancegate:read')}` };
    for (const path of [
      '/healthz',
      '/readyz',
      '/openapi.json',
      '/docs',
      '/v1/table',
      '/v1/namespace/list?delimiter=.',
    ]) {
      const [head, got] = await Promise.all(
        ['HEAD', 'GET'].map((method) => fetch(service.url + path, { method, headers })),
      );
      const facts = (answer: Response) =>
        ['content-type', 'content-length', 'cache-control'].map((name) => answer.headers.get(name));
      assert.deepEqual([head!.status, ...facts(head!)], [200, ...facts(got!)], path);
      assert.equal(await head!.text(), '');
    }
    const none = await fetch(`${service.url}/v1/table`, { method: 'HEAD' });
    assert.equal(none.status, 401);
    const missing = await fetch(`${service.url}/v1/table/no/count_rows`, { method: 'HEAD', headers });
    assert.equal(missing.status, 404);
  });

  test('a body that comes by the wrong method is refused unread', async () => {
    const answer = await fetch(`${service.url}/v1/table/t/create`, { method: 'PUT', body: 'x'.repeat(1 << 20) });
    assert.deepEqual([answer.status, answer.headers.get('connection')], [405, 'close']);
    await answer.body?.cancel();
  });

  test('a path that no method offers names none, and is 404 by methods that no client uses', async () => {
    for (const path of ['/v1/table/t/backfill_column', '/v1/functions/f', '/v1/nowhere']) {
      const { status, allow, body } = await byMethod('DELETE', path);
      assert.deepEqual([status, allow, body.code], [404, null, 0], path);
    }
  });
});

describe('a base path', () => {
  const later = afterSuite();
  test('stands before every route, and only there', async () => {
    const service = await startTestService(later, { BASE_PATH: '/lake/house' });
    const path = '/lake/house/v1/table/t';
    succeeded(await service.post(`${path}/create`, people([1], 'x')));
    succeeded(await service.post(`/lake//house//v1/table/t/merge_insert/?on=id`, people([1], 'y')));
    const missing = await service.post('/v1/table/t/describe');
    assert.equal(missing.status, 404);
    assert.deepEqual(
      [(await service.get('/v1/table/t/create')).status, (await service.get(`${path}/create`)).status],
      [404, 405],
    );
    const answer = await service.post(`${path}/merge_insert`, people([1], 'x'));
    assert.equal(answer.body.instance, `${path}/merge_insert`);
    assert.equal((await service.get('/healthz')).status, 200);
  });
});
