/** Bodies that are no good Arrow IPC streams: wrong formats, lies about lengths, and small things that claim to be large. */
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { tableFromIPC, tableToIPC } from 'apache-arrow';
import type { DataType, Field } from '#src/arrow/schema/schema.ts';
import { encodeColumn } from '#test/fixtures/column-encoder.ts';
import type { FlatFields } from '#test/fixtures/flat-writer.ts';
import {
  codecFields,
  encodeBatch,
  encodeMessage,
  encodeMessages,
  encodeSchema,
  encodeStream,
  endOfStream,
  field,
  fieldFields,
  schemaOf,
} from '#test/fixtures/ipc-writer.ts';

interface HostileBody {
  readonly what: string;
  readonly bytes: Buffer;
  readonly status: 400 | 413;
  readonly error: RegExp;
}

const int32: DataType = { kind: 'int', bitWidth: 32, signed: true };
const utf8: DataType = { kind: 'utf8' };
const schema = schemaOf([field('id', int32), field('text', utf8)]);
const rows = { id: [1n, 2n, 3n], text: ['a', null, 'ccc'] };

export const goodStream: Buffer = encodeStream(schema, [rows, rows]);
export const goodRows = 6;
/** Where a message of it ends: the format lets a stream end there, without the marker. Rows up to there, by bytes. */
export const goodEnds: ReadonlyMap<number, number> = new Map(
  encodeMessages(schema, [rows, rows]).map((_, i, messages) => [Buffer.concat(messages.slice(0, i + 1)).length, 3 * i]),
);

const schemaMessage = encodeSchema(schema);
const columns = schema.fields.map((of) => encodeColumn(of, rows[of.name as keyof typeof rows], new Map()));
const batch = encodeBatch(3, columns, 'none');
const batchMessage = encodeMessage({ kind: 'batch', ...batch });

/** A good schema, and then `messages`. */
const after = (...messages: readonly Buffer[]): Buffer => Buffer.concat([schemaMessage, ...messages, endOfStream]);

const body = (what: string, bytes: Buffer, error: RegExp, status: 400 | 413 = 400): HostileBody => ({
  what,
  bytes,
  error,
  status,
});

const notStreams: readonly HostileBody[] = [
  body('nothing', Buffer.alloc(0), /^the body is empty/),
  body('zero bytes', Buffer.alloc(4096), /^the body is not an Arrow IPC stream/),
  body('0xff bytes', Buffer.alloc(4096, 0xff), /^message 1: metadata of -1 bytes/),
  body('JSON', Buffer.from('{"id": 1, "text": "a"}'), /looks like JSON; rows of JSON are .* Content-Type/),
  body('an Arrow IPC file', Buffer.from(tableToIPC(tableFromIPC(goodStream), 'file')), /it is an Arrow IPC file/),
  body('CSV', Buffer.from('id,text\n1,a\n'), /looks like text; rows of CSV are .* text\/csv/),
  body('a Parquet file', Buffer.from(`PAR1${'x'.repeat(100)}PAR1`), /it looks like a Parquet file/),
  body('gzip that no header announces', gzipSync(goodStream), /it looks like gzip/),
  body('zstd that no header announces', zstdCompressSync(goodStream), /it looks like zstd/),
  body('an end marker alone', endOfStream, /^the stream ends before its schema/),
  body('a batch before the schema', Buffer.concat([batchMessage, endOfStream]), /^message 1 \(.*\): the first message/),
  body('two schemas', after(schemaMessage), /^message 2 \(schema\): a second schema/),
  body('bytes behind the end marker', Buffer.concat([goodStream, Buffer.from('more')]), /bytes follow the end marker/),
  body('a stream behind a stream', Buffer.concat([goodStream, goodStream]), /bytes follow the end marker/),
];

const prefix = (metadataBytes: number): Buffer => {
  const bytes = Buffer.alloc(8, 0xff);
  bytes.writeInt32LE(metadataBytes, 4);
  return bytes;
};

/** Sixteen values in one buffer that says something else of its size. */
function bomb(declaredBytes: bigint, codec: 'lz4' | 'zstd', content: Buffer = Buffer.alloc(16)): Buffer {
  const declared = Buffer.alloc(8);
  declared.writeBigInt64LE(declaredBytes);
  const data = Buffer.concat([declared, content]);
  const header: FlatFields = [
    { int64: 16n },
    { structs: [[16n, 0n]] },
    { structs: [[0n, 0n], [0n, BigInt(data.length)]] }, // biome-ignore format: pairs
    codecFields(codec),
  ];
  const padding = Buffer.alloc((8 - (data.length % 8)) % 8);
  const message = encodeMessage({ kind: 'batch', header, body: Buffer.concat([data, padding]) });
  return Buffer.concat([encodeSchema(schemaOf([field('id', int32)])), message, endOfStream]);
}

/** The batch with one word of its header, counted as [node or buffer, which, part], replaced. */
function lying(of: 'nodes' | 'buffers', which: number, part: 0 | 1, lie: bigint): Buffer {
  const at = of === 'nodes' ? 1 : 2;
  const { structs } = batch.header[at] as { structs: readonly (readonly bigint[])[] };
  const changed = { structs: structs.with(which, structs[which]!.with(part, lie)) };
  return after(encodeMessage({ kind: 'batch', header: batch.header.with(at, changed), body: batch.body }));
}

/** Found where values are decoded: by the engine, which does not say in which batch, or for a merge in the key column. */
const unreadableValues = /^the data of a record batch cannot be read|^key column id: malformed/;

const lies: readonly HostileBody[] = [
  body('metadata of two gigabytes', after(prefix(0x7fff_fff8)), /^message 2: its metadata is larger/, 413),
  body('metadata of a negative length', after(prefix(-8)), /^message 2: metadata of -8 bytes/),
  body('metadata that is noise', after(prefix(64), Buffer.alloc(64, 0xa5)), /^message 2: malformed metadata/),
  body(
    'a body of a petabyte',
    after(encodeMessage({ kind: 'batch', header: batch.header, bodyLength: 2 ** 50 })),
    /^message 2 \(record batch\): its body is larger/,
    413,
  ),
  body(
    'a body of a negative length',
    after(encodeMessage({ kind: 'batch', header: batch.header, bodyLength: -8 })),
    /^message 2/,
  ),
  body(
    '2^62 rows',
    after(encodeMessage({ kind: 'batch', header: batch.header.with(0, { int64: 1n << 62n }), body: batch.body })),
    /^message 2 \(record batch\)/,
  ),
  body('a column longer than its batch', lying('nodes', 0, 0, 1000n), /^message 2 \(record batch\): a column of 1000/),
  body('more nulls than values', lying('nodes', 1, 1, 4n), /^message 2 \(record batch\): .* counts 4 nulls/),
  body('a buffer outside its body', lying('buffers', 1, 1, 1n << 40n), /^message 2 \(record batch\): a buffer lies/),
  body('a buffer at a negative offset', lying('buffers', 1, 0, -8n), /^message 2 \(record batch\)/),
  body('a buffer that is too short', lying('buffers', 1, 1, 4n), /^message 2 \(record batch\): a buffer of 4 bytes/),
  ...(['lz4', 'zstd'] as const).flatMap((codec) => [
    body(`${codec} that claims a terabyte`, bomb(1n << 40n, codec), /^message 2 \(record batch\): it decodes to/, 413),
    body(`${codec} that claims 2^63 - 1 bytes`, bomb((1n << 63n) - 1n, codec), /^message 2 .*the declared size/),
    body(`${codec} that claims a negative size`, bomb(-2n, codec), /^message 2 .*the declared size/),
    body(`${codec} that is noise`, bomb(64n, codec, Buffer.alloc(64, 0x5a)), unreadableValues),
  ]),
  body('zstd that honestly claims 300 MiB', bomb(300n << 20n, 'zstd', zstdOfZeros(300)), /it decodes to more/, 413),
  body('zstd that claims 8 MiB and holds 300', bomb(8n << 20n, 'zstd', zstdOfZeros(300)), unreadableValues),
];

/** Frames of a megabyte each, one behind the other, of which a decoder makes one run of zeros. */
function zstdOfZeros(mebibytes: number): Buffer {
  const frame = zstdCompressSync(Buffer.alloc(1 << 20));
  return Buffer.concat(Array.from({ length: mebibytes }, () => frame));
}

function nested(depth: number): Field {
  let inner = field('x', int32);
  for (let level = 0; level < depth; level++) inner = field('x', { kind: 'struct' }, { children: [inner] });
  return inner;
}

/** Every level points at the same two children of the next: 2^levels columns in a few kilobytes. */
function branching(levels: number): Buffer {
  let inner: FlatFields = fieldFields(field('x', int32));
  for (let level = 0; level < levels; level++) {
    const of = [...fieldFields(field(`l${level}`, { kind: 'struct' }))];
    of[5] = { tables: [inner, inner] };
    inner = of;
  }
  return encodeMessage({ kind: 'schema', header: [{ int16: 0 }, { tables: [inner] }] });
}

const manyFields = /^the schema has more than 10000 fields$/;

const deep: readonly HostileBody[] = [
  body(
    'a schema a thousand structs deep',
    Buffer.concat([encodeSchema(schemaOf([nested(1000)])), endOfStream]),
    /x: nested more than 32 deep$/,
  ),
  body('a schema of 2^30 columns', Buffer.concat([branching(30), endOfStream]), manyFields),
  body(
    'a hundred thousand columns',
    encodeSchema(schemaOf(Array.from({ length: 100_000 }, (_, i) => field(`c${i}`, int32)))),
    manyFields,
  ),
];

/** For a service that decodes no more than 64 MiB at once. */
export const hostileBodies: readonly HostileBody[] = [...notStreams, ...lies, ...deep];
