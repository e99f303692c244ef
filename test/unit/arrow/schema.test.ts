import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { lanceSchemaJson } from '#src/arrow/schema/lance-json.ts';
import type { DataType, Field } from '#src/arrow/schema/schema.ts';
import { checkSourceFits, checkStorable } from '#src/arrow/schema/schema-rules.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { encodeMessage, encodeSchema, field, fieldFields, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { inChunks, sourceFrom, typeCases } from '#test/fixtures/streams.ts';

const int32: DataType = { kind: 'int', bitWidth: 32, signed: true };
const utf8: DataType = { kind: 'utf8' };
const struct = (name: string, children: readonly Field[]): Field => field(name, { kind: 'struct' }, { children });
const dictionary = { id: 0n, index: { bitWidth: 8, signed: true }, ordered: false } as const;

const schemaFrom = (message: Buffer) => sourceFrom(inChunks(message)).schema();
const read = (fields: readonly Field[]) => schemaFrom(encodeSchema(schemaOf(fields)));

const refusal = (why: RegExp) => (error: unknown) => {
  assert.ok(error instanceof LancegateError, String(error));
  assert.equal(error.kind, 'TableSchemaValidationError');
  assert.match(error.message, why);
  return true;
};

const nested = (depth: number): Field => (depth === 1 ? field('x', int32) : struct('x', [nested(depth - 1)]));

describe('a schema', () => {
  it('is read as it was written, every type and all metadata', async () => {
    const fields = typeCases.map(({ field: of }, i) => ({ ...of, name: `c${i}`, metadata: new Map([['a', `${i}`]]) }));
    for (const of of fields) assert.deepEqual((await read([of])).fields, [of]);
  });

  const refused: readonly (readonly [string, readonly Field[], RegExp])[] = [
    ['with an empty name, which the engine stores and cannot read', [field('', int32)], /empty name/],
    ['with an empty name in a struct', [struct('m', [field('', int32)])], /a field of m has an empty name/],
    ['with a name twice', [field('a', int32), field('a', utf8)], /column a appears twice/],
    [
      'with a name twice in a struct',
      [struct('m', [field('a.b', int32), field('a.b', utf8)])],
      /column m\.`a\.b` appears twice/,
    ],
    ['with a reserved name', [field('__lancegate_key_0', int32)], /__lancegate_ are reserved/],
    ['nested too deeply', [nested(33)], /nested more than 32 deep/],
    ['with too many fields', Array.from({ length: 10_001 }, (_, i) => field(`c${i}`, int32)), /more than 10000 fields/],
    [
      'with an impossible decimal',
      [field('d', { kind: 'decimal', bitWidth: 128, precision: 39, scale: 0 })],
      /precision 39/,
    ],
    ['with a fixed size of 0', [field('f', { kind: 'fixed_size_binary', byteWidth: 0 })], /fixed size of 0/],
  ];
  for (const [title, fields, why] of refused)
    it(`${title} is refused`, () => assert.rejects(read(fields), refusal(why)));

  it('nested 32 deep, or of 10,000 fields, is accepted', async () => {
    await read([nested(32)]);
    await read(Array.from({ length: 10_000 }, (_, i) => field(`c${i}`, int32)));
  });

  for (const [number, name] of [
    [14, 'union'],
    [22, 'run_end_encoded'],
    [24, 'utf8_view'],
    [99, 'number 99'],
  ] as const) {
    it(`with the type ${name} is refused by the column's path and the type's name`, async () => {
      const inner = fieldFields(field('v', utf8), number);
      const outer = fieldFields(struct('m', [])).with(5, { tables: [inner] });
      const message = encodeMessage({ kind: 'schema', header: [{ int16: 0 }, { tables: [outer] }] });
      await assert.rejects(
        schemaFrom(message),
        refusal(new RegExp(`column m\\.v: the Arrow type ${name} is not supported`)),
      );
    });
  }

  it('that points at one field twice, thirty times over, is refused before it is built', async () => {
    let fields = fieldFields(field('x', int32));
    for (let depth = 0; depth < 30; depth++)
      fields = fieldFields(struct('x', [])).with(5, { tables: [fields, fields] });
    const message = encodeMessage({ kind: 'schema', header: [{ int16: 0 }, { tables: [fields] }] });
    assert.ok(message.length < 10_000);
    await assert.rejects(schemaFrom(message), refusal(/more than 10000 fields/));
  });

  it('with a dictionary that does not say the type of its indices, on which the engine panics, is refused', async () => {
    const of = fieldFields(field('k', utf8)).with(4, { table: [{ int64: 0n }] });
    const message = encodeMessage({ kind: 'schema', header: [{ int16: 0 }, { tables: [of] }] });
    await assert.rejects(schemaFrom(message), /a dictionary without the type of its indices/);
  });
});

describe('a schema that cannot be stored is refused by column and type', () => {
  const refused: readonly (readonly [Field, RegExp])[] = [
    [field('k', { kind: 'interval', unit: 'day_time' }), /column k: type interval\(day_time\)/],
    [struct('m', [field('k', { kind: 'interval', unit: 'year_month' })]), /column m\.k: type interval/],
    [
      field('k', { kind: 'map' }, { children: [struct('entries', [field('key', utf8), field('value', int32)])] }),
      /column k: type map/,
    ],
    [field('k', { kind: 'decimal', bitWidth: 64, precision: 10, scale: 0 }), /decimal64/],
    [field('k', { kind: 'timestamp', unit: 'us', timezone: '+02:00' }), /time zone must be a name/],
    [field('k', { kind: 'timestamp', unit: 'us', timezone: '' }), /time zone must be a name/],
    [field('k', { kind: 'date', unit: 'day' }, { dictionary }), /dictionary<int8, date32> cannot be stored/],
    [field('k', { kind: 'fixed_size_list', listSize: 2 }, { children: [field('item', utf8)] }), /fixed width/],
    [
      field('k', { kind: 'fixed_size_list', listSize: 2 }, { children: [struct('item', [field('a', int32)])] }),
      /fixed width/,
    ],
    [field('a.b', int32), /a top-level name cannot hold a dot/],
    [field('a`b', int32), /a top-level name cannot hold a dot or a backtick/],
  ];
  for (const [of, why] of refused) {
    it(String(why), () => assert.throws(() => checkStorable(schemaOf([of])), refusal(why)));
  }
});

describe('a source', () => {
  const table = schemaOf([
    field('id', int32, { nullable: false }),
    field('t', utf8),
    struct('m', [field('a', int32), field('b', utf8)]),
  ]);
  const fits = (...fields: Field[]) => checkSourceFits(schemaOf(fields), table);
  const id = field('id', int32);

  it('fits with some of the columns, in any order, nullable or not', () => {
    fits(field('t', utf8, { nullable: false, metadata: { a: 'b' } }), id);
  });

  it('fits with the fields of a struct in any order, and with some of them', () => {
    fits(id, struct('m', [field('b', utf8), field('a', int32)]));
    fits(id, struct('m', [field('a', int32)]));
  });
  const refused: readonly (readonly [string, readonly Field[], RegExp])[] = [
    ['an unknown column', [id, field('x', utf8)], /column x does not exist in the table/],
    [
      'another type',
      [id, field('t', { kind: 'large_utf8' })],
      /column t is utf8 in the table and large_utf8 in the source/,
    ],
    [
      'a dictionary for plain values',
      [id, field('t', utf8, { dictionary })],
      /utf8 in the table and dictionary<int8, utf8>/,
    ],
    ['a struct with an unknown field', [id, struct('m', [field('x', utf8)])], /column m.x does not exist/],
    ['a required column missing', [field('t', utf8)], /column id is missing/],
    ['the wrong case', [field('ID', int32)], /column ID does not exist/],
  ];
  for (const [title, fields, why] of refused) {
    it(`with ${title} does not fit`, () => assert.throws(() => fits(...fields), refusal(why)));
  }

  it('fits no table that holds blobs, whether it names them or not', () => {
    const blobs = field(
      'b',
      { kind: 'struct' },
      { children: [field('data', { kind: 'large_binary' })], metadata: { 'ARROW:extension:name': 'lance.blob.v2' } },
    );
    for (const fields of [[id], [id, blobs]]) {
      assert.throws(() => checkSourceFits(schemaOf(fields), schemaOf([id, blobs])), refusal(/^column b holds blobs/));
    }
  });
});

describe('the Lance dialect of a schema', () => {
  it('has the names that LanceDB parses', () => {
    const types = (fields: readonly Field[]) => lanceSchemaJson(schemaOf(fields)).fields.map(({ type }) => type.type);
    const unit = { unit: 'us' } as const;
    const fields = [
      field('a', { kind: 'float', bitWidth: 16 }),
      field('b', { kind: 'large_utf8' }),
      field('c', { kind: 'date', unit: 'ms' }),
      field('d', { kind: 'time', ...unit }),
      field('e', { kind: 'timestamp', ...unit, timezone: undefined }),
      field('f', { kind: 'timestamp', ...unit, timezone: 'UTC' }),
      field('g', { kind: 'duration', ...unit }),
      field('h', { kind: 'decimal', bitWidth: 128, precision: 10, scale: 2 }),
      field('i', utf8, { dictionary }),
      field('j', { kind: 'int', bitWidth: 8, signed: false }),
    ];
    assert.deepEqual(types(fields), [
      'halffloat',
      'large_string',
      'date64:ms',
      'time64:us',
      'timestamp:us:-',
      'timestamp:us:UTC',
      'duration:us',
      'decimal:128:10:2',
      'dict:string:int8:false',
      'uint8',
    ]);
  });

  it('nests, and says metadata only where there is some', () => {
    const vector = field(
      'v',
      { kind: 'fixed_size_list', listSize: 3 },
      { children: [field('item', { kind: 'float', bitWidth: 32 })] },
    );
    const json = lanceSchemaJson(
      schemaOf([vector, field('t', utf8, { nullable: false, metadata: { a: 'b' } })], { x: 'y' }),
    );
    assert.deepEqual(json, {
      fields: [
        {
          name: 'v',
          type: {
            type: 'fixed_size_list',
            fields: [{ name: 'item', type: { type: 'float' }, nullable: true }],
            length: 3,
          },
          nullable: true,
        },
        { name: 't', type: { type: 'string' }, nullable: false, metadata: { a: 'b' } },
      ],
      metadata: { x: 'y' },
    });
  });
});
