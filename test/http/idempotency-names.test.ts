/** Keys of what goes through no queue of a branch: tags, branches, versions that go, names of tables and namespaces. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import type { Answer, HeaderFields, TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

type Request = readonly [path: string, body: object];

interface Case {
  /** What it needs. */
  readonly given?: readonly Request[];
  readonly request: Request;
  /** Another client undoes it. */
  readonly undone?: Request;
  /** What is refused, or answered, if a retry has not done it again. */
  readonly shownBy: Request;
  readonly showing: { readonly status: number; readonly body?: object };
}

const gone = { status: 404 };
const there = { status: 409 };

const byEither: readonly Case[] = [
  {
    given: [['table/t/tags/create', { tag: 'moved', version: 1 }]],
    request: ['table/t/tags/update', { tag: 'moved', version: 2 }],
    undone: ['table/t/tags/update', { tag: 'moved', version: 1 }],
    shownBy: ['table/t/tags/version', { tag: 'moved' }],
    showing: { status: 200, body: { version: 1 } },
  },
  {
    given: [['table/t/tags/create', { tag: 'removed', version: 1 }]],
    request: ['table/t/tags/delete', { tag: 'removed' }],
    undone: ['table/t/tags/create', { tag: 'removed', version: 1 }],
    shownBy: ['table/t/tags/create', { tag: 'removed', version: 1 }],
    showing: there,
  },
  {
    given: [['table/t/branches/create', { name: 'removed' }]],
    request: ['table/t/branches/delete', { name: 'removed' }],
    undone: ['table/t/branches/create', { name: 'removed' }],
    shownBy: ['table/t/branches/create', { name: 'removed' }],
    showing: there,
  },
];

const byKey: readonly Case[] = [
  {
    request: ['table/t/tags/create', { tag: 'made', version: 1 }],
    undone: ['table/t/tags/delete', { tag: 'made' }],
    shownBy: ['table/t/tags/delete', { tag: 'made' }],
    showing: gone,
  },
  {
    request: ['table/t/branches/create', { name: 'made' }],
    undone: ['table/t/branches/delete', { name: 'made' }],
    shownBy: ['table/t/branches/delete', { name: 'made' }],
    showing: gone,
  },
  {
    request: ['table/versions/version/delete', { ranges: [{ start_version: 1, end_version: 2 }] }],
    shownBy: ['table/versions/version/delete', { ranges: [{ start_version: 1, end_version: 2 }] }],
    showing: { status: 200, body: { deleted_count: 0 } },
  },
  {
    request: ['table/versions/maintain', {}],
    shownBy: ['table/versions/exists', {}],
    showing: { status: 200 },
  },
  {
    request: ['table/declared/declare', { properties: { owner: 'ann' } }],
    undone: ['table/declared/drop', {}],
    shownBy: ['table/declared/drop', {}],
    showing: gone,
  },
  {
    given: [['table/adopted/deregister', {}]],
    request: ['table/adopted/register', { location: 'adopted.lance' }],
    undone: ['table/adopted/deregister', {}],
    shownBy: ['table/adopted/deregister', {}],
    showing: gone,
  },
  {
    request: ['table/forgotten/deregister', {}],
    undone: ['table/forgotten/register', { location: 'forgotten.lance' }],
    shownBy: ['table/forgotten/register', { location: 'forgotten.lance' }],
    showing: there,
  },
  {
    request: ['table/dropped/drop', {}],
    undone: ['table/dropped/declare', {}],
    shownBy: ['table/dropped/declare', {}],
    showing: there,
  },
  {
    request: ['table/old/rename', { new_table_name: 'new' }],
    undone: ['table/new/rename', { new_table_name: 'old' }],
    shownBy: ['table/new/rename', { new_table_name: 'old' }],
    showing: gone,
  },
  {
    request: ['table/cloned/clone', { source_location: 't.lance' }],
    undone: ['table/cloned/drop', {}],
    shownBy: ['table/cloned/drop', {}],
    showing: gone,
  },
  {
    request: ['namespace/made/create', { properties: { owner: 'ann' } }],
    undone: ['namespace/made/drop', {}],
    shownBy: ['namespace/made/drop', {}],
    showing: gone,
  },
  {
    given: [['namespace/dropped/create', {}]],
    request: ['namespace/dropped/drop', {}],
    undone: ['namespace/dropped/create', {}],
    shownBy: ['namespace/dropped/create', {}],
    showing: there,
  },
];

const keyed = (key: string): HeaderFields => ({ 'idempotency-key': key });
const isReplay = ({ headers }: Answer): boolean => headers.get('idempotency-replayed') === 'true';

const catalogs = { SQLite: false, PostgreSQL: withoutPostgres ?? false } as const;

for (const [catalog, skip] of Object.entries(catalogs)) {
  describe(`an operation on names, tags and branches is done once for each key, on ${catalog} (P6)`, { skip }, () => {
    const later = afterSuite();
    let service: TestService;
    before(async () => {
      const settings = catalog === 'SQLite' ? {} : { CATALOG: await (await sharedPostgres()).newDatabase() };
      service = await startCheckedService(later, settings);
      for (const table of ['t', 'versions', 'adopted', 'forgotten', 'dropped', 'old']) {
        succeeded(await service.post(`/v1/table/${table}/create`, people([1], 'x')));
      }
      for (const table of ['t', 'versions']) {
        for (const id of [2, 3]) {
          succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id`, people([id], 'y')));
        }
      }
    });
    const post = ([path, body]: Request, headers?: HeaderFields) => service.post(`/v1/${path}`, body, headers);
    const as = async (subject: string, scope: string): Promise<HeaderFields> => ({
      authorization: `Bearer ${await service.mint(scope, subject)}`,
    });

    /** The request, what undoes it, and the request again. */
    const sendTwice = async ({ given = [], request, undone, shownBy, showing }: Case, headers: HeaderFields) => {
      for (const each of given) succeeded(await post(each));
      const first = await post(request, headers);
      if (undone !== undefined) succeeded(await post(undone));
      const again = await post(request, headers);
      assert.deepEqual([succeeded(again), isReplay(first), isReplay(again)], [succeeded(first), false, true]);
      const shown = await post(shownBy);
      assert.equal(shown.status, showing.status, JSON.stringify(shown.body));
      if (showing.body !== undefined) assert.deepEqual(shown.body, showing.body);
    };

    for (const each of [...byEither, ...byKey]) {
      const [path, body] = each.request;
      test(`${path}: a retry gets the first answer and does nothing, another body is refused`, async () => {
        await sendTwice(each, keyed(path));
        refused(
          await post([path, { ...body, identity: {} }], keyed(path)),
          400,
          13,
          /^idempotency-key: .* another body$/,
        );
      });
    }

    for (const each of byEither) {
      const [path] = each.request;
      test(`${path}: the SDKs repeat it under one x-request-id, which counts as a key`, async () => {
        await sendTwice({ ...each, given: [] }, { 'x-request-id': 'of-a-call' }); // what was given has been made again
        const another = await post(each.request, { 'x-request-id': 'of-another' });
        assert.deepEqual([another.status, isReplay(another)], [200, false]);
      });
    }

    test('an x-request-id is no key for what the SDKs do not repeat', async () => {
      const traced = { 'x-request-id': 'of-a-trace' };
      succeeded(await post(['namespace/traced/create', {}], traced));
      refused(await post(['namespace/traced/create', {}], traced), 409, 2);
      succeeded(await post(['table/traced/declare', {}], traced));
      refused(await post(['table/traced/declare', {}], traced), 409, 5);
    });

    test('a key stands for one operation on one table', async () => {
      succeeded(await post(['table/one/declare', {}], keyed('one')));
      for (const path of ['table/two/declare', 'table/one/drop', 'namespace/one/create']) {
        refused(await post([path, {}], keyed('one')), 400, 13, /another operation, table or parameters$/);
      }
      assert.equal(isReplay(await post(['table/one/declare', {}], keyed('one'))), true);
      succeeded(await post(['table/one/drop', {}], keyed('drop')));
      refused(await post(['table/one/deregister', {}], keyed('drop')), 400, 13, /another operation/);
    });

    test('the same key of another principal is another key (P9)', async () => {
      succeeded(await post(['table/shared/declare', { properties: { owner: 'ann' } }], keyed('shared')));
      const theirs = { ...keyed('shared'), ...(await as('somebody else', 'lancegate:admin')) };
      refused(await post(['table/shared/declare', { properties: { owner: 'ann' } }], theirs), 409, 5);
      succeeded(await post(['table/shared/drop', {}], theirs));
    });

    test('a principal that may not ask for it any more gets no earlier answer (P9)', async () => {
      const requests: readonly Request[] = [
        ['table/t/tags/create', { tag: 'demoted', version: 1 }],
        ['namespace/demoted/create', {}],
        ['table/of_demoted/declare', {}],
        ['table/of_demoted/rename', { new_table_name: 'renamed' }],
        ['table/renamed/drop', {}],
      ];
      const [before, after] = [await as('demoted', 'lancegate:admin'), await as('demoted', 'lancegate:read')];
      for (const request of requests) {
        const key = keyed(`demoted/${request[0]}`);
        succeeded(await post(request, { ...key, ...before }));
        refused(await post(request, { ...key, ...after }), 403, 15);
        assert.equal(isReplay(await post(request, { ...key, ...before })), true);
      }
    });

    test('a refusal is not remembered', async () => {
      refused(await post(['table/t/tags/delete', { tag: 'later' }], keyed('later')), 404, 8);
      succeeded(await post(['table/t/tags/create', { tag: 'later', version: 1 }]));
      assert.equal(isReplay(await post(['table/t/tags/delete', { tag: 'later' }], keyed('later'))), false);
      assert.equal(isReplay(await post(['table/t/tags/delete', { tag: 'later' }], keyed('later'))), true);
    });

    test('of many at once one works, and all get its answer', async () => {
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => post(['table/t/branches/create', { name: 'crowd' }], keyed('crowd'))),
      );
      for (const answer of answers) succeeded(answer);
      assert.equal(answers.filter((answer) => !isReplay(answer)).length, 1);
    });

    test('an answer outlives the service that gave it', async () => {
      const first = succeeded(await post(['table/kept/declare', {}], keyed('kept')));
      succeeded(await post(['table/kept/drop', {}]));
      await service.restart();
      assert.deepEqual(succeeded(await post(['table/kept/declare', {}], keyed('kept'))), first);
    });
  });
}
