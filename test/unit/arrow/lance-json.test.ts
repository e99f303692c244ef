import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lanceSchemaJson, readLanceSchema } from '#src/arrow/schema/lance-json.ts';
import type { Field } from '#src/arrow/schema/schema.ts';
import { schemaOf } from '#test/fixtures/ipc-writer.ts';
import { typeCases } from '#test/fixtures/streams.ts';

const again = (of: Field) => readLanceSchema(JSON.parse(JSON.stringify(lanceSchemaJson(schemaOf([of])))), 'it');
const hasDictionary = (of: Field): boolean => of.dictionary !== undefined || of.children.some(hasDictionary);

test('a schema is read as it is shown, of every type that can be declared', () => {
  const refused = typeCases.flatMap(({ field: of }) => {
    try {
      assert.deepEqual(again(of).fields, [of]);
      return [];
    } catch (error) {
      assert.match(String(error), /cannot be declared of type/);
      return hasDictionary(of) ? [] : [of.type.kind];
    }
  });
  assert.deepEqual(new Set(refused), new Set(['null']));
});

test('metadata, which a declared column cannot have, are refused and not left out', () => {
  const [a, metadata] = [{ name: 'a', type: { type: 'int8' } }, { unit: 'm' }];
  assert.throws(() => readLanceSchema({ fields: [{ ...a, metadata }] }, 'it'), /it\.fields\[0\]: metadata/);
  assert.throws(() => readLanceSchema({ fields: [a], metadata }, 'it'), /it: metadata/);
  assert.equal(readLanceSchema({ fields: [{ ...a, metadata: {} }] }, 'it').fields.length, 1);
});

test('a column that does not say so may be NULL', () => {
  const { fields } = readLanceSchema({ fields: [{ name: 'a', type: { type: 'int8' } }] }, 'it');
  assert.deepEqual(
    fields.map(({ nullable }) => nullable),
    [true],
  );
});
