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

it('files with dictionaries of their own are joined into one whose dictionaries have the values of all', async () => {
  const encoded = (name: string, id: bigint) =>
    field(name, { kind: 'utf8' }, { dictionary: { id, index: { bitWidth: 8, signed: true }, ordered: false } });
  const schema = schemaOf([encoded('a', 0n), field('s', { kind: 'struct' }, { children: [encoded('b', 1n)] })]);
  const fileOf = async (a: readonly (string | null)[]) =>
    (await wholeOf(encodeStream(schema, [{ a, s: a.map((b) => (b === null ? null : { b })) }]))).file;
  const numbered = (from: number) => Array.from({ length: 100 }, (_, i) => `text ${from + i}`);
  const [first, second] = [
    ['x', null, 'y'],
    ['z', 'x', null],
  ];
  assert.deepEqual(decodeFile(joinFiles([await fileOf(first), await fileOf(second)])), {
    a: [...first, ...second],
    s: [...first, ...second].map((b) => (b === null ? null : { b })),
  });
  const full = [await fileOf(numbered(0)), await fileOf(numbered(100))];
  assert.throws(() => joinFiles(full), /too many rows at once for a table with dictionary columns/);
});
