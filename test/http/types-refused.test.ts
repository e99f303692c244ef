import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { DataType, Dictionary, Field } from '#src/arrow/schema/schema.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { FlatFields } from '#test/fixtures/flat-writer.ts';
import {
  encodeMessage,
  encodeSchema,
  encodeStream,
  endOfStream,
  type FieldExtras,
  field,
  fieldFields,
  schemaOf,
} from '#test/fixtures/ipc-writer.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { entriesUnder } from '#test/http/stored.ts';

const utf8: DataType = { kind: 'utf8' };
const item = field('item', utf8);
const int8: Dictionary['index'] = { bitWidth: 8, signed: true };
const entries = field(
  'entries',
  { kind: 'struct' },
  { nullable: false, children: [field('key', utf8, { nullable: false }), field('value', utf8)] },
);

interface Refusal {
  readonly type: DataType;
  readonly extras?: FieldExtras;
  readonly error: RegExp;
}

const unreadable = /^column bad: type .+ cannot be read back by clients$/;
const unstorable = /^column bad: type .+ cannot be stored/;

const refusals: readonly Refusal[] = [
  ...(['year_month', 'day_time', 'month_day_nano'] as const).map(
    (unit): Refusal => ({ type: { kind: 'interval', unit }, error: unreadable }),
  ),
  { type: { kind: 'map' }, extras: { children: [entries] }, error: unreadable },
  { type: { kind: 'decimal', bitWidth: 32, precision: 5, scale: 2 }, error: unstorable },
  { type: { kind: 'decimal', bitWidth: 64, precision: 5, scale: 2 }, error: unstorable },
  { type: { kind: 'timestamp', unit: 'us', timezone: '+01:00' }, error: /^column bad: .*time zone must be a name/ },
  {
    type: { kind: 'date', unit: 'day' },
    extras: { dictionary: { id: 1n, index: int8, ordered: false } },
    error: unstorable,
  },
  { type: { kind: 'fixed_size_list', listSize: 2 }, extras: { children: [item] }, error: unstorable },
  {
    type: { kind: 'list' },
    extras: { children: [field('item', { kind: 'interval', unit: 'day_time' })] },
    error: /^column bad\.item: type interval/,
  },
  {
    type: { kind: 'struct' },
    extras: {
      children: [
        field('in', { kind: 'struct' }, { children: [field('map', { kind: 'map' }, { children: [entries] })] }),
      ],
    },
    error: /^column bad\.in\.map: type map/,
  },
  { type: { kind: 'struct' }, error: /^column bad: .*it has no fields$/ },
  {
    type: utf8,
    extras: { metadata: { 'ARROW:extension:name': 'arrow.json' } },
    error: /^column bad: .*arrow\.json: .*send plain utf8$/,
  },
  {
    type: { kind: 'struct' },
    extras: {
      children: [field('j', { kind: 'large_binary' }, { metadata: { 'ARROW:extension:name': 'lance.json' } })],
    },
    error: /^column bad\.j: .*lance\.json: .*send plain utf8$/,
  },
  {
    type: { kind: 'large_binary' },
    extras: { metadata: { 'lance-encoding:blob': 'true' } },
    error: /^column bad: .*as a blob/,
  },
  {
    type: { kind: 'struct' },
    extras: {
      children: [field('data', { kind: 'large_binary' }), field('uri', utf8)],
      metadata: { 'ARROW:extension:name': 'lance.blob.v2' },
    },
    error: /^column bad: .*as a blob/,
  },
  {
    type: utf8,
    extras: { metadata: { 'lance-schema:unenforced-primary-key': 'true' } },
    error: /^column bad is a primary key by its metadata, and must not be nullable$/,
  },
  { type: { kind: 'struct' }, extras: { children: [field('', utf8)] }, error: /^a field of bad has an empty name$/ },
  {
    type: { kind: 'struct' },
    extras: { children: [field('a', utf8), field('a', utf8)] },
    error: /^column bad\.a appears twice$/,
  },
];

/** Types that no `Schema` can say, by their number in the format. */
const foreign: readonly (readonly [name: string, number: number, error: RegExp])[] = [
  ['a union', 14, /^column bad: .*union/],
  ['run-end encoding', 22, /^column bad: .*run_end/],
  ['binary view', 23, /^column bad: .*view/],
  ['utf8 view', 24, /^column bad: .*view/],
  ['list view', 25, /^column bad: .*view/],
  ['large list view', 26, /^column bad: .*view/],
];

const foreignSchema = (typeNumber: number): Buffer => {
  const fields: FlatFields[] = [fieldFields(field('n', utf8)), fieldFields(field('bad', utf8), typeNumber)];
  return encodeMessage({ kind: 'schema', header: [{ int16: 0 }, { tables: fields }] });
};

const names: readonly (readonly [names: readonly string[], error: RegExp])[] = [
  [['n', ''], /^a column has an empty name$/],
  [['n', 'n'], /^column n appears twice$/],
  [['a.b'], /^column `a\.b`: a top-level name cannot hold a dot or a backtick$/],
  [['n', '*'], /^column "\*": a top-level name cannot be an asterisk alone$/],
  [['n\0'], /^column "n\\u0000": a name cannot hold a NUL character$/],
  ...['_rowid', '_rowaddr', '_rowoffset', '_row_created_at_version', '_row_last_updated_at_version'].map(
    (name) => [['n', name], /^column _row\w+: the name is reserved by Lance$/] as const,
  ),
  [['n', '__action'], /^column __action: the name is reserved by Lance$/],
  [['n', '__merge_source_sentinel'], /^column __merge_source_sentinel: the name is reserved by Lance$/],
  [['__lancegate_nothing'], /^column __lancegate_nothing: names beginning with __lancegate_ are reserved$/],
];

describe('what LanceDB cannot store, or its clients cannot read back, is refused with the name of the column', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startTestService(later);
    await service.post('/v1/table/promised/declare', {});
  });

  async function assertRefused(schema: Buffer, error: RegExp): Promise<void> {
    const stream = Buffer.concat([schema, endOfStream]);
    for (const path of ['new/create', 'promised/create', 'promised/merge_insert?on=n']) {
      const { status, body } = await service.post(`/v1/table/${path}`, stream);
      assert.equal(status, 400, path);
      if (path.includes('merge') && /has no column n/.test(String(body.error))) continue;
      assert.match(String(body.error), error, path);
    }
    assert.equal((await service.post('/v1/table/new/exists', {})).status, 404);
    assert.deepEqual(entriesUnder(service.tablesFolder), []);
  }

  const withBad = (bad: Field): Buffer => encodeSchema(schemaOf([field('n', utf8), bad]));

  for (const { type, extras = {}, error } of refusals) {
    test(`${JSON.stringify(type)}: ${error.source}`, () => assertRefused(withBad(field('bad', type, extras)), error));
  }

  for (const [name, typeNumber, error] of foreign) test(name, () => assertRefused(foreignSchema(typeNumber), error));

  for (const [columns, error] of names) {
    test(`columns [${columns.join()}]`, () =>
      assertRefused(encodeSchema(schemaOf(columns.map((name) => field(name, utf8)))), error));
  }

  for (const [encoding, error] of [
    ['compression', /^lance-encoding:compression: the scheme none such is unknown$/],
    ['structural-encoding', /^column bad: lance-encoding:structural-encoding is unknown$/],
  ] as const) {
    test(`a ${encoding} that is unknown, once there are rows`, async () => {
      const bad = field('bad', utf8, { metadata: { [`lance-encoding:${encoding}`]: 'none such' } });
      const { status, body } = await service.post(
        '/v1/table/new/create',
        encodeStream(schemaOf([bad]), [{ bad: ['x', 'y', null] }]),
      );
      assert.equal(status, 400);
      assert.match(String(body.error), error);
    });
  }

  test('a key whose name the engine would misread', async () => {
    for (const name of ['a"b', '""']) {
      const stream = encodeStream(schemaOf([field(name, utf8), field('v', utf8)]), [{ [name]: ['x'], v: ['y'] }]);
      const table = encodeURIComponent(`keyed by ${name}`);
      assert.equal((await service.post(`/v1/table/${table}/create`, stream)).status, 200);
      const on = encodeURIComponent(`\`${name}\``);
      const { status, body } = await service.post(`/v1/table/${table}/merge_insert?on=${on}`, stream);
      assert.equal(status, 400);
      assert.match(String(body.error), /^column .+ cannot be a key: its name is \* or holds a double quote$/);
    }
  });
});
