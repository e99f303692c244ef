import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  Dictionary,
  Field,
  Int8,
  Int32,
  Schema,
  Table,
  tableFromIPC,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { FileStream, rowsOfFile } from '#src/arrow/stream/file-stream.ts';
import { wholeOf } from '#test/fixtures/streams.ts';

/** As the engine writes one: the schema at its head, too. */
const fileOf = async (table: Table): Promise<IpcFile> => (await wholeOf(tableToIPC(table, 'stream'))).file;

async function joined(tables: readonly Table[]): Promise<Table> {
  const stream = new FileStream();
  const parts: Buffer[] = [];
  for (const table of tables) parts.push(...[...stream.add(await fileOf(table))].map((part) => Buffer.from(part)));
  const whole = tableFromIPC(Buffer.concat([...parts, ...stream.end()]));
  assert.equal(stream.rows, whole.numRows);
  return whole;
}

const kinds = (values: readonly (string | null)[], index: Int8 | Int32 = new Int32(), id = 7): Table =>
  new Table({ kind: vectorFromArray(values, new Dictionary(new Utf8(), index, id)) });

const read = (parts: Iterable<Buffer>): number => [...parts].length;

describe('files as one file', () => {
  test('their batches follow one another, byte for byte', async () => {
    const of = (from: number) => new Table({ id: vectorFromArray([from, from + 1], new Int32()) });
    const whole = await joined([of(0), of(2), of(4)]);
    assert.equal(whole.batches.length, 3);
    assert.deepEqual([...whole.getChild('id')!], [0, 1, 2, 3, 4, 5]);
    assert.equal(rowsOfFile(await fileOf(of(0))), 2);
  });

  test('one without rows is a schema and no batch', async () => {
    const empty = new Table(new Schema([new Field('id', new Int32())]));
    const whole = await joined([empty]);
    assert.deepEqual([whole.numRows, whole.schema.fields.length], [0, 1]);
  });

  test('files of different schemas are refused', async () => {
    const stream = new FileStream();
    read(stream.add(await fileOf(kinds(['a']))));
    const other = new Table({ id: vectorFromArray([1], new Int32()) });
    const file = await fileOf(other);
    assert.throws(() => read(stream.add(file)), /different schemas/);
  });
});

describe('dictionaries of several files', () => {
  const values = (table: Table): unknown[] => [...table.getChild('kind')!];

  test('each batch keeps its values, NULL among them, whatever dictionaries the others have', async () => {
    const parts = [['a', 'b', null, 'a'], ['c', 'b', 'd'], ['a', 'b', null, 'a'], ['b']];
    const whole = await joined(parts.map((part) => kinds(part)));
    assert.deepEqual(values(whole), parts.flat());
    assert.match(`${whole.schema.fields[0]?.type}`, /^Dictionary/);
  });

  test('one that was there before is not there twice', async () => {
    const size = async (times: number): Promise<number> => {
      const stream = new FileStream();
      const long = 'x'.repeat(100_000);
      for (let i = 0; i < times; i++) read(stream.add(await fileOf(kinds([long]))));
      return Buffer.concat([...stream.end()]).length;
    };
    assert.ok((await size(8)) < (await size(1)) + 10_000);
  });

  test('indices that do not reach their values any more are refused', async () => {
    const stream = new FileStream();
    const add = async (from: number): Promise<void> => {
      const texts = Array.from({ length: 100 }, (_, i) => `t${from + i}`);
      read(stream.add(await fileOf(kinds(texts, new Int8()))));
    };
    await add(0);
    await assert.rejects(add(100), /column kind: its index type is too small/);
  });
});
