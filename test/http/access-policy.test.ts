import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);

// One table, two namespaces down.
permit (
  principal == Principal::"loader",
  action in [Action::"CreateTable", Action::"MergeInsertIntoTable", Action::"DropTable"],
  resource == Table::"eu$prod$events"
);

// Everything below a namespace, and of writes only those on the branch dev.
permit (principal == Principal::"brancher", action in [Action::"read", Action::"write"], resource in Namespace::"eu")
when { context.branch == "dev" };

// May list, and see one table and one namespace.
permit (principal == Principal::"guest", action in [Action::"ListTables", Action::"ListNamespaces"], resource);
permit (principal == Principal::"guest", action == Action::"DescribeTable", resource == Table::"eu$prod$open");
permit (principal == Principal::"guest", action == Action::"DescribeNamespace", resource == Namespace::"eu");

// May drop a namespace and what is in it, but for one table deep inside.
permit (principal == Principal::"sweeper", action, resource in Namespace::"old");
forbid (principal == Principal::"sweeper", action == Action::"DropTable", resource == Table::"old$deep$kept");
`;

describe('a policy file decides who may do what, where (P9)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    for (const namespace of ['eu', 'eu$prod', 'old', 'old$deep', 'secret']) {
      succeeded(await service.post(`/v1/namespace/${namespace}/create`));
    }
    for (const table of ['eu$prod$open', 'eu$prod$other', 'old$deep$kept', 'old$gone', 'hidden', 'secret$hidden']) {
      succeeded(await service.post(`/v1/table/${table}/create`, people([1], 'x')));
    }
  });
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:admin', subject)}` });

  test('a right on one table two namespaces down is a right on that table alone', async () => {
    const loader = await as('loader');
    succeeded(await service.post('/v1/table/eu$prod$events/create', people([1], 'x'), loader));
    succeeded(await service.post('/v1/table/eu.prod.events/merge_insert?on=id&delimiter=.', people([1], 'y'), loader));
    refused(await service.post('/v1/table/eu$prod$events/describe', {}, loader), 403, 15);
    for (const table of [
      'events',
      'prod$events',
      'eu$events',
      'eu$prod$other',
      'eu$prod$events$more',
      'eu%24prod.events',
    ]) {
      const query = table.includes('.') ? '&delimiter=.' : '';
      const path = `/v1/table/${table}/merge_insert?on=id${query}`;
      refused(await service.post(path, people([1], 'y'), loader), 403, 15);
    }
    succeeded(await service.post('/v1/table/eu$prod$events/drop', {}, loader));
  });

  test('a right on one branch is none on main, wherever the branch is named', async () => {
    const brancher = await as('brancher');
    const merge = (query: string) =>
      service.post(`/v1/table/eu$prod$other/merge_insert?on=id${query}`, people([2], 'y'), brancher);
    succeeded(await service.post('/v1/table/eu$prod$other/branches/create', { name: 'dev' }));
    succeeded(await merge('&branch=dev'));
    for (const query of ['', '&branch=', '&branch=main', '&branch=other']) refused(await merge(query), 403, 15);
    const count = (body: object) => service.post('/v1/table/eu$prod$other/count_rows', body, brancher);
    succeeded(await count({ branch: 'dev' }));
    refused(await count({}), 403, 15);
    refused(await count({ branch: 'main' }), 403, 15);
  });

  const bodies = ['create', 'merge_insert?on=id', 'merge_insert?on=id&branch=dev'];
  const objects: readonly (readonly [string, object])[] = [
    ...['describe', 'exists', 'drop', 'declare', 'deregister', 'count_rows', 'branches/list'].map(
      (route) => [route, {}] as const,
    ),
    ['describe', { branch: 'dev' }],
    ['describe', { version: 1 }],
    ['register', { location: 'hidden.lance', mode: 'overwrite' }],
    ['branches/create', { name: 'dev' }],
    ['branches/delete', { name: 'dev' }],
  ];
  /** The refusal, with the name that the caller gave taken out. */
  const refusal = async (table: string, route: string, body: Uint8Array | object, subject: string) => {
    const answer = await service.post(`/v1/table/${table}/${route}`, body, await as(subject));
    assert.equal(answer.status, 403, `${route}: ${JSON.stringify(answer.body)}`);
    const { 'www-authenticate': challenge } = Object.fromEntries(answer.headers);
    return JSON.stringify([answer.body, challenge]).replaceAll(table, 'NAME');
  };
  for (const subject of ['stranger', 'guest']) {
    test(`${subject} cannot learn whether a table exists: each route refuses it as it refuses what does not`, async () => {
      const routes = [...bodies.map((route) => [route, people([1], 'x')] as const), ...objects];
      for (const [route, body] of routes) {
        const [there, absent, unplaced] = [
          await refusal('hidden', route, body, subject),
          await refusal('absent', route, body, subject),
          await refusal('nowhere$absent', route, body, subject),
        ];
        assert.equal(there, absent, route);
        assert.equal(there, unplaced, route);
      }
    });

    test(`${subject} cannot learn whether a namespace exists either`, async () => {
      const token = await as(subject);
      for (const route of ['describe', 'exists', 'drop', 'create']) {
        if (route === 'describe' && subject === 'guest') continue;
        const ask = async (name: string) => {
          const { status, body } = await service.post(`/v1/namespace/${name}/${route}`, {}, token);
          return [status, JSON.stringify(body ?? '').replaceAll(name, 'NAME')];
        };
        assert.deepEqual(await ask('secret'), await ask('nowhere'), route);
        assert.equal((await ask('secret'))[0], 403);
      }
    });
  }

  test('a transaction of a table that may not be seen is as unknown as any other', async () => {
    const { transaction_id: id } = succeeded(
      await service.post('/v1/table/hidden/merge_insert?on=id', people([1], 'y')),
    );
    succeeded(await service.post(`/v1/transaction/${id}/describe`));
    const answer = await service.post(`/v1/transaction/${id}/describe`, {}, await as('guest'));
    refused(answer, 404, 10);
    const unknown = await service.post('/v1/transaction/unknown/describe', {}, await as('guest'));
    assert.equal(JSON.stringify(answer.body).replaceAll(String(id), 'unknown'), JSON.stringify(unknown.body));
  });

  test('listings show what may be described and leave no trace of the rest', async () => {
    const guest = await as('guest');
    const list = async (path: string) => succeeded(await service.get(path, guest));
    assert.deepEqual(await list('/v1/table'), { tables: ['eu$prod$open'] });
    assert.deepEqual(await list('/v1/table?limit=1'), { tables: ['eu$prod$open'] }, 'no token that leads nowhere');
    assert.deepEqual(await list('/v1/table/'), { tables: [] });
    assert.deepEqual(await list('/v1/namespace/eu$prod/table/list'), { tables: ['open'] });
    assert.deepEqual(await list('/v1/namespace/secret/table/list'), { tables: [] });
    assert.deepEqual(await list('/v1/namespace/$/list'), { namespaces: ['eu'] });
    const all = succeeded(await service.get('/v1/table')).tables as string[];
    assert.ok(all.includes('hidden') && all.includes('secret$hidden'));
  });

  test('a cascade that may not drop everything drops nothing', async () => {
    const sweeper = await as('sweeper');
    const drop = () => service.post('/v1/namespace/old/drop', { behavior: 'Cascade' }, sweeper);
    refused(await drop(), 403, 15, /nothing was/);
    for (const table of ['old$gone', 'old$deep$kept']) succeeded(await service.post(`/v1/table/${table}/exists`));
    refused(await service.post('/v1/table/old$deep$kept/drop', {}, sweeper), 403, 15);
    succeeded(await service.post('/v1/table/old$deep$kept/drop'));
    succeeded(await drop());
    refused(await service.post('/v1/namespace/old/exists'), 404, 1);
  });

  test('scopes count for nothing where a policy file does not name them', async () => {
    refused(await service.post('/v1/table/hidden/describe', {}, await as('stranger')), 403, 15);
  });
});

describe('a policy file that is broken stops the start (P9)', () => {
  const mistakes: readonly (readonly [string, string, RegExp])[] = [
    ['a syntax error', 'permit (principal, action, resource);\npermit (principal action);', /^mine\.cedar:2:19: /],
    [
      'an action that does not exist',
      'permit (principal, action == Action::"MergeRows", resource);',
      /^mine\.cedar:1:30: /,
    ],
    [
      'a context that does not exist',
      'permit (principal, action, resource)\nwhen { context.tag == "x" };',
      /^mine\.cedar:2:8: /,
    ],
    ['no policy at all', '// nobody may do anything\n', /^mine\.cedar:1:1: the file holds no policy/],
  ];
  for (const [what, text, position] of mistakes) {
    test(`${what} is named with its position`, async (t) => {
      const file = join(
        temporaryFolder((clean) => t.after(clean)),
        'mine.cedar',
      );
      writeFileSync(file, text);
      await assert.rejects(
        startTestService((clean) => t.after(clean), { POLICY_FILE: file }),
        { message: position },
      );
    });
  }

  test('a file that is not there stops it too', async (t) => {
    await assert.rejects(
      startTestService((clean) => t.after(clean), { POLICY_FILE: '/nowhere/mine.cedar' }),
      /nowhere/,
    );
  });
});
