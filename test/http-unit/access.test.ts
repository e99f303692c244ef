import assert from 'node:assert/strict';
import { test } from 'node:test';
import { notOfferedPaths } from '#src/http/routes/not-offered.ts';
import { ask, usersStream } from './client.ts';
import { answered } from './scripted-operations.ts';
import { startTestService } from './service.ts';

const anonymous = { authorization: '' };
const example = (path: string): string => path.replace('/:id', '/users').replaceAll(/:\w+|\*/g, 'x');

test('without a credential everything but the health checks is 401, with the challenge of RFC 6750 (P9)', async () => {
  await using service = await startTestService();
  const paths = ['/v1/table/users/describe', '/v1/table/$/describe', '/v1/jobs/list', ...notOfferedPaths.map(example)];
  for (const path of paths) {
    const { status, headers, json } = await ask(service, path, { headers: anonymous });
    assert.equal(status, 401, path);
    assert.equal(headers.get('www-authenticate'), 'Bearer realm="lancegate"');
    assert.equal((json as { code: number }).code, 16);
  }
  assert.equal((await ask(service, '/metrics', { method: 'GET', headers: anonymous })).status, 401);
  assert.deepEqual(service.decisions, []);
});

test('an unknown route is 404 to every client', async () => {
  await using service = await startTestService();
  for (const headers of [anonymous, {}]) {
    const { status, json } = await ask(service, '/v1/nowhere?x=1', { headers });
    assert.equal(status, 404);
    assert.deepEqual(json, {
      type: '/errors/not-found-error',
      title: 'Not found Error',
      status: 404,
      detail: '',
      instance: '/v1/nowhere',
      error: 'no such route for POST',
      code: 0,
    });
  }
});

test('the wrong method for a path is 405 with code 0 and the right ones, to every client', async () => {
  await using service = await startTestService();
  for (const headers of [anonymous, {}]) {
    const path = '/v1/table/users/create?x=1';
    const { status, json, headers: answered } = await ask(service, path, { method: 'GET', headers });
    assert.equal(status, 405);
    assert.equal(answered.get('allow'), 'POST');
    assert.deepEqual(json, {
      type: '/errors/method-not-allowed',
      title: 'The path does not have this method',
      status: 405,
      detail: '',
      instance: '/v1/table/users/create',
      error: 'the path has no GET, only POST',
      code: 0,
    });
  }
});

test('a known route that is not offered is 406 with code 0, with and without a slash', async () => {
  await using service = await startTestService();
  for (const path of notOfferedPaths.map(example)) {
    for (const slash of ['', '/']) {
      const { status, json } = await ask(service, `${path}${slash}`, { body: usersStream });
      assert.deepEqual([status, (json as { code: number }).code], [406, 0], path);
    }
  }
});

test('an id that cannot be read is 400', async () => {
  await using service = await startTestService();
  for (const id of ['$', 'prod$', '$users', 'a$$b', 'a$..', 'a$.', '%00', 'a%0Ab', 'x'.repeat(256)]) {
    const { status, json } = await ask(service, `/v1/table/${id}/describe`);
    assert.deepEqual([status, (json as { code: number }).code], [400, 13], id);
  }
  assert.deepEqual(service.asked, []);
});

test('who is not allowed gets 403, and neither body nor table is looked at (P9)', async () => {
  await using service = await startTestService({ allows: () => false });
  const { status, headers, json } = await ask(service, '/v1/table/prod$users/merge_insert?on=', { body: 'no arrow' });
  assert.equal(status, 403);
  assert.match(headers.get('www-authenticate')!, /insufficient_scope/);
  assert.equal((json as { error: string }).error, "MergeInsertIntoTable on table 'prod$users' is not allowed");
  assert.deepEqual(service.decisions, [
    {
      action: 'MergeInsertIntoTable',
      resource: { kind: 'table', table: { namespace: ['prod'], name: 'users' } },
      branch: undefined,
    },
  ]);
  assert.deepEqual(service.asked, []);
});

const onlyDev = ({ branch }: { branch: unknown }): boolean => branch === 'dev';

test('a policy on branches holds wherever the branch stands (P9)', async () => {
  await using service = await startTestService({ allows: onlyDev });
  const status = async (path: string, body: unknown) => (await ask(service, path, { body })).status;
  for (const route of ['describe', 'count_rows']) {
    assert.equal(await status(`/v1/table/users/${route}`, { branch: 'dev' }), 200);
    assert.equal(await status(`/v1/table/users/${route}?branch=dev`, undefined), 200);
    assert.equal(await status(`/v1/table/users/${route}`, {}), 403);
    assert.equal(await status(`/v1/table/users/${route}`, { branch: 'main' }), 403);
    assert.equal(await status(`/v1/table/users/${route}`, { branch: 'other' }), 403);
    assert.equal(await status(`/v1/table/users/${route}?branch=dev`, { branch: 'other' }), 400);
  }
  const onBranch = await ask(service, '/v1/table/users/merge_insert?on=id&branch=dev', {
    body: usersStream,
    headers: arrow,
  });
  assert.equal(onBranch.status, 200);
  assert.equal(await status('/v1/table/users/merge_insert?on=id', usersStream), 403);
});

const arrow = { 'content-type': 'application/vnd.apache.arrow.stream' };

test('a new branch needs its own name allowed, and its parent, whose rows it shows (P9)', async () => {
  await using service = await startTestService({ allows: onlyDev });
  const create = async (body: unknown) => (await ask(service, '/v1/table/users/branches/create', { body })).status;
  assert.equal(await create({ name: 'other', from_branch: 'dev' }), 403);
  assert.equal(await create({ name: 'dev', from_branch: 'secret' }), 403);
  assert.equal(await create({ name: 'dev' }), 403);
  assert.equal(await create({ name: 'dev', from_branch: 'dev' }), 200);
  assert.deepEqual((await ask(service, '/v1/table/users/branches/delete', { body: { name: 'other' } })).status, 403);
});

test('an operation that knows no branches refuses one, in the query and in the body', async () => {
  await using service = await startTestService();
  assert.equal((await ask(service, '/v1/table/users/drop?branch=dev')).status, 400);
  assert.equal((await ask(service, '/v1/table/users/drop', { body: { branch: 'dev' } })).status, 400);
  assert.equal((await ask(service, '/v1/table/users/drop?branch=main', { body: { branch: '' } })).status, 200);
});

test('listings show what the policy lets be described, and a cascade asks for everything inside', async () => {
  const verdicts: unknown[] = [];
  const [hidden, shown] = ['hidden', 'shown'].map((name) => ({ namespace: [], name })) as never[];
  await using service = await startTestService({
    allows: ({ resource }) => resource.kind !== 'table' || resource.table.name !== 'hidden',
    script: {
      listTables: async ({ visible }) => {
        verdicts.push(visible(hidden!), visible(shown!));
        return { items: [], next: undefined };
      },
      dropNamespace: async ({ mayDrop }) => {
        verdicts.push(mayDrop({ table: hidden! }), mayDrop({ namespace: [] }));
        return answered(undefined);
      },
    },
  });
  await ask(service, '/v1/namespace/$/table/list', { method: 'GET' });
  await ask(service, '/v1/namespace/prod/drop', { body: { behavior: '"Cascade"' } });
  assert.deepEqual(verdicts, [false, true, false, true]);
  const actions = service.decisions.map(({ action }) => action);
  assert.deepEqual(actions, [
    'ListTables',
    'DescribeTable',
    'DescribeTable',
    'DropNamespace',
    'DropTable',
    'DropNamespace',
  ]);
});

test('the configuration needs an action of its own, and has what the start gave it (P9)', async () => {
  const settings = [{ flag: 'port', value: '0', source: 'default' }];
  const path = '/v1/configuration';
  for (const isAllowed of [false, true]) {
    const allows = ({ action }: { readonly action: string }) => (action === 'DescribeConfiguration') === isAllowed;
    await using service = await startTestService({ allows, settings });
    const { status, json } = await ask(service, path, { method: 'GET' });
    assert.equal(status, isAllowed ? 200 : 403);
    if (isAllowed) assert.deepEqual(json, { settings });
    assert.deepEqual(service.decisions, [
      { action: 'DescribeConfiguration', resource: { kind: 'namespace', path: [] }, branch: undefined },
    ]);
  }
});

test('metrics need an action of their own; the health checks need nothing and tell nothing', async () => {
  await using service = await startTestService({ allows: ({ action }) => action !== 'ReadMetrics' });
  assert.equal((await ask(service, '/metrics', { method: 'GET' })).status, 403);
  assert.deepEqual(service.decisions, [
    { action: 'ReadMetrics', resource: { kind: 'namespace', path: [] }, branch: undefined },
  ]);
  const [healthy, ready] = [
    await ask(service, '/healthz', { method: 'GET', headers: anonymous }),
    await ask(service, '/readyz', { method: 'GET', headers: anonymous }),
  ];
  assert.deepEqual([healthy.json, ready.json], [{ status: 'alive', version: 'test' }, { status: 'ready' }]);
});
