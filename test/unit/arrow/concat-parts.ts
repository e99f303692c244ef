/** Sources to be joined, what must come out, and batches that no honest writer would send. */
import assert from 'node:assert/strict';
import { canConcat, concatRows, type RowsOf } from '#src/arrow/column/concat-rows.ts';
import type { DataType, Field, IpcChunk, Schema } from '#src/arrow/schema/schema.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import type { EncodedColumn } from '#test/fixtures/column-encoder.ts';
import {
  type Codec,
  encodeBatch,
  encodeMessage,
  encodeSchema,
  encodeStream,
  endOfStream,
  field,
  type Rows,
  schemaOf,
} from '#test/fixtures/ipc-writer.ts';
import { type TypeCase, typeCases, wholeOf } from '#test/fixtures/streams.ts';
import type { Random } from '#test/model/random.ts';

export const utf8: DataType = { kind: 'utf8' };
const bool: DataType = { kind: 'bool' };
export const int32: DataType = { kind: 'int', bitWidth: 32, signed: true };
export const int64: DataType = { kind: 'int', bitWidth: 64, signed: true };
export const codecs = ['none', 'lz4', 'zstd'] as const;

const isPlain = (of: Field): boolean => of.dictionary === undefined && of.children.every(isPlain);
export const struct = (name: string, children: readonly Field[]): Field =>
  field(name, { kind: 'struct' }, { children });
export const list = (name: string, item: Field): Field => field(name, { kind: 'list' }, { children: [item] });

export const deepCases: readonly TypeCase[] = [
  {
    field: list('k', struct('item', [field('n', { kind: 'null' }), field('b', bool)])),
    values: [[{ n: null, b: true }, null], [], null],
  },
  {
    field: list('k', struct('item', [field('b', bool), list('l', field('item', utf8))])),
    values: [[{ b: true, l: ['x', null] }, null], [], null, [{ b: null, l: null }]],
  },
  {
    field: field('k', { kind: 'large_list' }, { children: [list('item', field('item', bool))] }),
    values: [[[true, false, null], []], null, [null, [true]], []],
  },
  {
    field: field(
      'k',
      { kind: 'fixed_size_list', listSize: 3 },
      { children: [struct('item', [field('b', bool), field('t', utf8)])] },
    ),
    values: [[{ b: true, t: 'a' }, { b: false, t: null }, null], null, [null, null, { b: null, t: 'long text' }]],
  },
  {
    field: field(
      'k',
      { kind: 'map' },
      {
        children: [
          { ...struct('entries', [field('key', utf8, { nullable: false }), field('value', int32)]), nullable: false },
        ],
      },
    ),
    values: [
      [{ key: 'a', value: 1n }],
      [],
      null,
      [
        { key: 'b', value: null },
        { key: '', value: 3n },
      ],
    ],
  },
];

export const plainCases: readonly TypeCase[] = [...typeCases.filter((type) => isPlain(type.field)), ...deepCases];

export const chunkOf = (schema: Schema, batches: readonly Rows[], codec: Codec = 'none'): Promise<IpcChunk> =>
  wholeOf(encodeStream(schema, batches, codec));

function randomMask(random: Random, rows: number): Uint8Array | undefined {
  const percent = random.pick([undefined, undefined, 0, 10, 50, 95, 100]);
  return percent === undefined ? undefined : Uint8Array.from({ length: rows }, () => Number(random.chance(percent)));
}

/** Up to four parts of up to three batches, some of them empty, each part in a codec of its own. */
export async function randomParts(random: Random, schema: Schema, cases: readonly TypeCase[]): Promise<RowsOf[]> {
  const batch = (): Rows => {
    const rows = random.pick([0, 1, 7, 8, 20, 65]);
    const column = ({ values }: TypeCase) => {
      const allowed = random.chance(30) ? values.filter((value) => value !== null) : values;
      return Array.from({ length: rows }, () => random.pick(allowed.length === 0 ? values : allowed));
    };
    return Object.fromEntries(schema.fields.map(({ name }, i) => [name, column(cases[i]!)]));
  };
  const parts: RowsOf[] = [];
  for (let left = 1 + random.int(4); left > 0; left--) {
    const chunk = await chunkOf(schema, Array.from({ length: random.int(4) }, batch), random.pick(codecs));
    parts.push({ chunk, keep: randomMask(random, chunk.rows) });
  }
  return parts;
}

export function expectedRows(parts: readonly RowsOf[]): Record<string, unknown[]> {
  const columns: Record<string, unknown[]> = {};
  for (const { chunk, keep } of parts) {
    for (const [name, values] of Object.entries(decodeFile(chunk.file))) {
      const kept = values.filter((_, row) => keep === undefined || keep[row] === 1);
      columns[name] = [...(columns[name] ?? []), ...kept];
    }
  }
  return columns;
}

/** The structural check of client streams passes what was made, and counts the same. */
export async function assertSound(made: IpcChunk): Promise<void> {
  const [block] = made.batches;
  assert.ok(block !== undefined && made.batches.length === 1);
  const messages = made.file.subarray(8, block.offset + block.metaLength + block.bodyLength);
  const { rows, decodedBytes, file } = await wholeOf(Buffer.concat([messages, endOfStream]));
  assert.deepEqual({ rows, decodedBytes }, { rows: made.rows, decodedBytes: made.decodedBytes });
  assert.ok(file.equals(made.file));
}

export async function assertConcat(parts: readonly RowsOf[]): Promise<IpcChunk> {
  assert.equal(canConcat(parts.map(({ chunk }) => chunk)), true);
  const made = concatRows(parts);
  await assertSound(made);
  assert.deepEqual(decodeFile(made.file), expectedRows(parts));
  return made;
}

export const wide = (cases: readonly TypeCase[]): Schema =>
  schemaOf(
    cases.map(({ field: of }, i) => ({ ...of, name: `c${i}`, metadata: new Map([['unit', `of ${i}`]]) })),
    { origin: 'lancegate' },
  );

/** A stream of one batch whose columns are as given, true or not. */
export const streamOf = (
  schema: Schema,
  rows: number,
  columns: readonly EncodedColumn[],
  codec: Codec = 'none',
): Buffer => {
  const { header, body } = encodeBatch(rows, columns, codec);
  return Buffer.concat([encodeSchema(schema), encodeMessage({ kind: 'batch', header, body }), endOfStream]);
};

export const words = (...values: number[]): Buffer => Buffer.from(Int32Array.from(values).buffer);
export const longs = (...values: bigint[]): Buffer => Buffer.from(BigInt64Array.from(values).buffer);
export const none = Buffer.alloc(0);
export const column = (length: number, buffers: readonly Uint8Array[], children: readonly EncodedColumn[] = []) => ({
  length,
  nulls: 0,
  buffers,
  children,
});
