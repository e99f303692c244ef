/** Tags over HTTP: names for versions that stay. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { AdvancingClock } from '#test/maintenance/advancing-clock.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);

// Reads and writes main and knows of no branch.
permit (principal == Principal::"guest", action in [Action::"read", Action::"write"], resource);
forbid (principal == Principal::"guest", action, resource) when { context.branch != "main" };

// Reads all and writes the branch dev.
permit (principal == Principal::"crew", action in Action::"read", resource);
permit (principal == Principal::"crew", action in Action::"write", resource) when { context.branch == "dev" };

permit (principal == Principal::"reader", action in Action::"read", resource);
`;

describe('tags', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
    for (const id of [2, 3]) await merge(id);
    succeeded(await service.post('/v1/table/t/branches/create', { name: 'dev', from_version: 2 }));
    await merge(9, '&branch=dev');
    succeeded(await service.post('/v1/table/declared/declare', {}));
  });
  const merge = async (id: number, query = '') =>
    succeeded(await service.post(`/v1/table/t/merge_insert?on=id${query}`, people([id], 'y')));
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });
  const tags = (name: string, body?: object, headers?: Record<string, string>) =>
    service.post(`/v1/table/t/tags/${name}`, body, headers);
  const stored = async () => (await connect(service.tablesFolder)).openTable('t');

  test('a tag is made, found, moved and deleted, and Lance sees the same', async () => {
    assert.deepEqual(succeeded(await tags('create', { tag: 'v1', version: 1 })), {});
    assert.deepEqual(succeeded(await tags('version', { tag: 'v1' })), { version: 1 });
    const direct = await stored();
    await direct.checkout('v1');
    assert.deepEqual([await direct.version(), await direct.countRows()], [1, 1]);
    succeeded(await tags('update', { tag: 'v1', version: 2 }));
    assert.equal(await (await (await stored()).tags()).getVersion('v1'), 2);
    succeeded(await tags('delete', { tag: 'v1' }));
    refused(await tags('version', { tag: 'v1' }), 404, 8, /no tag 'v1'/);
    assert.deepEqual(await (await (await stored()).tags()).list(), {});
  });

  test('a tag of a branch names a version of that branch, for describe too', async () => {
    succeeded(await tags('create', { tag: 'on-dev', version: 3, branch: 'dev' }));
    assert.deepEqual(succeeded(await tags('version', { tag: 'on-dev' })), { version: 3, branch: 'dev' });
    const described = succeeded(await service.post('/v1/table/t/describe', { tag: 'on-dev' }));
    assert.equal(described.version, 3);
    const direct = await stored();
    await direct.checkout('on-dev');
    assert.deepEqual((await direct.query().toArray()).map(({ id }) => Number(id)).sort(), [1, 2, 9]);
    refused(await service.post('/v1/table/t/describe', { tag: 'on-dev', version: 2 }), 400, 13, /version/);
    refused(await service.post('/v1/table/t/describe', { tag: 'none' }), 404, 8);
    refused(await service.post('/v1/table/t/branches/delete', { name: 'dev' }), 400, 19, /tag/);
    succeeded(await tags('delete', { tag: 'on-dev' }));
  });

  test('a list has the form that each family of clients reads, and pages', async () => {
    for (const [tag, version] of [
      ['a', 1],
      ['b', 2],
    ] as const)
      succeeded(await tags('create', { tag, version }));
    const bare = succeeded(await tags('list/')) as Record<string, Record<string, unknown>>;
    assert.deepEqual(Object.keys(bare), ['a', 'b']);
    assert.deepEqual(Object.keys(bare.a ?? {}).sort(), [
      'createdAt',
      'manifestSize',
      'metadata',
      'updatedAt',
      'version',
    ]);
    assert.ok(Number(bare.a?.manifestSize) > 0);
    assert.deepEqual(succeeded(await tags('list')), { tags: bare });
    const first = succeeded(await tags('list?limit=1'));
    assert.deepEqual(Object.keys(first.tags as object), ['a']);
    const second = succeeded(await service.get(`/v1/table/t/tags/list?limit=1&page_token=${String(first.page_token)}`));
    assert.deepEqual([Object.keys(second.tags as object), second.page_token], [['b'], undefined]);
    for (const tag of ['a', 'b']) succeeded(await tags('delete', { tag }));
  });

  test('what is not there and what is there already is refused by name', async () => {
    succeeded(await tags('create', { tag: 'taken', version: 1 }));
    refused(await tags('create', { tag: 'taken', version: 1 }), 409, 9, /'taken' already/);
    refused(await tags('create/', { tag: 'taken', version: 1 }), 400, 9, /'taken' already/);
    for (const route of ['create', 'update']) {
      const tag = route === 'create' ? 'new' : 'taken';
      refused(await tags(route, { tag, version: 99 }), 404, 11, /no version 99/);
      refused(await tags(route, { tag, version: 1, branch: 'dev' }), 404, 11);
      refused(await tags(route, { tag, version: 1, branch: 'none' }), 404, 22);
      refused(await tags(route, { tag, version: -1 }), 400, 13);
      refused(await tags(route, { tag }), 400, 13, /version/);
    }
    refused(await tags('update', { tag: 'none', version: 1 }), 404, 8);
    refused(await tags('delete', { tag: 'none' }), 404, 8);
    for (const name of ['', '.', '..', '../x', 'a/b', 'größe', 'a b', 'x.lock', 'x'.repeat(201), 'a\0']) {
      refused(await tags('create', { tag: name, version: 1 }), 400, 13, /tag/);
    }
    refused(await service.post('/v1/table/none/tags/create', { tag: 'x', version: 1 }), 404, 4);
    refused(await service.post('/v1/table/declared/tags/create', { tag: 'x', version: 1 }), 400, 19);
    succeeded(await tags('delete', { tag: 'taken' }));
  });

  test('a repeated create succeeds with the request id of the first, if it is the same tag (P6)', async () => {
    const first = { 'x-request-id': 'one-and-the-same' };
    succeeded(await tags('create', { tag: 'retried', version: 1 }, first));
    succeeded(await tags('create', { tag: 'retried', version: 1 }, first));
    refused(await tags('create', { tag: 'retried', version: 2 }, first), 409, 9);
    refused(await tags('create', { tag: 'retried', version: 1 }, { 'x-request-id': 'another' }), 409, 9);
    succeeded(await tags('delete', { tag: 'retried' }));
  });

  test('of many creates of one name at once one wins', async () => {
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) => tags('create', { tag: 'raced', version: 1 + (i % 3) })),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array.from({ length: 11 }, () => 409)]);
    succeeded(await tags('delete', { tag: 'raced' }));
  });

  test('a tag on a branch shows only to those who may see the branch (P9)', async () => {
    const guest = await as('guest');
    const hidden = { tag: 'hidden', version: 3, branch: 'dev' };
    succeeded(await tags('create', hidden));
    succeeded(await tags('create', { tag: 'seen', version: 1 }));
    assert.deepEqual(Object.keys(succeeded(await tags('list/', undefined, guest))), ['seen']);
    for (const tag of ['hidden', 'none']) {
      refused(await tags('version', { tag }, guest), 404, 8);
      refused(await tags('delete', { tag }, guest), 404, 8);
      refused(await tags('update', { tag, version: 1 }, guest), 404, 8);
      refused(await service.post('/v1/table/t/describe', { tag }, guest), 404, 8);
    }
    refused(await tags('create', { ...hidden, tag: 'x' }, guest), 403, 15);
    refused(await tags('version', { tag: 'hidden', branch: 'dev' }, guest), 403, 15);
  });

  test('a tag is changed only by those who may change its branch (P9)', async () => {
    const crew = await as('crew');
    refused(await tags('delete', { tag: 'seen', branch: 'dev' }, crew), 404, 8);
    refused(await tags('delete', { tag: 'seen' }, crew), 403, 15);
    refused(await tags('update', { tag: 'seen', version: 3, branch: 'dev' }, crew), 403, 15);
    succeeded(await tags('update', { tag: 'hidden', version: 2, branch: 'dev' }, crew));
    succeeded(await tags('delete', { tag: 'hidden', branch: 'dev' }, crew));
    const reader = await as('reader');
    assert.deepEqual(succeeded(await tags('version', { tag: 'seen' }, reader)), { version: 1 });
    for (const route of ['create', 'update', 'delete']) {
      const body = route === 'delete' ? { tag: 'seen' } : { tag: 'seen', version: 1 };
      refused(await tags(route, body, reader), 403, 15);
    }
    const stranger = await as('stranger');
    for (const table of ['t', 'none']) {
      refused(await service.post(`/v1/table/${table}/tags/list`, undefined, stranger), 403, 15);
      refused(await service.post(`/v1/table/${table}/tags/version`, { tag: 'seen' }, stranger), 403, 15);
    }
    succeeded(await tags('delete', { tag: 'seen' }));
  });

  test('each request has an audit record with its action, its branch and the tag', async () => {
    succeeded(await tags('create', { tag: 'audited', version: 3, branch: 'dev' }));
    succeeded(await tags('delete', { tag: 'audited' }));
    const records = service.log.map((line) => JSON.parse(line) as Record<string, unknown>);
    const shown = ['create', 'delete'].map((name) => {
      const { actions, decision, table, branch, tag } =
        records.findLast(({ route }) => route === `/v1/table/:id/tags/${name}`) ?? {};
      return { actions, decision, table, branch, tag };
    });
    const common = { decision: 'allowed', table: 't', tag: 'audited' };
    assert.deepEqual(shown, [
      { ...common, actions: ['CreateTableTag'], branch: 'dev' },
      { ...common, actions: ['DeleteTableTag'], branch: 'main' },
    ]);
  });
});

test('a version is either tagged and stays, or pruned and its tag refused, whichever comes first (P1)', async (t) => {
  const clock = new AdvancingClock();
  const service = await startTestService(t.after.bind(t), { AUTO_MAINTENANCE: 'false' }, clock);
  succeeded(await service.post('/v1/table/t/create', people([0], 'x')));
  for (let round = 0; round < 4; round++) {
    for (let i = 0; i < 4; i++) {
      succeeded(await service.post('/v1/table/t/merge_insert?on=id', people([10 * round + i], 'y')));
    }
    const listed = succeeded(await service.post('/v1/table/t/version/list')).versions as { version: number }[];
    clock.advance(120_000);
    const [maintained, ...tagged] = await Promise.all([
      service.post('/v1/table/t/maintain'),
      ...listed.map(({ version }) => service.post('/v1/table/t/tags/create', { tag: `r${round}-${version}`, version })),
    ]);
    succeeded(maintained);
    for (const [i, { version }] of listed.entries()) {
      const answer = tagged[i]!;
      const count = await service.post('/v1/table/t/count_rows', { version });
      if (answer.status === 200) assert.equal(count.status, 200, `tagged version ${version}`);
      else refused(answer, 404, 11);
    }
  }
});
