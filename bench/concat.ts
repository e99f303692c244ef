/** What it costs to make one source of many small ones: `node bench/concat.ts`. Times are medians, in milliseconds. */
import { readColumns } from '#src/arrow/column/column-data.ts';
import { canConcat, concatRows, type RowsOf } from '#src/arrow/column/concat-rows.ts';
import { schemaFingerprint } from '#src/arrow/schema/read-schema.ts';
import type { DataType } from '#src/arrow/schema/schema.ts';
import { type Codec, encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { wholeOf } from '#test/fixtures/streams.ts';
import { median } from './measure.ts';
import { range } from './workloads.ts';

const parts = 64;
const rowsPerPart = 100;
const floatsPerRow = 16;
const repeats = 400;

const float = (bitWidth: 32 | 64): DataType => ({ kind: 'float', bitWidth });
const schema = schemaOf([
  field('id', { kind: 'int', bitWidth: 64, signed: true }),
  field('name', { kind: 'utf8' }),
  field('vector', { kind: 'fixed_size_list', listSize: floatsPerRow }, { children: [field('item', float(32))] }),
  field('score', float(64)),
]);

function partOf(index: number, codec: Codec) {
  const ids = range(index * rowsPerPart, rowsPerPart);
  const rows = {
    id: ids.map(BigInt),
    name: ids.map((id) => `customer ${id}`.padEnd(20, '.')),
    vector: ids.map((id) => range(id, floatsPerRow)),
    score: ids.map((id) => id / 7),
  };
  return wholeOf(encodeStream(schema, [rows], codec));
}

function medianMs(run: () => unknown): string {
  const times = Array.from({ length: repeats }, () => {
    const start = performance.now();
    run();
    return performance.now() - start;
  });
  return median(times).toFixed(3);
}

async function measure(codec: Codec): Promise<void> {
  const chunks = await Promise.all(range(0, parts).map((index) => partOf(index, codec)));
  const keeping = (keep: (row: number) => boolean): RowsOf[] =>
    chunks.map((chunk) => ({ chunk, keep: Uint8Array.from({ length: chunk.rows }, (_, row) => Number(keep(row))) }));
  const nineInTen = keeping((row) => row % 10 !== 0);
  const everyOther = keeping((row) => row % 2 === 0);
  const whole = chunks.map((chunk) => ({ chunk, keep: undefined }));
  const [first] = chunks;
  console.log(codec, {
    'all rows': medianMs(() => concatRows(whole)),
    'nine rows in ten': medianMs(() => concatRows(nineInTen)),
    'every other row': medianMs(() => concatRows(everyOther)),
    'the checks alone': medianMs(() => chunks.map(readColumns)),
    canConcat: medianMs(() => canConcat(chunks)),
    'one fingerprint': medianMs(() => schemaFingerprint(first!)),
  });
}

for (const codec of ['none', 'lz4', 'zstd'] as const) await measure(codec);
