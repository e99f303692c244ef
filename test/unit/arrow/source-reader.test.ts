import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { IpcChunk } from '#src/arrow/schema/schema.ts';
import { ArrowSource, type IpcLimits } from '#src/arrow/stream/source-reader.ts';
import { type ErrorName, LancegateError } from '#src/kernel/errors.ts';
import { BodyMemory } from '#src/memory/body-memory.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import { encodeColumn } from '#test/fixtures/column-encoder.ts';
import {
  encodeDictionary,
  encodeMessage,
  encodeMessages,
  encodeSchema,
  encodeStream,
  endOfStream,
  field,
  schemaOf,
} from '#test/fixtures/ipc-writer.ts';
import { inChunks, roomyLimits, sourceFrom, wholeOf } from '#test/fixtures/streams.ts';

const utf8 = { kind: 'utf8' } as const;
const word = field('w', utf8, { dictionary: { id: 1n, index: { bitWidth: 8, signed: true }, ordered: false } });
const schema = schemaOf([field('k', utf8)]);
const rows = (from: number, count = 100) => ({ k: Array.from({ length: count }, (_, i) => `row ${from + i}`) });
const stream = encodeStream(schema, [rows(0), rows(100), rows(200)]);
const [schemaMessage, firstBatch] = encodeMessages(schema, [rows(0)]) as [Buffer, Buffer];

const refusal = (kind: ErrorName, message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof LancegateError, String(error));
  assert.equal(error.kind, kind);
  assert.match(error.message, message);
  return true;
};

const sourceOf = (bytes: Uint8Array, limits: Partial<IpcLimits> = {}, chunkBytes?: number): ArrowSource =>
  sourceFrom(inChunks(bytes, chunkBytes), { ...roomyLimits, ...limits });

async function chunksOf(source: ArrowSource): Promise<IpcChunk[]> {
  const chunks: IpcChunk[] = [];
  for await (const chunk of source.chunks()) chunks.push(chunk);
  return chunks;
}

describe('a source', () => {
  for (const chunkBytes of [1, 7, 4096, 1 << 20]) {
    it(`is the same whether it comes in chunks of ${chunkBytes} bytes or at once`, async () => {
      const chunk = await sourceOf(stream, {}, chunkBytes).whole();
      assert.deepEqual(chunk.file, (await wholeOf(stream)).file);
      assert.equal(chunk.rows, 300);
    });
  }

  it('tells its schema before its batches have come, as often as asked', async () => {
    async function* body() {
      yield schemaMessage;
      assert.fail('no batch was asked for');
    }
    const source = sourceFrom(body(), roomyLimits);
    assert.deepEqual((await source.schema()).fields, schema.fields);
    assert.deepEqual((await source.schema()).fields, schema.fields);
  });

  it('reads nothing before it is asked, and no more than a chunk ahead (P7)', async () => {
    let sent = 0;
    async function* body() {
      for (const message of encodeMessages(
        schema,
        Array.from({ length: 50 }, (_, i) => rows(i)),
      )) {
        sent += 1;
        yield message;
      }
    }
    const source = sourceFrom(body(), { ...roomyLimits, chunkBytes: 1 });
    assert.equal(sent, 0);
    const chunks = source.chunks();
    await chunks.next();
    assert.equal(sent, 2);
    await chunks.next();
    assert.equal(sent, 3);
  });

  it('comes in chunks that are files of their own and hold all rows in order', async () => {
    const chunks = await chunksOf(sourceOf(stream, { chunkBytes: 1 }));
    assert.deepEqual(
      chunks.map((chunk) => chunk.rows),
      [100, 100, 100],
    );
    assert.deepEqual(
      chunks.flatMap((chunk) => decodeFile(chunk.file).k),
      [rows(0), rows(100), rows(200)].flatMap(({ k }) => k),
    );
  });

  it('keeps a chunk as it was while the next one is read', async () => {
    const chunks = sourceOf(stream, { chunkBytes: 1 }).chunks();
    const first = (await chunks.next()).value as IpcChunk;
    const before = Buffer.from(first.file);
    for await (const _ of chunks) {
      // Only to read on.
    }
    assert.ok(first.file.equals(before));
  });

  it('ends a chunk by decoded size too, so that compression does not make chunks large (P7)', async () => {
    const same = { k: Array.from({ length: 1000 }, () => 'x'.repeat(100)) };
    const bytes = encodeStream(schema, [same, same, same], 'zstd');
    assert.equal((await chunksOf(sourceOf(bytes, { chunkBytes: 50_000 }))).length, 3);
  });

  it('of no batches is one chunk of no rows', async () => {
    for (const bytes of [encodeStream(schema, []), schemaMessage]) {
      const chunks = await chunksOf(sourceOf(bytes));
      assert.deepEqual(
        chunks.map((chunk) => chunk.rows),
        [0],
      );
      assert.equal((await sourceOf(bytes).whole()).rows, 0);
    }
  });

  it('without an end marker is accepted', async () => {
    assert.equal((await wholeOf(Buffer.concat([schemaMessage, firstBatch]))).rows, 100);
  });

  it('repeats the dictionaries in every chunk, with the deltas so far', async () => {
    const of = schemaOf([word]);
    const [start, dictionary, one] = encodeMessages(of, [{ w: ['a', 'b'] }]) as [Buffer, Buffer, Buffer];
    const three = encodeMessages(of, [{ w: ['a', 'b', 'c'] }])[2]!;
    const delta = encodeDictionary(1n, encodeColumn(field('w', utf8), ['c'], new Map()), 'none', true);
    const chunks = await chunksOf(sourceOf(Buffer.concat([start, dictionary, one, delta, three]), { chunkBytes: 1 }));
    assert.deepEqual(
      chunks.map((chunk) => decodeFile(chunk.file).w),
      [
        ['a', 'b'],
        ['a', 'b', 'c'],
      ],
    );
    assert.deepEqual(
      chunks.map((chunk) => chunk.dictionaries.length),
      [1, 2],
    );
  });

  const longBatch = Buffer.concat(Array.from({ length: 40 }, () => encodeMessages(schema, [rows(0)])[1] as Buffer));
  const longStream = Buffer.concat([schemaMessage, ...Array.from({ length: 30 }, () => longBatch)]);

  it('is refused where the memory for bodies is full, and gives back what it held (P7)', async () => {
    const memory = new BodyMemory({ maxBytes: 512 << 10, maxIdleBytes: 1 << 20 });
    const others = memory.open();
    others.charge(384 << 10);
    const source = new ArrowSource(inChunks(longStream), { limits: roomyLimits, account: memory.open() });
    await assert.rejects(source.whole(), { kind: 'SlowDown' });
    source.close();
    assert.equal(memory.heldBytes, 384 << 10);
  });

  for (const read of ['whole', 'chunks'] as const) {
    it(`counts what its data will unfold to before anything is decompressed, until it is released (P7): ${read}`, async () => {
      const zeros = schemaOf([field('zeros', { kind: 'fixed_size_binary', byteWidth: 1 << 20 })]);
      const bytes = encodeStream(zeros, [{ zeros: [Buffer.alloc(1 << 20), Buffer.alloc(1 << 20)] }], 'zstd');
      assert.ok(bytes.length < 4096);
      const memory = new BodyMemory({ maxBytes: 3 << 20, maxIdleBytes: 0 });
      const sources = [1, 2].map(
        () => new ArrowSource(inChunks(bytes), { limits: roomyLimits, account: memory.open() }),
      );
      const [first, second] = sources.map((source) => (read === 'whole' ? source.whole() : firstOf(source.chunks())));
      const chunk = await first!;
      await assert.rejects(second!, { kind: 'SlowDown' });
      assert.ok(memory.heldBytes >= 2 << 20, `${memory.heldBytes}`);
      chunk.release();
      sources[1]!.close();
      assert.equal(memory.heldBytes, 0);
    });
  }

  it('counts what reading its keys will take: rows of one bit are not cheap (P7)', async () => {
    const bits = schemaOf([field('k', { kind: 'bool' })]);
    const rows = 1 << 17;
    const bytes = encodeStream(bits, [{ k: Array.from({ length: rows }, () => true) }]);
    const memory = new BodyMemory({ maxBytes: 16 << 20, maxIdleBytes: 0 });
    const source = new ArrowSource(inChunks(bytes), { limits: roomyLimits, account: memory.open() });
    await source.whole();
    assert.ok(memory.heldBytes >= 32 * rows, `${memory.heldBytes}`);
    source.close();
    assert.equal(memory.heldBytes, 0);
  });

  it('is too large where even all of the memory would not hold it', async () => {
    const memory = new BodyMemory({ maxBytes: 128 << 10, maxIdleBytes: 0 });
    const source = new ArrowSource(inChunks(longStream), { limits: roomyLimits, account: memory.open() });
    await assert.rejects(source.whole(), { kind: 'BodyTooLarge' });
    source.close();
    assert.equal(memory.heldBytes, 0);
  });

  it('cannot be read twice', async () => {
    const source = sourceOf(stream);
    await source.whole();
    await assert.rejects(source.whole(), /read before/);
  });
});

describe('an upload that breaks off', () => {
  it('is refused with the bytes that came', async () => {
    async function* body() {
      yield stream.subarray(0, 500);
      throw new Error('ECONNRESET');
    }
    await assert.rejects(sourceFrom(body(), roomyLimits).whole(), refusal('InvalidInput', /cut off after 500 bytes/));
  });

  it('by an abort of ours fails with its reason', async () => {
    const reason = new LancegateError('TimedOut', 'too late');
    async function* body() {
      yield stream.subarray(0, 500);
      throw reason;
    }
    await assert.rejects(sourceFrom(body(), roomyLimits).whole(), (error) => error === reason);
  });

  it('is not closed by a refusal: the server answers and drains', async () => {
    let closed = false;
    const chunks = inChunks(Buffer.from('no stream at all'));
    const body = {
      [Symbol.asyncIterator]: () => ({
        next: () => chunks.next(),
        return: () => {
          closed = true;
          return chunks.return();
        },
      }),
    };
    await assert.rejects(sourceFrom(body, roomyLimits).schema());
    assert.equal(closed, false);
  });

  it('anywhere within a message is refused, naming the message', async () => {
    const ends = [schemaMessage.length, schemaMessage.length + firstBatch.length];
    const bytes = Buffer.concat([schemaMessage, firstBatch]);
    for (let length = 8; length < bytes.length; length += 1) {
      if (ends.includes(length)) continue;
      const number = length < schemaMessage.length ? 1 : 2;
      await assert.rejects(
        wholeOf(bytes.subarray(0, length)),
        refusal('InvalidInput', new RegExp(`message ${number}\\b`)),
      );
    }
  });
});

describe('a body that is no stream is refused, saying what it looks like', () => {
  const legacy = encodeSchema(schema).subarray(4);
  const bodies: readonly (readonly [string, Buffer, RegExp])[] = [
    ['nothing', Buffer.alloc(0), /the body is empty/],
    ['an end marker', endOfStream, /ends before its schema/],
    ['an IPC file', Buffer.from('ARROW1\0\0\xff\xff\xff\xff', 'latin1'), /it is an Arrow IPC file/],
    ['Parquet', Buffer.from('PAR1\x15\x04\x15\x10'), /Parquet/],
    ['gzip', Buffer.from('1f8b0800000000000003', 'hex'), /gzip.*Content-Encoding/],
    ['zstd', Buffer.from('28b52ffd0458000000', 'hex'), /zstd.*Content-Encoding/],
    ['JSON', Buffer.from('{"id": 1}'), /JSON/],
    ['short JSON', Buffer.from(' []'), /JSON/],
    ['the framing before Arrow 0.15', legacy, /before Arrow 0\.15/],
    ['CSV', Buffer.from('id,name\n1,a'), /text; rows of CSV are a body of their own, with the Content-Type text\/csv/],
    ['noise', Buffer.from([7, 0x68, 0x65, 0, 200]), /does not begin with a schema/],
    ['a few bytes', Buffer.from([255, 255, 255]), /does not begin with a schema/],
  ];
  for (const [title, body, why] of bodies) {
    it(title, () => assert.rejects(sourceOf(body).schema(), refusal('InvalidInput', why)));
  }
});

describe('a stream that is not well-formed is refused, naming the message', () => {
  const of = schemaOf([word]);
  const [start, dictionary, batch] = encodeMessages(of, [{ w: ['a', 'b'] }]) as [Buffer, Buffer, Buffer];
  const cases: readonly (readonly [string, readonly Buffer[], RegExp])[] = [
    ['bytes after its end', [schemaMessage, endOfStream, Buffer.from([0])], /bytes follow the end marker/],
    ['a batch before the schema', [firstBatch, schemaMessage], /message 1 \(record batch\): the first message must be/],
    ['a second schema', [schemaMessage, firstBatch, schemaMessage], /message 3 \(schema\): a second schema/],
    ['noise between messages', [schemaMessage, Buffer.alloc(64, 7)], /message 2: no message begins here/],
    [
      'a dictionary that comes too late',
      [start, batch, dictionary],
      /message 2 \(record batch\): dictionary 1 is used/,
    ],
    ['a dictionary of no column', [schemaMessage, dictionary], /message 2 \(dictionary batch\): no column uses/],
    ['a tensor', [schemaMessage, encodeMessage({ kind: 'tensor', header: [] })], /message 2: tensors/],
    ['old metadata', [encodeMessage({ kind: 'schema', header: [], version: 3 })], /message 1: metadata version V4/],
  ];
  for (const [title, messages, why] of cases) {
    it(title, () => assert.rejects(wholeOf(Buffer.concat(messages)), refusal('InvalidInput', why)));
  }
});

describe('a source that is too large (P7)', () => {
  it('is refused by the declared size of a message, before its body comes', async () => {
    async function* body() {
      yield schemaMessage;
      yield encodeMessage({ kind: 'batch', header: [], bodyLength: 2 ** 40 });
      assert.fail('the body was asked for');
    }
    await assert.rejects(
      sourceFrom(body(), roomyLimits).whole(),
      refusal('BodyTooLarge', /message 2 \(record batch\): its body/),
    );
  });

  it('does not cost memory that it only promises', async () => {
    const promise = encodeMessage({ kind: 'batch', header: [], bodyLength: 200 << 20 });
    const before = process.memoryUsage().arrayBuffers;
    await assert.rejects(wholeOf(Buffer.concat([schemaMessage, promise])), refusal('InvalidInput', /within its body/));
    assert.ok(process.memoryUsage().arrayBuffers - before < 16 << 20);
  });

  it('is refused as a whole, and taken in chunks', async () => {
    const limits = { maxWholeBytes: 3000, chunkBytes: 1000 };
    await assert.rejects(sourceOf(stream, limits).whole(), refusal('BodyTooLarge', /3000 bytes/));
    assert.equal((await chunksOf(sourceOf(stream, limits))).length, 3);
  });

  it('is refused by what it decodes to', async () => {
    const same = { k: Array.from({ length: 1000 }, () => 'x'.repeat(100)) };
    const bytes = encodeStream(schema, [same, same], 'zstd');
    assert.ok(bytes.length < 30_000);
    await assert.rejects(
      sourceOf(bytes, { maxDecodedBytes: 50_000 }).whole(),
      refusal('BodyTooLarge', /message 2 .*decodes to more/),
    );
    await assert.rejects(
      sourceOf(bytes, { maxDecodedBytes: 150_000 }).whole(),
      refusal('BodyTooLarge', /message 3 .*decodes to more/),
    );
    assert.equal((await chunksOf(sourceOf(bytes, { maxDecodedBytes: 150_000 })))[0]?.rows, 2000);
  });

  it('is refused by its metadata and by the sum of its dictionaries', async () => {
    await assert.rejects(sourceOf(stream, { maxMetadataBytes: 64 }).schema(), refusal('BodyTooLarge', /its metadata/));
    const words = { w: Array.from({ length: 100 }, (_, i) => `word ${i}`) };
    const bytes = encodeStream(schemaOf([word]), [words]);
    await assert.rejects(
      sourceOf(bytes, { maxMessageBytes: 1300 }).whole(),
      refusal('BodyTooLarge', /sum of the dictionaries/),
    );
  });
});

async function firstOf<Item>(items: AsyncIterable<Item>): Promise<Item> {
  for await (const item of items) return item;
  throw new Error('there is none');
}
