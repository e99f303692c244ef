/** A dropped table can be brought back. */
import assert from 'node:assert/strict';
import { cpSync, existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { ManualClock } from '../http-unit/manual-clock.ts';
import { refused, startCheckedService, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

interface Dropped {
  readonly id: readonly string[];
  readonly dropped_id: string;
}

describe('the trash', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });
  const post = (path: string, body: object = {}, headers?: Record<string, string>) =>
    service.post(`/v1/table/${path}`, body, headers);
  const create = async (id: string, rows = [1, 2], mode = 'create') =>
    succeeded(await service.post(`/v1/table/${id}/create?mode=${mode}`, people(rows, 'x')));
  const merge = (id: string, row: number, headers?: Record<string, string>) =>
    service.post(`/v1/table/${id}/merge_insert?on=id`, people([row], 'y'), headers);
  const count = async (id: string) => (await service.post(`/v1/table/${id}/count_rows`)).body as unknown;
  const trashOf = async (namespace: string) =>
    succeeded(await service.get(`/v1/namespace/${namespace}/trash/list`)).tables as readonly Dropped[];
  const folderOf = async (id: string) => fileURLToPath(String(succeeded(await post(`${id}/describe`)).location));

  test('a table comes back with its rows, versions, tags, branches and indexes, and is written to as before (P1)', async () => {
    await create('t');
    succeeded(await merge('t', 3));
    succeeded(await post('t/branches/create', { name: 'dev' }));
    succeeded(await post('t/tags/create', { tag: 'v', version: 1 }));
    succeeded(await post('t/create_scalar_index', { column: 'id', index_type: 'BTREE' }));
    const before = succeeded(await post('t/describe'));
    const folder = await folderOf('t');
    const dropped = succeeded(await post('t/drop'));
    assert.ok(Date.parse(String(dropped.kept_until)) > Date.now() + 6 * 86_400_000);
    refused(await post('t/describe'), 404, 4);
    assert.equal(existsSync(folder), false, 'programs that read the files see no table');
    const { id, location } = succeeded(await post('t/undrop'));
    assert.deepEqual([id, location], [['t'], before.location]);
    assert.deepEqual(succeeded(await post('t/describe')), before);
    assert.equal(succeeded(await post('t/describe', { tag: 'v' })).version, 1);
    assert.ok('dev' in (succeeded(await post('t/branches/list')).branches as object));
    assert.equal((succeeded(await post('t/index/list')).indexes as readonly unknown[]).length, 1);
    assert.equal(succeeded(await merge('t', 3)).num_updated_rows, 1);
    assert.equal(succeeded(await merge('t', 4)).num_inserted_rows, 1);
    assert.equal(await count('t'), 4);
    refused(await post('t/undrop'), 404, 4, /trash/);
  });

  test('the name is free at once, so an older table comes back under another one, or the newest of several', async () => {
    for (const rows of [[1], [1, 2], [1, 2, 3]]) {
      await create('again', rows);
      succeeded(await post('again/drop'));
    }
    const all = (await trashOf('$')).filter(({ id }) => id[0] === 'again');
    assert.equal(all.length, 3);
    succeeded(await post('again/undrop'));
    assert.equal(await count('again'), 3);
    const aside = join(await folderOf('again'), '../.lancegate-trash');
    const kept = readdirSync(aside);
    refused(await post('again/undrop'), 409, 5);
    assert.deepEqual(readdirSync(aside), kept, 'the files of what is not back are no table for other programs');
    assert.deepEqual(
      (await trashOf('$')).filter(({ id }) => id[0] === 'again'),
      all.slice(1),
    );
    succeeded(await post('again/undrop', { new_table_name: 'first', dropped_id: all.at(-1)?.dropped_id }));
    assert.equal(await count('first'), 1);
    assert.equal(succeeded(await merge('first', 2)).num_inserted_rows, 1);
  });

  test('a table that a create replaced is there too', async () => {
    await create('over');
    const folder = await folderOf('over');
    await create('over', [7], 'overwrite');
    assert.equal(existsSync(folder), false);
    succeeded(await post('over/undrop', { new_table_name: 'former' }));
    assert.deepEqual([await count('over'), await count('former')], [1, 2]);
  });

  test('a namespace that was dropped with all in it can be made again, and its tables come back', async () => {
    succeeded(await service.post('/v1/namespace/sales/create', {}));
    await create('sales$a');
    await create('sales$b', [1, 2, 3]);
    succeeded(await service.post('/v1/namespace/sales/drop', { behavior: 'cascade' }));
    assert.deepEqual((await trashOf('sales')).map(({ id }) => id.join('$')).toSorted(), ['sales$a', 'sales$b']);
    refused(await post('sales$a/undrop'), 404, 1);
    succeeded(await service.post('/v1/namespace/sales/create', {}));
    succeeded(await post('sales$a/undrop'));
    succeeded(await post('sales$b/undrop'));
    assert.deepEqual([await count('sales$a'), await count('sales$b')], [2, 3]);
  });

  test('a purge removes the files, of one table or of all of a name, and nothing brings them back', async () => {
    for (const rows of [[1], [1, 2], [1, 2, 3]]) {
      await create('gone', rows);
      succeeded(await post('gone/drop'));
    }
    const folder = join(await folderOf('t'), '../.lancegate-trash');
    const kept = () => readdirSync(folder).filter((name) => name.startsWith('gone'));
    assert.equal(kept().length, 3);
    const [newest] = await trashOf('$');
    const { purged } = succeeded(await post('gone/trash/purge', { dropped_id: newest?.dropped_id }));
    assert.deepEqual([purged, kept().length], [[newest?.dropped_id], 2]);
    assert.equal((succeeded(await post('gone/trash/purge')).purged as readonly string[]).length, 2);
    assert.deepEqual(kept(), []);
    refused(await post('gone/undrop'), 404, 4, /trash/);
    refused(await post('gone/trash/purge'), 404, 4, /trash/);
  });

  test('of an undrop and a purge at once one wins, and a table that came back has its files (P1)', async () => {
    for (let round = 0; round < 12; round += 1) {
      const id = `raced_${round}`;
      await create(id);
      const { dropped_id } = succeeded(await post(`${id}/drop`));
      const [purged, back] = await Promise.all([post(`${id}/trash/purge`, { dropped_id }), post(`${id}/undrop`)]);
      assert.deepEqual([purged.status, back.status].toSorted(), [200, 404]);
      if (back.status === 200) assert.equal(await count(id), 2);
    }
  });

  test('what no listing of the trash has is refused, whatever it is, and never reaches the database', async () => {
    for (const dropped_id of ['', '\0', 'x'.repeat(65), "'; drop table tables"])
      for (const operation of ['undrop', 'trash/purge'])
        refused(await post(`none/${operation}`, { dropped_id }), 400, 13, /dropped_id/);
    for (const token of ['%00', `${'9'.repeat(400)}-a`, '1-%00', '-'])
      succeeded(await service.get(`/v1/namespace/$/trash/list?page_token=${token}`));
  });

  test('files that another program has put in the place of a table are left alone, and the table stays in the trash', async () => {
    await create('taken');
    const location = String(succeeded(await post('taken/describe')).location);
    succeeded(await post('taken/drop'));
    const other = await folderOf('t');
    cpSync(other, fileURLToPath(location), { recursive: true });
    refused(await post('taken/undrop'), 400, 19, /another program has stored something/);
    assert.ok(existsSync(fileURLToPath(location)));
    rmSync(fileURLToPath(location), { recursive: true });
    succeeded(await post('taken/undrop'));
    assert.equal(await count('taken'), 2);
  });

  test('no location in the folder of dropped tables can be registered (P9)', async () => {
    await create('hidden');
    succeeded(await post('hidden/drop'));
    const folder = join(await folderOf('t'), '../.lancegate-trash');
    const name = readdirSync(folder).find((each) => each.startsWith('hidden'));
    refused(await post('mine/register', { location: `.lancegate-trash/${name}` }), 400, 13, /dropped tables/);
  });

  test('a retry with its key gets the first answer of a drop and of an undrop, and is not applied again (P6)', async () => {
    await create('keyed');
    const [drop, undrop] = [{ 'idempotency-key': 'd' }, { 'idempotency-key': 'u' }];
    const dropped = succeeded(await post('keyed/drop', {}, drop));
    const back = succeeded(await post('keyed/undrop', {}, undrop));
    assert.deepEqual(succeeded(await post('keyed/drop', {}, drop)), dropped);
    assert.deepEqual(succeeded(await post('keyed/undrop', {}, undrop)), back);
    assert.equal(await count('keyed'), 2);
  });

  test('a service that stopped between a drop and the move of its files moves them at its next start', async () => {
    const own = await startCheckedService(later);
    succeeded(await own.post('/v1/table/t/create', people([1], 'x')));
    const folder = fileURLToPath(String(succeeded(await own.post('/v1/table/t/describe')).location));
    succeeded(await own.post('/v1/table/t/drop'));
    const aside = join(folder, '../.lancegate-trash');
    const [name] = readdirSync(aside);
    assert.ok(name !== undefined);
    await own.restart(async () => {
      renameSync(join(aside, name), folder);
    });
    assert.equal(existsSync(folder), false);
    succeeded(await own.post('/v1/table/t/undrop'));
    assert.equal((await own.post('/v1/table/t/count_rows')).body as unknown, 1);
  });
});

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"archivist", action, resource in Namespace::"archive");
permit (principal == Principal::"reader", action in [Action::"ListTables", Action::"DescribeTable"], resource);
`;

test('who may not see a table does not see it in the trash, and to bring it back takes the right on both names (P9)', async (t) => {
  const service = await startUnderPolicies((clean) => t.after(clean), policies);
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });
  succeeded(await service.post('/v1/namespace/archive/create', {}));
  for (const id of ['secret', 'archive$old']) {
    succeeded(await service.post(`/v1/table/${id}/create`, people([1], 'x')));
    succeeded(await service.post(`/v1/table/${id}/drop`));
  }
  const listed = async (subject: string, namespace: string) =>
    succeeded(await service.get(`/v1/namespace/${namespace}/trash/list`, await as(subject)))
      .tables as readonly Dropped[];
  assert.deepEqual(
    (await listed('archivist', 'archive')).map(({ id }) => id),
    [['archive', 'old']],
  );
  refused(await service.get('/v1/namespace/$/trash/list', await as('archivist')), 403, 15);
  assert.equal((await listed('reader', '$')).length, 2);
  refused(await service.post('/v1/table/secret/undrop', {}, await as('reader')), 403, 15);
  refused(await service.post('/v1/table/secret/trash/purge', {}, await as('reader')), 403, 15);
  const elsewhere = { new_table_name: 'x', new_namespace_id: [] };
  refused(await service.post('/v1/table/archive$old/undrop', elsewhere, await as('archivist')), 403, 15);
  succeeded(await service.post('/v1/table/archive$old/undrop', {}, await as('archivist')));
});

test('with --drop-retention 0s the files of a dropped table go at once', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean), { DROP_RETENTION: '0s' });
  succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
  const { location } = succeeded(await service.post('/v1/table/t/describe'));
  assert.equal(succeeded(await service.post('/v1/table/t/drop')).dropped_id, undefined);
  assert.equal(existsSync(fileURLToPath(String(location))), false);
  refused(await service.post('/v1/table/t/undrop'), 404, 4, /trash/);
});

test('what was to be kept until now is purged, and what is younger stays', async (t) => {
  const clock = new ManualClock();
  clock.advance(Date.now());
  const service = await startCheckedService((clean) => t.after(clean), { DROP_RETENTION: '3m' }, clock);
  const post = async (path: string, body: object = {}) => succeeded(await service.post(`/v1/table/${path}`, body));
  for (const id of ['old', 'young']) await post(`${id}/create`, people([1], 'x'));
  const tables = join(fileURLToPath(String((await post('old/describe')).location)), '..');
  const files = () => readdirSync(join(tables, '.lancegate-trash')).map((name) => name.split('-')[0]);
  await post('old/drop');
  clock.advance(60_000);
  await post('young/drop');
  assert.deepEqual(files().toSorted(), ['old', 'young']);
  clock.advance(120_000);
  while (files().includes('old')) await new Promise(setImmediate);
  refused(await service.post('/v1/table/old/undrop'), 404, 4, /trash/);
  await post('young/undrop');
});
