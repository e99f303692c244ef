import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { joinFiles } from '#src/arrow/stream/ipc-chunks.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { openNativeLance } from '#test/fixtures/native-lance.ts';
import { wholeOf } from '#test/fixtures/streams.ts';

it('result batches of the engine are joined into one file that the engine takes back', async (t) => {
  const lance = await openNativeLance();
  t.after(() => lance.remove());
  const schema = schemaOf([field('t', { kind: 'utf8' })]);
  const rows = Array.from({ length: 50 }, (_, i) => `row ${i}`);
  const table = await lance.create((await wholeOf(encodeStream(schema, [{ t: rows }]))).file);
  const files = await table.files(20);
  assert.ok(files.length > 1);
  const joined = joinFiles(files as IpcFile[]);
  assert.deepEqual(decodeFile(joined), { t: rows });
  assert.deepEqual(await (await lance.create(joined)).rows(), { t: rows });
});
