/** What the LanceDB SDK for Node has and the service does not offer, on purpose. */
import type { Connection, Table } from '@lancedb/lancedb';
import type { LanceDbCase } from './lancedb-cases.ts';

const byClient = 'the SDK offers it for local tables only';
const lsm = 'the open engine has no LSM writes for a server; the service groups commits itself';
const blobs = 'the service has no blob columns yet; a binary column is read by a query';
const functions = 'computed columns need functions, which the open engine does not run on a server';
const views = 'it belongs to LanceDB Enterprise; the open engine has no such thing';

const refusedOnTable = (method: string, refused: string, ask: (table: Table) => Promise<unknown>): LanceDbCase => ({
  of: [`Table.${method}`],
  refused,
  says: /406|not supported|cannot be run on a remote|not a materialized view/i,
  act: async (side) => ask(await side.people()),
});

const refusedOnConnection = (
  method: string,
  refused: string,
  ask: (db: Connection, table: string) => Promise<unknown>,
): LanceDbCase => ({
  of: [`Connection.${method}`],
  refused,
  says: /406|not supported|not a materialized view/i,
  act: async (side) => ask(side.db, (await side.people()).name),
});

const untyped =
  (method: string) =>
  async (table: Table): Promise<unknown> =>
    (Reflect.get(table, method) as () => unknown).call(table);

export const refusedCases: readonly LanceDbCase[] = [
  refusedOnTable('optimize', byClient, (table) => table.optimize()),
  // They are not in its types.
  refusedOnTable('usesV2ManifestPaths', byClient, untyped('usesV2ManifestPaths')),
  refusedOnTable('migrateManifestPathsV2', byClient, untyped('migrateManifestPathsV2')),
  refusedOnTable('setUnenforcedPrimaryKey', byClient, (table) => table.setUnenforcedPrimaryKey('id')),
  refusedOnTable('prewarmData', 'there is no page cache of the service to warm', (table) => table.prewarmData()),
  refusedOnTable('fetchBlobs', blobs, (table) => table.fetchBlobs('name', [1])),
  refusedOnTable('fetchBlobFiles', blobs, (table) => table.fetchBlobFiles('name', [1])),
  refusedOnTable('setLsmWriteSpec', lsm, (table) => table.setLsmWriteSpec({ specType: 'unsharded' })),
  refusedOnTable('unsetLsmWriteSpec', lsm, (table) => table.unsetLsmWriteSpec()),
  refusedOnTable('getLsmWriteSpec', lsm, (table) => table.getLsmWriteSpec()),
  refusedOnTable('getLsmStats', lsm, (table) => table.getLsmStats()),
  refusedOnTable('flushLsm', lsm, (table) => table.flushLsm()),
  refusedOnTable('compactLsm', lsm, (table) => table.compactLsm()),
  refusedOnTable('checkpointLsm', lsm, (table) => table.checkpointLsm()),
  { of: ['Table.closeLsmWriters'], alone: true, act: async (side) => (await side.people()).closeLsmWriters() },
  refusedOnTable('refreshColumn', functions, (table) => table.refreshColumn('name')),
  refusedOnTable('refreshColumnAsync', functions, (table) => table.refreshColumnAsync('name')),
  refusedOnTable('refreshMaterializedView', views, (table) => table.refreshMaterializedView()),
  refusedOnConnection('createMaterializedView', views, (db, table) =>
    db.createMaterializedView(`${table}_view`, table),
  ),
  refusedOnConnection('openMaterializedView', views, (db, table) => db.openMaterializedView(table)),
  refusedOnConnection('listMaterializedViews', views, (db) => db.listMaterializedViews()),
  refusedOnConnection('dropAllTables', 'the SDK offers it for local databases only', (db) => db.dropAllTables()),
  refusedOnConnection('getStorageOptions', 'the SDK has it for itself', async (db) => {
    const options: unknown = await Reflect.apply(Reflect.get(db, 'getStorageOptions') as () => unknown, db, [{}]);
    throw new Error(`not supported: it answers ${JSON.stringify(options)}`);
  }),
  ...(['diff', 'cherryPick'] as const).map(
    (method): LanceDbCase => ({
      of: [`Branches.${method}`],
      refused: views,
      act: async (side) => {
        const branches = await (await side.people()).branches();
        await branches.create('draft');
        await branches[method]('draft');
      },
    }),
  ),
];
