import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type S3Gateway, startS3Gateway, withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { branchBranchesWithIndexes } from '#test/http/branched-indexes.ts';
import { succeeded } from '#test/http/checked-service.ts';
import { part, transact } from '#test/http/multipart-body.ts';
import { people, stream } from '#test/http/rows.ts';

const clients = 16;
const keysPerRound = 5;
const rounds = 3;

describe('a service whose storage root is a real S3 gateway', { skip: withoutS3Gateway ?? false }, () => {
  const after = afterSuite();
  let gateway: S3Gateway;
  let service: TestService;
  let root: string;
  before(async () => {
    gateway = await startS3Gateway(after);
    root = gateway.newRoot();
    const settings = {
      STORAGE_ROOT: root,
      STORAGE_OPTIONS: JSON.stringify(gateway.storageOptions),
      DROP_RETENTION: '0s',
      chunkBytes: 64 * 2 ** 10,
    };
    service = await startTestService(after, settings);
  });

  const rowsIn = async (name: string): Promise<{ id: number; name: string }[]> => {
    const database = await connect(root, { storageOptions: { ...gateway.storageOptions } });
    const rows = await (await database.openTable(name)).query().toArray();
    return rows.map((row) => ({ id: Number(row.id), name: String(row.name) })).sort((a, b) => a.id - b.id);
  };

  test('takes a create of many chunks, and plain LanceDB reads every row of it (P1)', async () => {
    const ids = Array.from({ length: 50_000 }, (_, id) => id);
    const { status, body } = await service.post('/v1/table/chunks/create', people(ids, 'ann'));
    assert.equal(status, 200, JSON.stringify(body));
    assert.ok(String(body.location).startsWith(root));
    const rows = await rowsIn('chunks');
    assert.deepEqual([rows.length, rows.at(-1)?.id], [50_000, 49_999]);
  });

  test('leaves one row for each key that many clients insert at once, and counts each row once (P2, P4)', async () => {
    await service.post('/v1/table/keys/create', people([], 'none'));
    let inserted = 0;
    let updated = 0;
    for (let round = 0; round < rounds; round++) {
      const ids = Array.from({ length: keysPerRound }, (_, key) => round * keysPerRound + key);
      const answers = await Promise.all(
        Array.from({ length: clients }, (_, client) =>
          service.post('/v1/table/keys/merge_insert?on=id', people(ids, `client-${client}`)),
        ),
      );
      for (const { status, body } of answers) {
        assert.equal(status, 200, JSON.stringify(body));
        inserted += Number(body.num_inserted_rows);
        updated += Number(body.num_updated_rows);
      }
    }
    const rows = await rowsIn('keys');
    assert.deepEqual(
      rows.map(({ id }) => id),
      Array.from({ length: rounds * keysPerRound }, (_, id) => id),
    );
    assert.deepEqual([inserted, inserted + updated], [rows.length, rounds * keysPerRound * clients]);
  });

  test('leaves the newest row of each key that many clients send at once, on main and a branch (P2, P4)', async () => {
    await service.post('/v1/table/newest/create', stream({ id: [], v: [] }));
    await service.post('/v1/table/newest/branches/create', { name: 'dev' });
    for (const branch of ['', '&branch=dev']) {
      const answers = await Promise.all(
        Array.from({ length: clients * rounds }, (_, at) => (at * 7) % (clients * rounds)).map((v) =>
          service.post(
            `/v1/table/newest/merge_insert?on=id&version_column=v${branch}`,
            stream({ id: [1, 2], v: [v, v] }),
          ),
        ),
      );
      const sum = (name: string) => answers.reduce((total, answer) => total + Number(succeeded(answer)[name]), 0);
      assert.equal(sum('num_inserted_rows'), 2);
      assert.equal(sum('num_updated_rows') + sum('num_stale_rows'), 2 * clients * rounds - 2);
      const query = { k: 10, filter: 'true', columns: { column_names: ['v'] } };
      const found = await service.post<{ rows: { v: number }[] }>(`/v1/table/newest/query?${branch.slice(1)}`, query, {
        accept: 'application/json',
      });
      assert.deepEqual(
        found.body.rows.map(({ v }) => v),
        [clients * rounds - 1, clients * rounds - 1],
      );
    }
  });

  test('counts by a filter, works on branches, and still has it all after a restart (P3)', async () => {
    await service.post('/v1/table/kept/create', people([1, 2], 'old'));
    await service.post('/v1/table/kept/branches/create', { name: 'dev' });
    await service.post('/v1/table/kept/merge_insert?on=id&branch=dev', people([2, 3], 'dev'));
    const filtered =
      'on=id&when_matched_update_all_filt=target.name%3D%27old%27&when_not_matched_by_source_delete=true';
    const merged = await service.post(`/v1/table/kept/merge_insert?${filtered}`, people([1], 'new'));
    assert.deepEqual([merged.body.num_updated_rows, merged.body.num_deleted_rows], [1, 1]);
    await service.restart();
    const count = async (body: object) => (await service.post<number>('/v1/table/kept/count_rows', body)).body;
    assert.equal(await count({ predicate: "name = 'new'" }), 1);
    assert.equal(await count({ predicate: "name = 'dev'", branch: 'dev' }), 2);
    assert.deepEqual(await rowsIn('kept'), [{ id: 1, name: 'new' }]);
  });

  const onS3 = async (path: string, body: object | Uint8Array = {}, headers = {}) =>
    succeeded(await service.post(`/v1/table/${path}`, body, headers));
  const namesIn = async (table: string) => (await rowsIn(table)).map(({ id, name }) => `${id}${name}`);

  test('makes one version of each write, whatever kind it is (P1, P4)', async () => {
    await onS3('kinds/create', people([1, 2, 3], 'a'));
    const ids = Array.from({ length: 20_000 }, (_, id) => id + 10);
    assert.equal((await onS3('kinds/insert', people(ids, 'many'))).version, 2);
    assert.equal((await onS3('kinds/delete', { predicate: 'id >= 10' })).version, 3);
    const updated = await onS3('kinds/update', { predicate: 'id = 2', updates: [['name', "'b'"]] });
    assert.equal(updated.version, 4);
    const several = await transact(service, 'kinds', [
      part('gone', { operation: 'delete', predicate: 'id = 1' }),
      part('new', { operation: 'merge_insert', on: 'id', source: 'rows' }),
      part('rows', people([3, 4], 'c')),
    ]);
    assert.equal(succeeded(several).version, 5);
    assert.deepEqual(await namesIn('kinds'), ['2b', '3c', '4c']);
    await onS3('kinds/add_columns', { new_columns: [{ name: 'double', expression: 'id * 2' }] });
    await onS3('kinds/create_index', { column: 'id', index_type: 'BTREE' });
    const indexes = (await onS3('kinds/index/list')).indexes as object[];
    assert.equal(indexes.length, 1);
    await onS3('kinds/insert?mode=overwrite', people([7], 'only'));
    assert.deepEqual(await namesIn('kinds'), ['7only']);
    await onS3('kinds/restore', { version: 5 });
    assert.deepEqual(await namesIn('kinds'), ['2b', '3c', '4c']);
  });

  test('upserts go on beside a compaction, and see what another program has written (P2, P11)', async () => {
    await onS3('beside/create', people([1], 'a'));
    for (let id = 2; id < 14; id++) await onS3('beside/merge_insert?on=id', people([1, id], `n${id}`));
    const database = await connect(root, { storageOptions: { ...gateway.storageOptions } });
    const external = await database.openTable('beside');
    await external.delete('id = 5');
    assert.equal((await service.post<number>('/v1/table/beside/count_rows')).body, 12);
    const merged = await onS3('beside/merge_insert?on=id', people([5, 6], 'again'));
    assert.deepEqual([merged.num_inserted_rows, merged.num_updated_rows], [1, 1]);
    assert.equal((await rowsIn('beside')).length, 13);
  });

  test('an insert of nothing new is weighed against what another program left', async () => {
    await onS3('weighed/create', people([1, 2], 'a'));
    await onS3('weighed/merge_insert?on=id', people([1], 'b'));
    const database = await connect(root, { storageOptions: { ...gateway.storageOptions } });
    await (await database.openTable('weighed')).delete('id = 2');
    const insert = 'weighed/merge_insert?on=id&when_not_matched_insert_all=true';
    const merged = await onS3(insert, people([2], 'back'));
    assert.equal(merged.num_inserted_rows, 1);
    assert.deepEqual(await namesIn('weighed'), ['1b', '2back']);
  });

  test('clones a table with its branch and its index, tags it, and leaves the clone whole when the source goes', async () => {
    await onS3('source/create', people([1, 2], 'x'));
    await onS3('source/create_index', { column: 'id', index_type: 'BTREE' });
    await onS3('source/branches/create', { name: 'dev' });
    await onS3('source/merge_insert?on=id&branch=dev', people([2, 9], 'd'));
    const { location } = await onS3('source/describe');
    const { version } = await onS3('source/describe?branch=dev');
    await onS3('source/tags/create', { tag: 'dev-1', version, branch: 'dev' });
    const again = await service.post('/v1/table/source/tags/create', { tag: 'dev-1', version, branch: 'dev' });
    assert.equal(again.status, 409);
    await onS3('main-clone/clone', { source_location: location });
    await onS3('dev-clone/clone', { source_location: location, source_tag: 'dev-1' });
    await onS3('source/tags/delete', { tag: 'dev-1' });
    await onS3('source/drop');
    const rowsOf = async (table: string) => {
      const { location: at } = await onS3(`${table}/describe`);
      const cut = String(at).lastIndexOf('/');
      const name = String(at)
        .slice(cut + 1)
        .replace(/\.lance$/, '');
      const database = await connect(String(at).slice(0, cut), { storageOptions: { ...gateway.storageOptions } });
      const rows = await (await database.openTable(name)).query().where('id > 0').toArray();
      return rows.map((row) => `${Number(row.id)}${String(row.name)}`).sort();
    };
    assert.deepEqual(await rowsOf('main-clone'), ['1x', '2x']);
    assert.deepEqual(await rowsOf('dev-clone'), ['1x', '2d', '9d']);
    await onS3('main-clone/merge_insert?on=id', people([2], 'y'));
    assert.deepEqual(await rowsOf('main-clone'), ['1x', '2y']);
  });

  test('rows that were inserted without the other columns are kept when theirs are dropped (P1)', async () => {
    await onS3('dropped/create', people([1, 2], 'old'));
    await onS3('dropped/insert', stream({ name: ['new', 'newer'] }));
    await onS3('dropped/delete', { predicate: "name = 'newer'" });
    assert.equal((await onS3('dropped/drop_columns', { columns: ['name'] })).version, 4);
    assert.equal(await onS3('dropped/count_rows', { predicate: 'id IS NULL' }), 1);
    assert.equal(await onS3('dropped/count_rows', { predicate: 'id IN (1, 2)' }), 2);
    const upserted = await onS3('dropped/merge_insert?on=id', stream({ id: [2, 3] }));
    assert.deepEqual([upserted.num_updated_rows, upserted.num_inserted_rows], [1, 1]);
  });

  test('an index is found on a branch of a branch that has it from main, after a restart too (P11)', async () => {
    await branchBranchesWithIndexes(onS3);
    await service.restart();
    for (const branch of ['b', 'c']) {
      assert.equal(await onS3('branched/count_rows', { branch, predicate: "id > 1 AND name = 'one'" }), 1);
    }
    assert.equal(await onS3('branched/count_rows', { branch: 'a' }), 3);
  });

  test('refuses what would duplicate a key, and a dropped table leaves no file behind', async () => {
    const twice = new Table({
      id: vectorFromArray([7, 7], new Int32()),
      name: vectorFromArray(['a', 'b'], new Utf8()),
    });
    await service.post('/v1/table/gone/create', people([1], 'ann'));
    const columns = { id: twice.getChild('id')!, name: twice.getChild('name')! };
    const refused = await service.post('/v1/table/gone/merge_insert?on=id', stream(columns));
    assert.equal(refused.status, 400);
    assert.deepEqual(await rowsIn('gone'), [{ id: 1, name: 'ann' }]);
    assert.equal((await service.post('/v1/table/gone/drop')).status, 200);
    const database = await connect(root, { storageOptions: { ...gateway.storageOptions } });
    assert.ok(!(await database.tableNames()).includes('gone'));
  });
});
