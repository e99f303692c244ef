import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Connection, Table } from '@lancedb/lancedb';
import { readSchemaOfIpcFile } from '#src/arrow/schema/read-schema.ts';
import { type Field, type Schema, typeName } from '#src/arrow/schema/schema.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { type StreamCase, streamsByType, wideStream } from '#test/fixtures/streams.ts';
import { connectByApiKey, openDirectly } from './connections.ts';

/** The schema as the SDK's native part hands it over: apache-arrow has no class for some of the types. */
async function nativeSchema(table: Table): Promise<Schema> {
  const { inner } = table as unknown as { inner: { schema(): Promise<Buffer> } };
  return readSchemaOfIpcFile(await inner.schema());
}

const shapeOf = (field: Field): unknown => [
  field.name,
  field.nullable,
  typeName(field),
  field.children.map(shapeOf),
  [...field.metadata],
];

describe('the schema that the LanceDB SDK reads over HTTP is the table’s', () => {
  const later = afterSuite();
  let service: TestService;
  let database: Connection;
  let tables = 0;
  before(async () => {
    service = await startTestService(later);
    database = await connectByApiKey(service);
  });

  const schemas = async ({ bytes }: StreamCase) => {
    const name = `types_${++tables}`;
    const created = await service.post(`/v1/table/${name}/create`, bytes);
    assert.equal(created.status, 200, JSON.stringify(created.body));
    const remote = await nativeSchema(await database.openTable(name));
    return { remote, direct: await nativeSchema(await openDirectly(service, name)) };
  };

  for (const stream of streamsByType('none')) {
    test(stream.title, async () => {
      const { remote, direct } = await schemas(stream);
      assert.deepEqual(remote.fields.map(shapeOf), direct.fields.map(shapeOf));
      assert.deepEqual(remote.fields.map(typeName), stream.schema.fields.map(typeName));
    });
  }

  test('all types side by side, with metadata on every field and on the schema', async () => {
    const { remote, direct } = await schemas(wideStream('lz4'));
    assert.deepEqual(remote.fields.map(shapeOf), direct.fields.map(shapeOf));
    assert.deepEqual([...remote.metadata], [...direct.metadata]);
    assert.equal(remote.fields[3]?.metadata.get('unit'), 'of 3');
  });
});
