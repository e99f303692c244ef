/** `version/list` and `stats`: what a branch consists of, to clients that may read it. */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);

// Reads main and no branch.
permit (principal == Principal::"guest", action in Action::"read", resource);
forbid (principal == Principal::"guest", action, resource) when { context.branch != "main" };
`;

interface Listed {
  readonly versions: readonly {
    readonly version: number;
    readonly timestamp_millis: number;
    readonly timestamp: string;
    readonly manifest_path: string;
    readonly manifest_size: number;
  }[];
  readonly page_token?: string;
}

describe('what a table consists of', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    succeeded(await service.post('/v1/table/t/create', people([1, 2, 3], 'x')));
    for (const id of [4, 5, 6]) await merge(id);
    succeeded(await service.post('/v1/table/t/branches/create', { name: 'dev', from_version: 2 }));
    await merge(7, '&branch=dev');
    succeeded(await service.post('/v1/table/declared/declare', {}));
  });
  const merge = async (id: number, query = '') =>
    succeeded(await service.post(`/v1/table/t/merge_insert?on=id${query}`, people([id], 'y')));
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });
  const list = async (query = '', path = 'version/list') =>
    succeeded(await service.post(`/v1/table/t/${path}${query}`)) as unknown as Listed;
  const stored = async () => (await connect(service.tablesFolder)).openTable('t');
  const numbers = ({ versions }: Listed): readonly number[] => versions.map(({ version }) => version);

  test('versions are listed newest first, each with its manifest and the time of its commit', async () => {
    const { versions, page_token: next } = await list();
    assert.deepEqual([numbers({ versions }), next], [[4, 3, 2, 1], undefined]);
    const native = await (await stored()).listVersions();
    for (const { version, timestamp_millis: atMs, timestamp, manifest_path: path, manifest_size: bytes } of versions) {
      assert.equal(timestamp, new Date(atMs).toISOString());
      const known = native.find((facts) => facts.version === version);
      assert.equal(atMs, new Date(known?.timestamp ?? 0).getTime(), `version ${version}`);
      assert.equal(statSync(`/${path}`).size, bytes);
    }
  });

  test('oldest first where asked for, and newest last for the LanceDB SDKs, which ask for no order', async () => {
    assert.deepEqual(numbers(await list('?descending=false')), [1, 2, 3, 4]);
    assert.deepEqual(numbers(await list('?descending=true')), [4, 3, 2, 1]);
    assert.deepEqual(numbers(await list('/')), [1, 2, 3, 4]);
    assert.deepEqual(numbers(await list('/?limit=2')), [3, 4]);
    assert.deepEqual(numbers(await list('/?descending=true')), [4, 3, 2, 1]);
  });

  test('pages are as long as asked for, and their tokens lead through all versions in either order', async () => {
    for (const [order, all] of [
      ['true', [4, 3, 2, 1]],
      ['false', [1, 2, 3, 4]],
    ] as const) {
      const pages: (readonly number[])[] = [];
      let token: string | undefined;
      do {
        const page = await list(`?descending=${order}&limit=3${token === undefined ? '' : `&page_token=${token}`}`);
        pages.push(numbers(page));
        token = page.page_token;
      } while (token !== undefined);
      assert.deepEqual(pages, [all.slice(0, 3), all.slice(3)]);
    }
    const latest = await list('?descending=true&limit=1');
    assert.deepEqual([numbers(latest), latest.page_token], [[4], '4']);
    for (const token of ['x', '-1', '1.5', '9'.repeat(16)]) {
      refused(await service.post(`/v1/table/t/version/list?page_token=${token}`), 400, 13, /page_token/);
    }
    refused(await service.post('/v1/table/t/version/list?limit=0'), 400, 13, /limit/);
    for (const limit of [-1, 0, 1.5, '2'])
      refused(await service.post('/v1/table/t/version/list', { limit }), 400, 13, /limit/);
    const inBody = { limit: 2, page_token: '4', descending: true };
    assert.deepEqual(
      numbers(succeeded(await service.post('/v1/table/t/version/list', inBody)) as unknown as Listed),
      [3, 2],
    );
    refused(await service.post('/v1/table/t/version/list?descending=maybe'), 400, 13, /descending/);
  });

  test('a branch lists its own versions, from the one it began at', async () => {
    const { versions } = await list('?branch=dev');
    assert.deepEqual(numbers({ versions }), [3, 2]);
    for (const { manifest_path: path } of versions)
      assert.match(path, /\/t\.lance\/tree\/dev\/_versions\/\d+\.manifest$/);
    assert.deepEqual(numbers(await list('?branch=main')), [4, 3, 2, 1]);
  });

  test('a version is described as it is listed, and the newest where none is named', async () => {
    const describe = async (body: object) =>
      succeeded(await service.post('/v1/table/t/version/describe', body)).version as Listed['versions'][number];
    const { versions } = await list();
    for (const listed of versions) assert.deepEqual(await describe({ version: listed.version }), listed);
    assert.deepEqual(await describe({}), versions[0]);
    assert.deepEqual(await describe({ branch: 'dev' }), (await list('?branch=dev')).versions[0]);
    refused(await service.post('/v1/table/t/version/describe', { version: 9 }), 404, 11, /no version 9/);
    refused(await service.post('/v1/table/t/version/describe', { version: 1, branch: 'dev' }), 404, 11);
  });

  test('statistics are those of the engine, and those of a branch its own', async () => {
    const stats = succeeded(await service.post('/v1/table/t/stats'));
    const { numRows, totalBytes, numIndices, fragmentStats } = await (await stored()).stats();
    assert.deepEqual(stats, {
      total_bytes: totalBytes,
      num_rows: numRows,
      num_indices: numIndices,
      fragment_stats: {
        num_fragments: fragmentStats.numFragments,
        num_small_fragments: fragmentStats.numSmallFragments,
        lengths: { ...fragmentStats.lengths },
      },
    });
    assert.deepEqual([stats.num_rows, Number(stats.total_bytes) > 0], [6, true]);
    assert.equal(succeeded(await service.post('/v1/table/t/stats', { branch: 'dev' })).num_rows, 5);
    assert.equal(succeeded(await service.get('/v1/table/t/stats')).num_rows, 6);
  });

  for (const path of ['version/list', 'version/describe', 'stats']) {
    test(`${path} tells of a table or a branch only to those that may read it (P9)`, async () => {
      const guest = await as('guest');
      succeeded(await service.post(`/v1/table/t/${path}`, undefined, guest));
      const hidden = [`/v1/table/t/${path}?branch=dev`, `/v1/table/t/${path}?branch=none`];
      for (const asked of hidden) refused(await service.post(asked, undefined, guest), 403, 15);
      const stranger = await as('stranger');
      for (const table of ['t', 'none']) {
        refused(await service.post(`/v1/table/${table}/${path}`, undefined, stranger), 403, 15);
      }
      refused(await service.post(`/v1/table/t/${path}`, undefined, { authorization: 'Bearer nobody' }), 401, 16);
    });

    test(`${path} names what is not there: a table, a branch, and of a declared table all but its versions`, async () => {
      refused(await service.post(`/v1/table/none/${path}`), 404, 4);
      refused(await service.post(`/v1/table/t/${path}?branch=none`), 404, 22);
      const ofDeclared = await service.post(`/v1/table/declared/${path}`);
      if (path === 'version/list') assert.deepEqual(succeeded(ofDeclared).versions, []);
      else refused(ofDeclared, 400, 19, /declared/);
      refused(await service.post(`/v1/table/t/${path}?branch=dev`, { branch: 'other' }), 400, 13, /branch/);
    });
  }

  test('each request has an audit record with its action, its table and its branch', async () => {
    await list('?branch=dev');
    succeeded(await service.post('/v1/table/t/stats'));
    const records = service.log.map((line) => JSON.parse(line) as Record<string, unknown>);
    const shown = ['version/list', 'stats'].map((path) => {
      const { actions, decision, table, branch, status } =
        records.findLast(({ route }) => route === `/v1/table/:id/${path}`) ?? {};
      return { actions, decision, table, branch, status };
    });
    const allowed = { decision: 'allowed', table: 't', status: 200 };
    assert.deepEqual(shown, [
      { ...allowed, actions: ['ListTableVersions'], branch: 'dev' },
      { ...allowed, actions: ['GetTableStats'], branch: 'main' },
    ]);
  });
});
