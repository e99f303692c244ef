import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Connection, Index, type Table } from '@lancedb/lancedb';
import * as arrow from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly } from './connections.ts';

const vector = new arrow.FixedSizeList(8, new arrow.Field('item', new arrow.Float32(), true));
const tags = new arrow.List(new arrow.Field('item', new arrow.Utf8(), true));
const schema = new arrow.Schema([
  new arrow.Field('id', new arrow.Int32()),
  new arrow.Field('text', new arrow.Utf8(), true),
  new arrow.Field('tags', tags, true),
  new arrow.Field('vector', vector, true),
]);

const rows = Array.from({ length: 300 }, (_, id) => ({
  id,
  text: `document ${id} of cats`,
  tags: [`tag ${id % 3}`],
  vector: Array.from({ length: 8 }, (_, at) => Math.sin(id * 8 + at)),
}));

describe('the LanceDB SDK makes every index through the service that it makes on the storage', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  let documents: Table;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service, 'lancegate:write');
    documents = await database.createTable('documents', rows, { schema });
  });

  const indexes: Readonly<Record<string, readonly [column: string, index: Index, stored: string]>> = {
    btree: ['id', Index.btree(), 'BTree'],
    bitmap: ['id', Index.bitmap(), 'Bitmap'],
    labelList: ['tags', Index.labelList(), 'LabelList'],
    fm: ['text', Index.fm(), 'Fm'],
    fts: ['text', Index.fts({ withPosition: true, stem: false, customStopWords: ['of'] }), 'FTS'],
    ivfFlat: ['vector', Index.ivfFlat({ numPartitions: 2, distanceType: 'cosine' }), 'IvfFlat'],
    ivfPq: ['vector', Index.ivfPq({ numPartitions: 2, numSubVectors: 4, numBits: 4 }), 'IvfPq'],
    ivfRq: ['vector', Index.ivfRq({ numPartitions: 2 }), 'IvfRq'],
    hnswSq: ['vector', Index.hnswSq({ m: 8, efConstruction: 50 }), 'IvfHnswSq'],
  };
  for (const [name, [column, config, stored]] of Object.entries(indexes)) {
    test(`createIndex: ${name}, and dropIndex`, async () => {
      await documents.createIndex(column, { config, name });
      const direct = async () => (await openDirectly(service, 'documents')).listIndices();
      const [found, ...others] = await direct();
      assert.deepEqual([found?.name, found?.indexType, found?.columns, others], [name, stored, [column], []]);
      assert.deepEqual([found?.numIndexedRows, found?.numUnindexedRows], [300, 0]);
      await documents.dropIndex(name);
      assert.deepEqual(await direct(), []);
    });
  }

  test('createIndex without replace: refused at once where there is one, with the reason', async () => {
    await documents.createIndex('id', { config: Index.btree() });
    const again = documents.createIndex('id', { config: Index.btree(), replace: false });
    await assert.rejects(again, /already has an index id_idx/);
    await documents.createIndex('id', { config: Index.btree() });
    await documents.dropIndex('id_idx');
  });

  test('dropIndex of none says so', async () => {
    await assert.rejects(documents.dropIndex('none'), /none/);
  });
});
