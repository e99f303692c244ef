import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { Float64, makeData, Table, tableFromIPC, tableToIPC, Vector } from 'apache-arrow';
import type { Schema } from '#src/arrow/schema/schema.ts';
import { sameType } from '#src/arrow/schema/schema-rules.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeColumn } from '#test/fixtures/column-encoder.ts';
import {
  type Codec,
  encodeBatch,
  encodeDictionary,
  encodeMessage,
  encodeMessages,
  encodeSchema,
  encodeStream,
  endOfStream,
  field,
  type Rows,
  schemaOf,
} from '#test/fixtures/ipc-writer.ts';
import { type HeaderFields, startTestService, type TestService } from '#test/fixtures/service.ts';
import { polarsStreams } from '#test/fixtures/streams.ts';
import { refused, succeeded } from '#test/http/checked-service.ts';
import { entriesUnder, openStored } from '#test/http/stored.ts';
import { numbersFrom, wideRows, wideSchema, wideStream } from '#test/http/wide-table.ts';

const codings: Readonly<Record<string, (bytes: Uint8Array) => Uint8Array>> = {
  identity: (bytes) => bytes,
  gzip: gzipSync,
  zstd: zstdCompressSync,
};

const joined = (...batches: readonly Rows[]): Record<string, unknown[]> =>
  Object.fromEntries(Object.keys(batches[0]!).map((name) => [name, batches.flatMap((rows) => rows[name]!)]));

/** Rows in the order of their key: a merge may store them in any. */
function ordered(rows: Record<string, readonly unknown[]>, key: string): Record<string, unknown[]> {
  const order = rows[key]!.map((_, i) => i).sort((a, b) => Number(rows[key]![a]) - Number(rows[key]![b]));
  return Object.fromEntries(Object.entries(rows).map(([name, values]) => [name, order.map((i) => values[i])]));
}

function assertSameSchema(stored: Schema, sent: Schema): void {
  const facts = ({ fields }: Schema) => fields.map(({ name, nullable, metadata }) => ({ name, nullable, metadata }));
  assert.deepEqual(facts(stored), facts(sent));
  assert.deepEqual(stored.metadata, sent.metadata);
  for (const [i, of] of stored.fields.entries()) assert.ok(sameType(of, sent.fields[i]!), of.name);
}

describe('every type comes back bit for bit, with its metadata', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    // Small, so that many batches become many chunks.
    service = await startTestService(later, { chunkBytes: 4 * 2 ** 10 });
  });

  async function create(table: string, bytes: Uint8Array, rows: number, headers: HeaderFields = {}): Promise<void> {
    const { status, body } = await service.post(`/v1/table/${table}/create`, bytes, headers);
    assert.equal(status, 200, JSON.stringify(body));
    assert.equal((await service.get(`/v1/table/${table}/count_rows`)).body, rows);
  }

  const batchings: readonly (readonly Rows[])[] = [
    [wideRows(numbersFrom(0, 40))],
    [wideRows(numbersFrom(0, 11)), wideRows([]), wideRows(numbersFrom(11, 12)), wideRows(numbersFrom(12, 40))],
  ];

  for (const codec of ['none', 'lz4', 'zstd'] as const) {
    for (const [coding, encode] of Object.entries(codings)) {
      for (const batches of batchings) {
        test(`created from ${batches.length} batches, buffers ${codec}, body ${coding}`, async () => {
          const table = `${codec}_${coding}_${batches.length}`;
          await create(table, encode(wideStream(batches, codec)), 40, { 'content-encoding': coding });
          const stored = await openStored(service.tablesFolder, table);
          assertSameSchema(await stored.schema(), wideSchema);
          assert.deepEqual(await stored.rows(), joined(...batches));
        });
      }
    }
  }

  const old = wideRows(numbersFrom(0, 12));
  const changed = [wideRows(numbersFrom(6, 10), 1), wideRows(numbersFrom(10, 20), 1)];

  for (const codec of ['none', 'lz4', 'zstd'] as const) {
    test(`updated and inserted by a merge, buffers ${codec}`, async () => {
      const table = `merged_${codec}`;
      await create(table, wideStream([old], codec), 12);
      const { status, body } = await service.post(
        `/v1/table/${table}/merge_insert?on=n`,
        zstdCompressSync(wideStream(changed, codec)),
        { 'content-encoding': 'zstd' },
      );
      assert.equal(status, 200, JSON.stringify(body));
      assert.deepEqual([body.num_updated_rows, body.num_inserted_rows, body.num_deleted_rows], [6, 8, 0]);
      const stored = await openStored(service.tablesFolder, table);
      assertSameSchema(await stored.schema(), wideSchema);
      assert.deepEqual(ordered(await stored.rows(), 'n'), joined(wideRows(numbersFrom(0, 6)), ...changed));
    });
  }

  test('made by a merge into a declared table', async () => {
    await service.post('/v1/table/promised/declare', {});
    const { status } = await service.post('/v1/table/promised/merge_insert?on=n', wideStream(changed, 'lz4'));
    assert.equal(status, 200);
    const stored = await openStored(service.tablesFolder, 'promised');
    assertSameSchema(await stored.schema(), wideSchema);
    assert.deepEqual(await stored.rows(), joined(...changed));
  });

  for (const { title, bytes, rows } of polarsStreams()) {
    test(`created and merged: ${title}`, async () => {
      const table = title.replaceAll(/\W/g, '_');
      await create(table, bytes, rows);
      const merged = await service.post(`/v1/table/${table}/merge_insert?on=id`, bytes);
      assert.deepEqual([merged.body.num_updated_rows, merged.body.num_inserted_rows], [rows, 0]);
      const stored = ordered(await (await openStored(service.tablesFolder, table)).rows(), 'n');
      assert.deepEqual(stored.id, numbersFrom(0, rows).map((n) => `key-${n}`)); // biome-ignore format: one thought
      assert.deepEqual(stored.n?.map(Number), numbersFrom(0, rows));
    });
  }

  test('every bit of a float, also those of a NaN', async () => {
    const bits = BigUint64Array.of(0x7ff8_0000_0000_0001n, 0xfff0_0000_0000_0123n, 1n << 63n, 1n, 0x7ff0n << 48n);
    const values = new Float64Array(bits.buffer);
    const table = new Table({ f: new Vector([makeData({ type: new Float64(), length: bits.length, data: values })]) });
    await create('floats', tableToIPC(table, 'stream'), bits.length);
    const [file] = await (await openStored(service.tablesFolder, 'floats')).files();
    const stored = tableFromIPC(file!).getChild('f')!.toArray() as Float64Array;
    assert.deepEqual(new BigUint64Array(stored.slice().buffer), bits);
  });
});

const words = field(
  'word',
  { kind: 'utf8' },
  { dictionary: { id: 5n, index: { bitWidth: 8, signed: true }, ordered: false } },
);
const wordSchema = schemaOf([field('n', { kind: 'int', bitWidth: 32, signed: true }), words]);

/** The values of each batch, and a dictionary that grows by a delta before each of them. */
function streamWithDeltas(first: number, texts: readonly (readonly (string | null)[])[], codec: Codec): Buffer {
  const known: unknown[] = [];
  const messages = texts.flatMap((values, i) => {
    const before = known.length;
    const dictionaries = new Map([[5n, known]]);
    const start = first + texts.slice(0, i).flat().length;
    const rows: Rows = { n: values.map((_, k) => BigInt(start + k)), word: values };
    const columns = wordSchema.fields.map((of) => encodeColumn(of, rows[of.name]!, dictionaries));
    const added = encodeColumn({ ...words, dictionary: undefined }, known.slice(before), new Map());
    const batch = encodeMessage({ kind: 'batch', ...encodeBatch(values.length, columns, codec) });
    return [encodeDictionary(5n, added, codec, i > 0), batch];
  });
  return Buffer.concat([encodeSchema(wordSchema), ...messages, endOfStream]);
}

const repeated = <Item>(items: readonly Item[], length: number): Item[] =>
  Array.from({ length }, (_, i) => items[i % items.length]!);

describe('dictionaries that grow while the stream comes', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startTestService(later, { chunkBytes: 2 ** 10 });
  });

  for (const codec of ['none', 'lz4', 'zstd'] as const) {
    test(`are stored whole in every chunk, and merged, buffers ${codec}`, async () => {
      const table = `deltas_${codec}`;
      const texts = [
        ['a', null, 'b'],
        ['c', 'a', 'd'],
        ['b', 'e', null],
      ].map((few) => repeated(few, 600));
      const created = await service.post(`/v1/table/${table}/create`, streamWithDeltas(0, texts, codec));
      assert.equal(created.status, 200, JSON.stringify(created.body));
      assert.equal((await service.get(`/v1/table/${table}/count_rows`)).body, 1800);
      const chunks = entriesUnder(join(service.tablesFolder, `${table}.lance`, 'data'));
      assert.equal(chunks.length, texts.length);
      assert.deepEqual((await (await openStored(service.tablesFolder, table)).rows()).word, texts.flat());
      const change = streamWithDeltas(1798, [['x'], ['y', 'x']], codec);
      const { body } = await service.post(`/v1/table/${table}/merge_insert?on=n`, change);
      assert.deepEqual([body.num_updated_rows, body.num_inserted_rows], [2, 1], JSON.stringify(body));
      const after = ordered(await (await openStored(service.tablesFolder, table)).rows(), 'n');
      assert.deepEqual(after.word, [...texts.flat().slice(0, 1798), 'x', 'y', 'x']);
    });
  }

  /** Each batch with a dictionary of its own. */
  const replacing = (first: number, texts: readonly (readonly (string | null)[])[], codec: Codec = 'none'): Buffer => {
    const messages = texts.flatMap((values, i) => {
      const start = first + texts.slice(0, i).flat().length;
      return encodeMessages(wordSchema, [{ n: values.map((_, k) => BigInt(start + k)), word: values }], codec).slice(1);
    });
    return Buffer.concat([encodeSchema(wordSchema), ...messages, endOfStream]);
  };

  for (const codec of ['none', 'lz4', 'zstd'] as const) {
    test(`may be replaced: each batch has its values, in a create, an insert and a merge, buffers ${codec}`, async () => {
      const table = `replaced_${codec}`;
      const texts = [
        ['a', null, 'b'],
        ['b', 'c', 'a'],
        ['d', null, 'd'],
        ['a', null, 'b'],
      ];
      succeeded(await service.post(`/v1/table/${table}/create`, replacing(0, texts, codec)));
      succeeded(await service.post(`/v1/table/${table}/insert`, replacing(12, texts, codec)));
      succeeded(
        await service.post(
          `/v1/table/${table}/merge_insert?on=n`,
          replacing(
            22,
            [
              ['b', 'a'],
              ['c', 'b'],
            ],
            codec,
          ),
        ),
      );
      const { word } = ordered(await (await openStored(service.tablesFolder, table)).rows(), 'n');
      assert.deepEqual(word, [...[...texts, ...texts].flat().slice(0, 22), 'b', 'a', 'c', 'b']);
    });
  }

  test('are refused where an index lies outside its own, or has too few bits for all values together', async () => {
    const texts = (from: number) => Array.from({ length: 60 }, (_, i) => `${from + i}`);
    const many = await service.post('/v1/table/many/create', replacing(0, [texts(0), texts(30)]));
    refused(many, 400, 13, /^message 5 \(record batch\): column word: its index type is too small/);
    const [, letters, batch] = encodeMessages(wordSchema, [{ n: [1n, 2n], word: ['a', 'b'] }]) as [
      Buffer,
      Buffer,
      Buffer,
    ];
    const shorter = encodeDictionary(5n, encodeColumn({ ...words, dictionary: undefined }, ['b'], new Map()), 'none');
    const stream = Buffer.concat([encodeSchema(wordSchema), letters, shorter, batch, endOfStream]);
    const outside = await service.post('/v1/table/outside/create', stream);
    refused(outside, 400, 13, /^message 4 \(record batch\): column word: an index lies outside its dictionary$/);
  });
});

test('dictionaries that the engine cannot join are left as they are by a compaction, and refused in one stream', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const texts = Array.from({ length: 100 }, (_, i) => `${i}`);
  const rows = (from: number) => ({ n: texts.map((_, i) => BigInt(from + i)), word: texts });
  succeeded(await service.post('/v1/table/t/create', encodeStream(wordSchema, [rows(0)])));
  succeeded(await service.post('/v1/table/t/insert', encodeStream(wordSchema, [rows(100)])));
  succeeded(await service.post('/v1/table/t/maintain'));
  assert.deepEqual((await (await openStored(service.tablesFolder, 't')).rows()).word, [...texts, ...texts]);
  const both = encodeStream(wordSchema, [rows(200), rows(300)]);
  refused(
    await service.post('/v1/table/t/insert', both),
    400,
    13,
    /^message 4 .*: column word: its index type is too small/,
  );
});

describe('a limit counts what a compressed body unfolds to (P7)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startTestService(later, { MAX_MERGE_SIZE: '64KiB' });
  });

  for (const coding of ['gzip', 'zstd']) {
    test(`${coding}: a megabyte in a kilobyte is 413 for a merge`, async () => {
      const schema = schemaOf([field('t', { kind: 'utf8' })]);
      const stream = encodeStream(schema, [{ t: ['x'.repeat(2 ** 20)] }]);
      await service.post(`/v1/table/${coding}/declare`, {});
      const body = codings[coding]!(stream);
      assert.ok(body.length < 4096);
      const merged = await service.post(`/v1/table/${coding}/merge_insert?on=t`, body, { 'content-encoding': coding });
      assert.equal(merged.status, 413);
    });

    test(`${coding}: a body that is not, or is cut off, is refused in words`, async () => {
      const whole = codings[coding]!(encodeStream(schemaOf([field('t', { kind: 'utf8' })]), [{ t: ['a'] }]));
      for (const body of [Buffer.from('not compressed'), whole.subarray(0, whole.length - 6)]) {
        const answer = await service.post('/v1/table/none/create', body, { 'content-encoding': coding });
        assert.deepEqual([answer.status, answer.body.error], [400, `the body is not valid ${coding}`]);
      }
      assert.equal((await service.post('/v1/table/none/exists', {})).status, 404);
    });
  }
});
