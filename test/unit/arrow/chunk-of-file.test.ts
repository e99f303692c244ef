import assert from 'node:assert/strict';
import { it } from 'node:test';
import { concatRows } from '#src/arrow/column/concat-rows.ts';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import { chunkOfFile, joinFiles } from '#src/arrow/stream/ipc-chunks.ts';
import { readKeys } from '#src/keys/key-columns.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import { field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { openNativeLance } from '#test/fixtures/native-lance.ts';
import { chunkOf, int64, utf8 } from '#test/unit/arrow/concat-parts.ts';

it('keys can be read from files that the engine returned, of one batch and of several', async (t) => {
  const lance = await openNativeLance();
  t.after(() => lance.remove());
  const schema = schemaOf([field('v', utf8), field('id', int64)]);
  const ids = Array.from({ length: 50 }, (_, i) => BigInt(i * i));
  const table = await lance.create((await chunkOf(schema, [{ v: ids.map(String), id: ids }])).file);
  const files = await table.files(20);
  const keysOf = (file: Uint8Array) => {
    const keys = readKeys(chunkOfFile(file as IpcFile), [parseFieldPath('id')]);
    return Array.from({ length: keys.rows }, (_, row) => keys.show(row));
  };
  assert.equal(files.length, 3);
  assert.deepEqual(files.flatMap(keysOf), ids.map(String));
  const joined = chunkOfFile(joinFiles(files as IpcFile[]));
  assert.equal(joined.batches.length, 3);
  assert.deepEqual(keysOf(joined.file), ids.map(String));
  assert.deepEqual(
    joined.schema.fields.map(({ name }) => name),
    ['v', 'id'],
  );
  const again = [chunkOfFile(files[0] as IpcFile), joined].map((chunk) => ({ chunk, keep: undefined }));
  assert.deepEqual(decodeFile(concatRows(again).file).id, [...ids.slice(0, 20), ...ids]);
});
