import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people, storedRows } from './rows.ts';

describe('namespaces and the tables in them', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });
  const namespace = (path: string, route: string, body: object = {}) =>
    service.post(`/v1/namespace/${path}/${route}`, body);
  const create = async (table: string) => succeeded(await service.post(`/v1/table/${table}/create`, people([1], 'x')));

  test('a namespace needs its parent, is made once, and keeps its properties', async () => {
    refused(await namespace('a$b', 'create'), 404, 1);
    succeeded(await namespace('a', 'create', { properties: { owner: 'ann' } }));
    succeeded(await namespace('a$b', 'create'));
    refused(await namespace('a', 'create'), 409, 2);
    succeeded(await namespace('a', 'create', { mode: 'exist_ok', properties: { owner: 'bob' } }));
    assert.deepEqual(succeeded(await namespace('a', 'describe')).properties, { owner: 'ann' });
    succeeded(await namespace('a', 'create', { mode: '"Overwrite"', properties: { owner: 'bob' } }));
    assert.deepEqual(succeeded(await namespace('a', 'describe')).properties, { owner: 'bob' });
    refused(await namespace('a', 'create', { mode: 'maybe' }), 400, 13, /^mode: /);
    refused(await namespace('a', 'create', { properties: { owner: 1 } }), 400, 13, /properties/);
  });

  test('a missing or taken name is refused in one text, whichever request finds out', async () => {
    succeeded(await namespace('taken', 'create'));
    const missing = /^namespace 'missing' does not exist$/;
    for (const route of ['describe', 'drop']) refused(await namespace('missing', route), 404, 1, missing);
    refused(await service.get('/v1/namespace/missing/list'), 404, 1, missing);
    refused(await namespace('missing$inner', 'create'), 404, 1, missing);
    refused(await service.post('/v1/table/missing$t/create', people([1], 'x')), 404, 1, missing);
    for (const route of ['describe', 'drop', 'deregister']) {
      refused(await service.post(`/v1/table/missing/${route}`), 404, 4, /^table 'missing' does not exist$/);
    }
    refused(await namespace('taken', 'create'), 409, 2, /^namespace 'taken' already exists$/);
  });

  test('two that make one namespace at once: one 200, one 409; with exist_ok both 200', async () => {
    const both = (mode: string, path: string) =>
      Promise.all([1, 2].map(async () => (await namespace(path, 'create', { mode })).status));
    assert.deepEqual((await both('create', 'race')).sort(), [200, 409]);
    assert.deepEqual(await both('exist_ok', 'race_ok'), [200, 200]);
  });

  test('the root namespace is there, and stays, with all that is in it', async () => {
    succeeded(await namespace('$', 'exists'));
    refused(await namespace('$', 'create'), 409, 2);
    succeeded(await namespace('kept', 'create'));
    for (const table of ['kept', 'kept$t']) await create(table);
    for (const behavior of ['restrict', 'cascade']) {
      refused(await namespace('$', 'drop', { behavior }), 400, 13, /root namespace/);
    }
    succeeded(await namespace('$', 'exists'));
    for (const table of ['kept', 'kept$t']) succeeded(await service.post(`/v1/table/${table}/exists`));
  });

  test('what holds something is dropped by cascade only, with its files; what is not there can be skipped', async () => {
    for (const path of ['full', 'full$inner']) succeeded(await namespace(path, 'create'));
    for (const table of ['full$t', 'full$inner$t']) await create(table);
    refused(await namespace('full', 'drop'), 409, 3);
    succeeded(await namespace('full', 'drop', { mode: '"Fail"', behavior: '"Cascade"' }));
    refused(await namespace('full$inner', 'exists'), 404, 1);
    refused(await service.post('/v1/table/full$t/exists'), 404, 4);
    const left = readdirSync(service.tablesFolder, { recursive: true }).map(String);
    assert.deepEqual(
      left.filter((path) => path.startsWith('full') && path.includes('.lance')),
      [],
    );
    refused(await namespace('full', 'drop'), 404, 1);
    succeeded(await namespace('full', 'drop', { mode: 'skip' }));
  });

  test('pages of namespaces and tables hold each name once, in order', async () => {
    succeeded(await namespace('pages', 'create'));
    const names = Array.from({ length: 7 }, (_, i) => `n${i}`);
    for (const name of names) {
      succeeded(await namespace(`pages$${name}`, 'create'));
      await create(`pages$${name}`);
    }
    for (const [route, field] of [
      ['list', 'namespaces'],
      ['table/list', 'tables'],
    ] as const) {
      const found: string[] = [];
      let token: string | undefined;
      do {
        const query = `limit=3${token === undefined ? '' : `&page_token=${token}`}`;
        const page = succeeded(await service.get(`/v1/namespace/pages/${route}?${query}`));
        found.push(...(page[field] as string[]));
        token = page.page_token as string | undefined;
      } while (token !== undefined);
      assert.deepEqual(found, names);
    }
    refused(await service.get('/v1/namespace/pages/list?limit=0'), 400, 13, /^limit: /);
    refused(await service.get('/v1/namespace/nowhere/table/list'), 404, 1);
  });

  test('a table in a namespace lies in its folder, for plain LanceDB to open', async () => {
    for (const path of ['deep', 'deep$er']) succeeded(await namespace(path, 'create'));
    await create('deep$er$t');
    assert.equal((await storedRows(service, 'deep/er/t')).length, 1);
  });
});

describe('deregister and register: a table leaves the catalog and comes back, inside the storage root only (P9)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });
  const register = (table: string, location: string, more: object = {}) =>
    service.post(`/v1/table/${table}/register`, { location, ...more });

  test('the files stay, the name is free, and another name may take them', async () => {
    const { location } = succeeded(await service.post('/v1/table/first/create', people([1, 2], 'x')));
    const gone = succeeded(await service.post('/v1/table/first/deregister'));
    assert.deepEqual([gone.id, gone.location], [['first'], location]);
    refused(await service.post('/v1/table/first/describe'), 404, 4);
    assert.equal((await storedRows(service, 'first')).length, 2);
    succeeded(await register('second', String(location), { properties: { owner: 'ann' } }));
    const merged = succeeded(await service.post('/v1/table/second/merge_insert?on=id', people([2, 3], 'y')));
    assert.deepEqual([merged.num_updated_rows, merged.num_inserted_rows], [1, 1]);
    assert.deepEqual(succeeded(await service.post('/v1/table/second/describe')).properties, { owner: 'ann' });
    const again = succeeded(await service.post('/v1/table/first/create', people([9], 'z')));
    assert.notEqual(again.location, location, 'a new table never inherits files');
  });

  test('a table that plain LanceDB wrote into the root can be registered and merged into', async () => {
    const folder = await connect(join(service.tablesFolder, 'loaded'));
    await folder.createTable('raw', [{ id: 1, name: 'x' }]);
    succeeded(await register('raw', 'loaded/raw.lance'));
    assert.equal((await service.post<unknown>('/v1/table/raw/count_rows')).body, 1);
    refused(await register('raw', 'loaded/raw.lance'), 409, 5);
    refused(await register('twice', 'loaded/raw.lance'), 400, 13);
  });

  test('with overwrite the name changes hands', async () => {
    succeeded(await service.post('/v1/table/taken/create', people([1], 'x')));
    succeeded(await service.post('/v1/table/other/create', people([1, 2], 'x')));
    const { location } = succeeded(await service.post('/v1/table/other/deregister'));
    refused(await register('taken', String(location)), 409, 5);
    succeeded(await register('taken', String(location), { mode: 'Overwrite' }));
    assert.equal((await service.post<unknown>('/v1/table/taken/count_rows')).body, 2);
  });

  test('a location outside the root is refused in every disguise, and nothing is opened or said about it', async () => {
    const outside = temporaryFolder(later);
    await (await connect(outside)).createTable('foreign', [{ id: 1 }]);
    mkdirSync(service.tablesFolder, { recursive: true });
    symlinkSync(join(outside, 'foreign.lance'), join(service.tablesFolder, 'link.lance'));
    symlinkSync(outside, join(service.tablesFolder, 'linked'));
    writeFileSync(join(service.dataFolder, 'beside.lance'), '');
    const disguises = [
      join(outside, 'foreign.lance'),
      pathToFileURL(join(outside, 'foreign.lance')).href,
      join(service.tablesFolder, '..', 'beside.lance'),
      '../beside.lance',
      'a/../../beside.lance',
      'a/%2e%2e/%2e%2e/beside.lance',
      './first.lance',
      'link.lance',
      'linked/foreign.lance',
      '/etc/passwd',
      'first.lance\0',
      's3://bucket/t.lance',
      'file://host/etc/t.lance',
      '',
      '/',
      'first',
    ];
    for (const location of disguises) {
      const answer = await register('foreign', location);
      refused(answer, 400, 13);
      assert.ok(!JSON.stringify(answer.body).includes(outside));
    }
    refused(await service.post('/v1/table/foreign/exists'), 404, 4);
    assert.ok(existsSync(join(outside, 'foreign.lance')));
  });

  test('a location inside the root where nothing is, or only a declared table, is 400', async () => {
    refused(await register('nothing', 'nothing.lance'), 400, 13, /no table is stored there/);
    const { location } = succeeded(await service.post('/v1/table/promised/declare'));
    refused(await register('thief', String(location)), 400, 13);
    refused(await service.post('/v1/table/x/declare', { location: 'y.lance' }), 400, 13, /^location: /);
  });
});
