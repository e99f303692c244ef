import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { Float64, Int32, Int64, Table, tableToIPC, Utf8, type Vector, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const clients = 32;
/** Of the engine without us, which gives each a hundred attempts. */
const bareClients = 12;
const roundsPerClient = 2;
const keysPerRound = 12;

/** How the number of a key looks in a table, and which columns make it. */
interface KeyKind {
  readonly name: string;
  readonly on: readonly string[];
  readonly columns: (keys: readonly number[]) => Record<string, Vector>;
}

const kinds: readonly KeyKind[] = [
  { name: 'int64', on: ['id'], columns: (keys) => ({ id: vectorFromArray(keys.map(BigInt), new Int64()) }) },
  {
    name: 'string',
    on: ['id'],
    columns: (keys) => ({
      id: vectorFromArray(
        keys.map((key) => `key-${key}`),
        new Utf8(),
      ),
    }),
  },
  {
    name: 'float64',
    on: ['id'],
    columns: (keys) => ({
      id: vectorFromArray(
        keys.map((key) => key / 8),
        new Float64(),
      ),
    }),
  },
  {
    name: 'composite',
    on: ['region', 'id'],
    columns: (keys) => ({
      region: vectorFromArray(
        keys.map((key) => `r${key % 3}`),
        new Utf8(),
      ),
      id: vectorFromArray(
        keys.map((key) => Math.floor(key / 3)),
        new Int32(),
      ),
    }),
  },
];

const batch = (kind: KeyKind, keys: readonly number[], writer: number): Table =>
  new Table({
    ...kind.columns(keys),
    writer: vectorFromArray(
      keys.map(() => writer),
      new Int32(),
    ),
  });

/** Every client sends the new keys of each round, so that every key has `clients` writers. */
const keysOfRound = (round: number): number[] =>
  Array.from({ length: keysPerRound }, (_, i) => round * keysPerRound + i);

const upsertPath = (table: string, { on }: KeyKind): string =>
  `/v1/table/${table}/merge_insert?${on.map((column) => `on=${column}`).join('&')}`;

const distinctKeys = async (folder: string, table: string, { on }: KeyKind) => {
  const opened = await (await connect(folder)).openTable(table);
  const rows = await opened
    .query()
    .select([...on])
    .toArray();
  return { rows: rows.length, keys: new Set(rows.map((row) => on.map((column) => row[column]).join('|'))).size };
};

describe('one row per key, whatever clients do at once (P2)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startTestService(later);
  });

  for (const kind of kinds) {
    for (const isIndexed of [false, true]) {
      test(`${clients} clients upsert the same new ${kind.name} keys, ${isIndexed ? 'with' : 'without'} a BTREE`, async () => {
        const table = `${kind.name}_${isIndexed}`;
        await service.post(`/v1/table/${table}/create`, tableToIPC(batch(kind, [-1], 0), 'stream'));
        if (isIndexed) {
          const direct = await (await connect(service.tablesFolder)).openTable(table);
          for (const column of kind.on) await direct.createIndex(column, { config: Index.btree() });
        }
        let inserted = 0;
        let updated = 0;
        await Promise.all(
          Array.from({ length: clients }, async (_, client) => {
            for (let round = 0; round < roundsPerClient; round++) {
              const body = tableToIPC(batch(kind, keysOfRound(round), client), 'stream');
              const answer = await service.post(upsertPath(table, kind), body);
              assert.equal(answer.status, 200, JSON.stringify(answer.body));
              inserted += Number(answer.body.num_inserted_rows);
              updated += Number(answer.body.num_updated_rows);
            }
          }),
        );
        const keys = roundsPerClient * keysPerRound;
        assert.deepEqual(await distinctKeys(service.tablesFolder, table, kind), { rows: keys + 1, keys: keys + 1 });
        assert.equal(inserted, keys, 'each key was reported as inserted exactly once (P4)');
        assert.equal(updated, (clients - 1) * keys, 'and as updated by all others (P4)');
      });
    }
  }

  test('a key that another program doubled has one row after an upsert, on a branch of a branch of an indexed table too', async () => {
    const kind = kinds[0] as KeyKind;
    await service.post('/v1/table/parent/create', tableToIPC(batch(kind, [1, 2, 3], 0), 'stream'));
    const main = await (await connect(service.tablesFolder)).openTable('parent');
    await main.createIndex('id', { config: Index.btree() });
    await service.post('/v1/table/parent/branches/create', { name: 'child' });
    await service.post('/v1/table/parent/branches/create', { name: 'grandchild', from_branch: 'child' });
    const branch = await (await main.branches()).checkout('grandchild');
    await branch.add(batch(kind, [2], 1));
    const body = tableToIPC(batch(kind, [2, 4], 2), 'stream');
    const answer = await service.post(`${upsertPath('parent', kind)}&branch=grandchild`, body);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    const { num_inserted_rows, num_updated_rows, num_deleted_rows } = answer.body;
    assert.deepEqual([num_inserted_rows, num_updated_rows, num_deleted_rows], [1, 1, 1]);
    await branch.checkoutLatest();
    const rows = await branch.query().select(['id']).toArray();
    assert.deepEqual(rows.map(({ id }) => Number(id)).sort(), [1, 2, 3, 4]);
  });

  test('the same clients on the bare engine leave duplicates: this is what the gate is for', async () => {
    const kind = kinds[0] as KeyKind;
    const folder = join(temporaryFolder(later), 'bare');
    const database = await connect(folder);
    await database.createTable('bare', batch(kind, [-1], 0));
    await Promise.all(
      Array.from({ length: bareClients }, async (_, client) => {
        const handle = await database.openTable('bare');
        for (let round = 0; round < roundsPerClient; round++) {
          const merge = handle.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll();
          await merge.execute(batch(kind, keysOfRound(round), client)).catch(() => undefined);
        }
      }),
    );
    const { rows, keys } = await distinctKeys(folder, 'bare', kind);
    assert.ok(rows > keys, `expected duplicates, found ${rows} rows for ${keys} keys`);
  });
});
