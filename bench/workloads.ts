import {
  Field,
  FixedSizeList,
  Float32,
  Int64,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  Table,
  tableToIPC,
} from 'apache-arrow';

/** Small, seeded and good enough for data: a benchmark that runs twice sends the same bytes. */
function* noise(seed: number): Generator<number> {
  let state = seed >>> 0;
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

interface Workload {
  readonly keys: readonly number[];
  readonly floatsPerRow: number;
}

/** Rows of an int64 `id` and a `vector` of floats. */
export function vectorTable({ keys, floatsPerRow }: Workload, seed = 7): Table {
  const ids = BigInt64Array.from(keys, BigInt);
  const random = noise(seed);
  const floats = Float32Array.from({ length: keys.length * floatsPerRow }, () => random.next().value as number);
  return tableOf(ids, floats, floatsPerRow);
}

function tableOf(ids: BigInt64Array, floats: Float32Array, floatsPerRow: number): Table {
  const item = new Field('item', new Float32(), true);
  const fields = [new Field('id', new Int64(), true), new Field('vector', new FixedSizeList(floatsPerRow, item), true)];
  const vector = makeData({
    type: new FixedSizeList(floatsPerRow, item),
    length: ids.length,
    nullCount: 0,
    child: makeData({ type: new Float32(), length: floats.length, nullCount: 0, data: floats }),
  });
  const id = makeData({ type: new Int64(), length: ids.length, nullCount: 0, data: ids });
  const schema = new Schema(fields);
  const data = makeData({ type: new Struct(fields), length: ids.length, nullCount: 0, children: [id, vector] });
  return new Table(schema, [new RecordBatch(schema, data)]);
}

export const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);

/** One body in both framings: what HTTP carries, and what the engine takes in one buffer. */
export interface Body {
  readonly stream: Uint8Array;
  readonly file: Buffer;
}
export const bodyOf = (table: Table): Body => ({
  stream: tableToIPC(table, 'stream'),
  file: Buffer.from(tableToIPC(table, 'file')),
});

/** The messages of a stream of `batches` times the same batch: any size of body from little memory. */
export function* repeatedStream(batch: Table, batches: number): Generator<Uint8Array> {
  const one = tableToIPC(batch, 'stream');
  const empty = tableToIPC(new Table(batch.schema, []), 'stream');
  const endMarkerBytes = 8;
  const schemaBytes = empty.length - endMarkerBytes;
  yield one.subarray(0, schemaBytes);
  for (let i = 0; i < batches; i++) yield one.subarray(schemaBytes, one.length - endMarkerBytes);
  yield one.subarray(one.length - endMarkerBytes);
}

/** The same rows as one record batch in an IPC file: what a program has that made its table in memory. */
export function repeatedAsOneBatch(keys: readonly number[], floatsPerRow: number, times: number): Buffer {
  const one = vectorTable({ keys, floatsPerRow });
  const oneIds = one.getChild('id')?.toArray() as BigInt64Array;
  const oneFloats = one.getChild('vector')?.data[0]?.children[0]?.values as Float32Array;
  const ids = new BigInt64Array(oneIds.length * times);
  const floats = new Float32Array(oneFloats.length * times);
  for (let i = 0; i < times; i++) {
    ids.set(oneIds, i * oneIds.length);
    floats.set(oneFloats, i * oneFloats.length);
  }
  return Buffer.from(tableToIPC(tableOf(ids, floats, floatsPerRow), 'file'));
}

/** The same as one IPC file in one buffer with the batches of the stream. */
export function repeatedFile(batch: Table, batches: number): Buffer {
  const all = Array.from({ length: batches }, () => batch.batches).flat();
  return Buffer.from(tableToIPC(new Table(batch.schema, all), 'file'));
}

const rowsPerKeyedBatch = 200_000;

/** A stream of any number of rows with the keys 0, 1, 2, …, made while it is sent; the floats are the same in each batch. */
export function* keyedStream(rows: number, floatsPerRow: number): Generator<Uint8Array> {
  const endMarkerBytes = 8;
  for (let from = 0; from < rows; from += rowsPerKeyedBatch) {
    const keys = range(from, Math.min(rowsPerKeyedBatch, rows - from));
    const table = vectorTable({ keys, floatsPerRow });
    const schemaBytes = tableToIPC(new Table(table.schema, []), 'stream').length - endMarkerBytes;
    const stream = tableToIPC(table, 'stream');
    yield stream.subarray(from === 0 ? 0 : schemaBytes, stream.length - endMarkerBytes);
  }
  yield new Uint8Array([255, 255, 255, 255, 0, 0, 0, 0]);
}
