import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isIndexName, plainIndexName } from '#src/engine/port/index-spec.ts';

test('every column has a default name for its index that can stand in a path, and no two have the same', () => {
  const columns = [
    'id',
    'a b',
    'n.text',
    'a/b',
    'a_b',
    'a\\b',
    '__x',
    'x',
    '__',
    'a\nb',
    'é'.repeat(200),
    'é'.repeat(201),
  ];
  const names = columns.map(plainIndexName);
  assert.deepEqual(names.slice(0, 3), ['id_idx', 'a b_idx', 'n.text_idx'], 'as the engine calls them');
  assert.deepEqual(
    names.filter((name) => !isIndexName(name)),
    [],
  );
  assert.equal(new Set(names).size, columns.length);
  for (const name of ['', '.', '..', 'a/b', '__lance', 'a\nb', 'é'.repeat(128)])
    assert.equal(isIndexName(name), false, name);
});
