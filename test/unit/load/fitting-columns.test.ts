/** Columns of Arrow and Parquet files become what the table has, value by value and without loss, or the row is named. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  Binary,
  Bool,
  DateDay,
  Dictionary,
  Field,
  FixedSizeList,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  List,
  Null,
  Struct,
  Table,
  TimestampMicrosecond,
  TimestampMillisecond,
  tableFromIPC,
  tableToIPC,
  Utf8,
  type Vector,
  vectorFromArray,
} from 'apache-arrow';
import { asBuffer } from '#src/arrow/format/ipc-file.ts';
import { prefixBytes, readMessage } from '#src/arrow/format/message.ts';
import { readSchemaTable } from '#src/arrow/schema/read-schema.ts';
import type { Schema } from '#src/arrow/schema/schema.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { messagesOfArrow } from '#src/load/arrow-file.ts';
import { fittedTo } from '#src/load/fitting-columns.ts';
import { messagesIn, type RowMessage, streamOf } from '#src/load/row-messages.ts';

/** More than one slice of a batch. */
const manyRows = 20_000;

function schemaOf(column: Vector): Schema {
  const first = messagesIn(tableToIPC(new Table({ c: column }), 'stream'))[0]!;
  return readSchemaTable(readMessage(asBuffer(first.bytes).subarray(prefixBytes)).header);
}

/** The values of the column when it is loaded into a table that has the other one. */
async function loaded(column: Vector, into: Vector): Promise<Table> {
  const source = new Table({ before: vectorFromArray(Array.from(column, (_, i) => `row ${i}`)), c: column });
  const copies: Uint8Array[] = [];
  for await (const { bytes } of fittedTo(schemaOf(into), goneWhenPassed(source))) copies.push(Uint8Array.from(bytes));
  return tableFromIPC(streamOf(copies));
}

/** What a thread hands on takes its memory with it. */
async function* goneWhenPassed(source: Table): AsyncGenerator<RowMessage> {
  const pieces = async function* (): AsyncGenerator<Uint8Array> {
    yield tableToIPC(source, 'stream');
  };
  for await (const message of messagesOfArrow({ path: undefined, pieces })) {
    const bytes = Uint8Array.from(message.bytes);
    yield { ...message, bytes };
    bytes.fill(0xff);
  }
}

const shown = (values: Vector): readonly string[] => Array.from(values, shownValue);

function shownValue(value: unknown): string {
  if (value === null) return 'NULL';
  if (typeof value === 'object') return Array.from(value as Iterable<unknown>).join();
  return Number(value) > 1e9 ? new Date(Number(value)).toISOString().slice(0, 10) : String(value);
}

const dictionary = () => new Dictionary(new Utf8(), new Int32());
const vector = (size: number) => new FixedSizeList(size, new Field('item', new Float32(), true));
const noon = Date.UTC(2026, 10, 27, 12);

describe('columns of a file that are other than the table has them', () => {
  const cases: Readonly<Record<string, readonly [from: Vector, into: Vector]>> = {
    'a short integer in a long one': [vectorFromArray([1, null, -3], new Int32()), vectorFromArray([1n], new Int64())],
    'a long integer in a short one': [vectorFromArray([1n, null, -3n], new Int64()), vectorFromArray([1], new Int8())],
    'a whole number in an integer': [vectorFromArray([1, null, -3], new Float64()), vectorFromArray([1], new Int16())],
    'an integer in a float': [vectorFromArray([1, null, -3], new Int32()), vectorFromArray([1], new Float64())],
    'a text of a dictionary in a text': [
      vectorFromArray(['a', null, 'b', 'a'], dictionary()),
      vectorFromArray(['a'], new Utf8()),
    ],
    'a time in a coarser unit': [
      vectorFromArray([noon, null, noon + 1], new TimestampMicrosecond()),
      vectorFromArray([noon], new TimestampMillisecond()),
    ],
    'a text in a date': [vectorFromArray(['2026-11-27', null], new Utf8()), vectorFromArray([noon], new DateDay())],
    'a list in a vector': [
      vectorFromArray([[1, 2], null, [3, 4]], new List(new Field('item', new Float64(), true))),
      vectorFromArray([[1, 2]], vector(2)),
    ],
    'nothing but NULL in any type': [vectorFromArray([null, null], new Null()), vectorFromArray([1n], new Int64())],
  };
  for (const [what, [from, into]] of Object.entries(cases)) {
    test(`${what} has the table's type and the same values`, async () => {
      const table = await loaded(from, into);
      assert.equal(String(table.schema.fields[1]!.type), String(into.type));
      assert.deepEqual(
        Array.from(table.getChild('before')!),
        Array.from(from, (_, i) => `row ${i}`),
      );
      assert.deepEqual(shown(table.getChild('c')!), shown(from));
    });
  }

  test('a value that does not fit is refused with its row in the file', async () => {
    const doubles = Array.from({ length: manyRows }, (_, i) => (i === 18_000 ? 0.5 : i));
    for (const [from, into, expected] of [
      [vectorFromArray(doubles, new Float64()), vectorFromArray([1n], new Int64()), /^row 18001, column c: /],
      [vectorFromArray([1, 300], new Int32()), vectorFromArray([1], new Int8()), /^row 2, column c: /],
      [vectorFromArray(['x'], new Utf8()), vectorFromArray([1n], new Int64()), /^row 1, column c: /],
      [
        vectorFromArray([[1, 2, 3]], new List(new Field('item', new Float32(), true))),
        vectorFromArray([[1, 2]], vector(2)),
        /^row 1, column c: has 3 values/,
      ],
    ] as const) {
      await assert.rejects(
        loaded(from, into),
        (error) => error instanceof LancegateError && error.kind === 'InvalidInput' && expected.test(error.message),
      );
    }
  });

  test('what no text says the same way stays as it is, for the service to judge', async () => {
    const struct = new Struct([new Field('a', new Int32(), true)]);
    for (const [from, into] of [
      [vectorFromArray([Buffer.of(1, 2)], new Binary()), vectorFromArray(['a'], new Utf8())],
      [vectorFromArray([1], new Int32()), vectorFromArray(['a'], new Utf8())],
      [vectorFromArray(['AQI='], new Utf8()), vectorFromArray([Buffer.of(1, 2)], new Binary())],
      [vectorFromArray([{ a: 1 }], struct), vectorFromArray(['a'], new Utf8())],
      [vectorFromArray(['a'], new Utf8()), vectorFromArray(['a'], dictionary())],
    ] as const) {
      const table = await loaded(from, into);
      assert.equal(String(table.schema.fields[1]!.type), String(from.type));
    }
  });

  test('columns of any kind beside one that becomes another keep their values', async () => {
    const kept = {
      encoded: vectorFromArray(['a', null, 'b', 'a'], dictionary()),
      list: vectorFromArray([[1, 2], [], null, [3]], new List(new Field('item', new Int32(), true))),
      vector: vectorFromArray([[1, 2], null, [3, 4], [5, 6]], vector(2)),
      struct: vectorFromArray([{ a: 1 }, null, { a: null }, { a: 2 }], new Struct([new Field('a', new Int32(), true)])),
      flag: vectorFromArray([true, null, false, true], new Bool()),
      bytes: vectorFromArray([Buffer.of(1), null, Buffer.of(2, 3), Buffer.of()], new Binary()),
    };
    const source = new Table({ ...kept, c: vectorFromArray([1, 2, 3, 4], new Int32()) });
    const copies: Uint8Array[] = [];
    for await (const { bytes } of fittedTo(schemaOf(vectorFromArray([1n], new Int64())), goneWhenPassed(source)))
      copies.push(Uint8Array.from(bytes));
    const table = tableFromIPC(streamOf(copies));
    assert.equal(String(table.getChild('c')!.type), 'Int64');
    const asText = (values: Vector): string =>
      JSON.stringify(Array.from(values, (value) => value?.toJSON?.() ?? value));
    for (const [name, values] of Object.entries(kept))
      assert.equal(asText(table.getChild(name)!), asText(values), name);
  });

  test('a column of type null has a true count in each slice of a batch', async () => {
    const table = await loaded(
      vectorFromArray(new Array(manyRows).fill(null), new Null()),
      vectorFromArray([1n], new Int64()),
    );
    assert.deepEqual([table.numRows, table.getChild('c')!.nullCount], [manyRows, manyRows]);
  });
});
