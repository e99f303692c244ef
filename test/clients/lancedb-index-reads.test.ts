import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Connection, Index, type Table } from '@lancedb/lancedb';
import {
  Table as ArrowTable,
  Field,
  FixedSizeList,
  Float32,
  Int32,
  List,
  makeData,
  makeVector,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly, refusal } from './connections.ts';

const rows = 300;
const dimensions = 8;

/** 300 rows that an index of every kind can be built on. */
function indexable(): ArrowTable {
  const ids = Array.from({ length: rows }, (_, i) => i);
  const floats = Float32Array.from({ length: rows * dimensions }, (_, i) => Math.sin(i));
  const type = new FixedSizeList(dimensions, new Field('item', new Float32(), true));
  const child = makeData({ type: new Float32(), data: floats, length: floats.length });
  const vector = makeVector(makeData({ type, child, length: rows }));
  return new ArrowTable({
    id: vectorFromArray(ids, new Int32()),
    group: vectorFromArray(
      ids.map((i) => i % 3),
      new Int32(),
    ),
    labels: vectorFromArray(
      ids.map((i) => [`l${i % 4}`]),
      new List(new Field('item', new Utf8(), true)),
    ),
    text: vectorFromArray(
      ids.map((i) => `word${i % 7} and more`),
      new Utf8(),
    ),
    vector,
  });
}

describe('indexes through the LanceDB SDK are those that plain LanceDB sees', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  let table: Table;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service, 'lancegate:read', 'lancegate:write');
    table = await database.createTable('t', indexable());
    const direct = await openDirectly(service, 't');
    await direct.createIndex('id', { config: Index.btree() });
    await direct.createIndex('group', { config: Index.bitmap() });
    await direct.createIndex('labels', { config: Index.labelList(), name: 'odd/näme' });
    await direct.createIndex('text', { config: Index.fts() });
    await direct.createIndex('vector', { config: Index.ivfFlat({ numPartitions: 1, distanceType: 'cosine' }) });
  });
  const facts = async (of: Table) =>
    (await of.listIndices())
      .map(({ name, columns, indexType, numIndexedRows, numUnindexedRows }) => ({
        ...{ name, columns, numIndexedRows, numUnindexedRows },
        type: indexType.replaceAll('_', '').toLowerCase(),
      }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));

  test('listIndices', async () => {
    const listed = await facts(table);
    assert.equal(listed.length, 5);
    assert.deepEqual(listed, await facts(await openDirectly(service, 't')));
  });

  test('indexStats of each kind, and none of a name without an index', async () => {
    const direct = await openDirectly(service, 't');
    for (const { name } of await direct.listIndices()) {
      assert.deepEqual({ ...(await table.indexStats(name)) }, { ...(await direct.indexStats(name)) }, name);
    }
    assert.equal(await table.indexStats('none'), undefined);
  });

  test('rows that came later are counted as not indexed, and an earlier version has what it had', async () => {
    const source = indexable()
      .slice(0, 2)
      .assign(new ArrowTable({ id: vectorFromArray([900, 901], new Int32()) }));
    await table.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(source);
    assert.equal((await table.indexStats('id_idx'))?.numUnindexedRows, 2);
    const early = await database.openTable('t');
    await early.checkout(1);
    assert.deepEqual(await early.listIndices(), []);
    assert.equal(await early.indexStats('id_idx'), undefined);
  });

  test('prewarmIndex of each kind', async () => {
    for (const { name } of await table.listIndices()) await table.prewarmIndex(name);
    await assert.rejects(table.prewarmIndex('none'), refusal(/none/));
  });
});
