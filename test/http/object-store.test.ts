import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type S3Gateway, startS3Gateway, withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { people, stream } from './rows.ts';

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
      CHUNK_SIZE: '64KiB',
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
