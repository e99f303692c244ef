import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ErrorName, LancegateError } from '#src/kernel/errors.ts';
import type { EncodedColumn } from '#test/fixtures/column-encoder.ts';
import type { FlatFields } from '#test/fixtures/flat-writer.ts';
import {
  type Codec,
  codecFields,
  encodeBatch,
  encodeMessage,
  encodeSchema,
  field,
  schemaOf,
} from '#test/fixtures/ipc-writer.ts';
import { roomyLimits, wholeOf } from '#test/fixtures/streams.ts';

const int32 = { kind: 'int', bitWidth: 32, signed: true } as const;
const utf8 = { kind: 'utf8' } as const;
const none = new Uint8Array(0);
const limits = { ...roomyLimits, maxDecodedBytes: 1 << 20 };

interface Raw {
  readonly rows: bigint;
  readonly nodes: bigint[][];
  readonly buffers: bigint[][];
  readonly body?: Buffer;
  readonly codec?: Codec;
}

const send = (fields: Parameters<typeof schemaOf>[0], header: FlatFields, body: Buffer = Buffer.alloc(0)) =>
  wholeOf(Buffer.concat([encodeSchema(schemaOf(fields)), encodeMessage({ kind: 'batch', header, body })]), limits);

const sendRaw = (fields: Parameters<typeof schemaOf>[0], { rows, nodes, buffers, body, codec = 'none' }: Raw) =>
  send(fields, [{ int64: rows }, { structs: nodes }, { structs: buffers }, codecFields(codec)], body);

const refusal = (kind: ErrorName, why: RegExp) => (error: unknown) => {
  assert.ok(error instanceof LancegateError, String(error));
  assert.equal(error.kind, kind);
  assert.match(error.message, why);
  return true;
};

/** One int32 column of two rows, sixteen bytes of body. */
const honest: Raw = {
  rows: 2n,
  nodes: [[2n, 0n]],
  buffers: [
    [0n, 0n],
    [0n, 8n],
  ],
  body: Buffer.alloc(16),
};

describe('a batch that lies about itself is refused before the engine sees it (P1, P7)', () => {
  it('an honest one is not', async () => assert.equal((await sendRaw([field('k', int32)], honest)).rows, 2));

  const lies: readonly (readonly [string, Partial<Raw>, RegExp, ErrorName?])[] = [
    [
      'a buffer outside its body',
      {
        buffers: [
          [0n, 0n],
          [16n, 8n],
        ],
      },
      /outside its body/,
    ],
    [
      'a buffer that begins before its body',
      {
        buffers: [
          [0n, 0n],
          [-8n, 8n],
        ],
      },
      /out of range/,
    ],
    [
      'a buffer of negative length',
      {
        buffers: [
          [0n, 0n],
          [0n, -8n],
        ],
      },
      /out of range/,
    ],
    [
      'a buffer that is not aligned',
      {
        buffers: [
          [0n, 0n],
          [4n, 8n],
        ],
      },
      /not aligned/,
    ],
    [
      'a buffer too short for its rows',
      {
        buffers: [
          [0n, 0n],
          [0n, 4n],
        ],
      },
      /4 bytes where 8 are needed/,
    ],
    [
      'a buffer that is no whole number of values',
      {
        buffers: [
          [0n, 0n],
          [0n, 9n],
        ],
      },
      /does not divide/,
    ],
    ['too few buffers', { buffers: [[0n, 0n]] }, /fewer buffers/],
    [
      'too many buffers',
      {
        buffers: [
          [0n, 0n],
          [0n, 8n],
          [0n, 8n],
        ],
      },
      /more buffers/,
    ],
    ['no field node', { nodes: [] }, /fewer field nodes/],
    [
      'too many field nodes',
      {
        nodes: [
          [2n, 0n],
          [2n, 0n],
        ],
      },
      /more field nodes/,
    ],
    ['a column of other length', { nodes: [[1n, 0n]] }, /1 values where 2 belong/],
    ['more nulls than values', { nodes: [[2n, 3n]] }, /counts 3 nulls/],
    ['nulls without a bitmap', { nodes: [[2n, 1n]] }, /0 bytes where 1 are needed/],
    ['negative rows', { rows: -1n, nodes: [[-1n, 0n]] }, /out of range/],
    ['2^62 rows', { rows: 2n ** 62n, nodes: [[2n ** 62n, 0n]] }, /out of range/],
    ['2^52 rows', { rows: 2n ** 52n, nodes: [[2n ** 52n, 0n]] }, /decodes to more/, 'BodyTooLarge'],
  ];
  for (const [title, lie, why, kind = 'InvalidInput'] of lies) {
    it(title, () => assert.rejects(sendRaw([field('k', int32)], { ...honest, ...lie }), refusal(kind, why)));
  }

  it('offsets that are no whole number, on which the engine panics', async () => {
    const raw = {
      rows: 0n,
      nodes: [[0n, 0n]],
      buffers: [
        [0n, 0n],
        [0n, 4n],
        [0n, 0n],
      ],
      body: Buffer.alloc(8),
    };
    await assert.rejects(
      sendRaw([field('k', { kind: 'large_utf8' })], raw),
      refusal('InvalidInput', /does not divide/),
    );
  });
});

describe('a bomb is refused for what it claims (P7)', () => {
  const compressedBuffer = (declared: bigint, content = Buffer.alloc(8)): Raw => {
    const size = Buffer.alloc(8);
    size.writeBigInt64LE(declared);
    const body = Buffer.concat([size, content]);
    return {
      rows: 2n,
      nodes: [[2n, 0n]],
      buffers: [
        [0n, 0n],
        [0n, BigInt(body.length)],
      ],
      body,
      codec: 'zstd',
    };
  };
  for (const codec of ['lz4', 'zstd'] as const) {
    it(`512 GiB in a compressed buffer, on which the engine's process aborts (${codec})`, async () => {
      const raw = { ...compressedBuffer(549_755_813_888n), codec };
      await assert.rejects(sendRaw([field('k', int32)], raw), refusal('BodyTooLarge', /decodes to more/));
    });
  }
  it('a negative size', () =>
    assert.rejects(sendRaw([field('k', int32)], compressedBuffer(-2n)), refusal('InvalidInput', /out of range/)));
  it('many buffers that are modest each', async () => {
    const fields = Array.from({ length: 5 }, (_, i) => field(`k${i}`, int32));
    const one = compressedBuffer(300_000n);
    const raw = { ...one, nodes: fields.map(() => [2n, 0n]), buffers: fields.flatMap(() => one.buffers) };
    await assert.rejects(sendRaw(fields, raw), refusal('BodyTooLarge', /decodes to more/));
  });
  it('a size in seven bytes', async () => {
    const raw = {
      ...honest,
      buffers: [
        [0n, 0n],
        [0n, 7n],
      ],
      codec: 'lz4' as const,
    };
    await assert.rejects(sendRaw([field('k', int32)], raw), refusal('InvalidInput', /does not declare its size/));
  });
  it('2^31 rows of nothing', async () => {
    const raw = { rows: 2n ** 31n, nodes: [[2n ** 31n, 2n ** 31n]], buffers: [] };
    await assert.rejects(sendRaw([field('k', { kind: 'null' })], raw), refusal('BodyTooLarge', /decodes to more/));
    const fewer = { rows: 2n ** 21n, nodes: [[2n ** 21n, 0n]], buffers: [] };
    await assert.rejects(
      sendRaw([field('k', { kind: 'null' })], fewer),
      refusal('InvalidInput', /2097152 values in 0 bytes/),
    );
  });
  it('a million rows of nothing are the most that a request may have', async () => {
    const raw = { rows: 2n ** 20n, nodes: [[2n ** 20n, 2n ** 20n]], buffers: [] };
    assert.equal((await sendRaw([field('k', { kind: 'null' })], raw)).rows, 2 ** 20);
  });
  it('a list of a few bytes with 2^40 elements of nothing', async () => {
    const of = field('k', { kind: 'list' }, { children: [field('item', { kind: 'null' })] });
    const raw = {
      rows: 1n,
      nodes: [
        [1n, 0n],
        [2n ** 40n, 0n],
      ],
      buffers: [
        [0n, 0n],
        [0n, 8n],
      ],
      body: Buffer.alloc(8),
    };
    await assert.rejects(sendRaw([of], raw), refusal('BodyTooLarge', /decodes to more/));
  });
  it('an unknown codec', async () => {
    const { header } = encodeBatch(
      0,
      [{ length: 0, nulls: 0, buffers: [none, none], children: [] } satisfies EncodedColumn],
      'none',
    );
    const lying = [...header.slice(0, 3), { table: [{ int8: 2 }, { int8: 0 }] }];
    await assert.rejects(send([field('k', int32)], lying), refusal('InvalidInput', /codec 2 is unknown/));
  });
  it('a text column without buffers for its rows', async () => {
    const raw = {
      rows: 3n,
      nodes: [[3n, 0n]],
      buffers: [
        [0n, 0n],
        [0n, 8n],
        [0n, 0n],
      ],
      body: Buffer.alloc(8),
    };
    await assert.rejects(sendRaw([field('k', utf8)], raw), refusal('InvalidInput', /8 bytes where 16 are needed/));
  });
});
