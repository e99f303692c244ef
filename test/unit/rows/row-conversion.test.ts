/** Whatever rows a text has, reading them takes time and memory within bounds (P7, P10, P12). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Schema } from '#src/arrow/schema/schema.ts';
import type { TextFormat } from '#src/rows/answer-form.ts';
import { RowConversion } from '#src/rows/bodies/row-conversion.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import { field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { wholeOf } from '#test/fixtures/streams.ts';
import { inTime } from './in-time.ts';

const text = (of: string): Uint8Array => Uint8Array.from(Buffer.from(of));

const partsOf = async (conversion: RowConversion, body: string): Promise<Uint8Array[]> => [
  ...(await Array.fromAsync(conversion.add(text(body)))),
  ...(await Array.fromAsync(conversion.end())),
];

async function converted(format: TextFormat, body: string, table?: Schema): Promise<Buffer> {
  const conversion = new RowConversion({ format, table });
  return Buffer.concat(await partsOf(conversion, body));
}

describe('rows of text', () => {
  const doubles = schemaOf([field('x', { kind: 'float', bitWidth: 64 })]);
  const encoded = schemaOf([
    field('x', { kind: 'utf8' }, { dictionary: { id: 0n, index: { bitWidth: 32, signed: true }, ordered: false } }),
  ]);

  it('take time in proportion to their text (P10, P12)', async () => {
    const digits = converted('json', `[{"x":"${'1'.repeat(100_000)}x"}]`, doubles);
    await inTime(assert.rejects(digits, /row 1, column x: this text is no float64/), 8_000);
    const names = Array.from({ length: 120_000 }, (_, i) => `c${i}`).join();
    await inTime(assert.rejects(converted('csv', `${names}\n`)), 10_000);
    const distinct = Array.from({ length: 300_000 }, (_, i) => `{"x":"${i}"}`).join('\n');
    await inTime(converted('ndjson', distinct, encoded), 15_000);
  });

  it('that are nested too deep behind the first ones are refused with their place (P12)', async () => {
    const deep = `${'{"a":"t"}\n'.repeat(10_001)}${' '.repeat(300_000)}\n{"a":${'['.repeat(150_000)}${']'.repeat(150_000)}}`;
    await assert.rejects(converted('ndjson', deep), /line 10003, column a: values are nested more than 16 deep/);
  });

  it('have numbers with an exponent beyond 2^53 as doubles', async () => {
    const { file } = await wholeOf(await converted('json', '[{"x":1},{"x":1e17}]'));
    assert.deepEqual(decodeFile(file), { x: [1, 1e17] });
  });

  it('have times as programs write them, PostgreSQL and BigQuery too', async () => {
    const times = [
      '2026-01-31T10:00:00Z',
      '2026-01-31 12:00:00+02',
      '2026-01-31 10:00:00 UTC',
      '2026-01-31 15:30:00.0+0530',
      '2026-01-31T07:00-03:00',
    ];
    const { file, schema } = await wholeOf(await converted('csv', `x\n${times.join('\n')}\n`));
    assert.deepEqual(schema.fields[0]!.type, { kind: 'timestamp', unit: 'us', timezone: 'UTC' });
    const at = `${Date.UTC(2026, 0, 31, 10)}000`;
    assert.deepEqual(decodeFile(file).x!.map(String), [at, at, at, at, at]);
  });

  it('that are none have the columns of the table that a text can have (P4)', async () => {
    const table = schemaOf([field('id', { kind: 'utf8' }), field('nothing', { kind: 'null' })]);
    for (const [format, body] of [
      ['json', '[]'],
      ['ndjson', ''],
      ['csv', 'id\n'],
    ] as const) {
      const { schema, rows } = await wholeOf(await converted(format, body, table));
      assert.deepEqual([schema.fields.map(({ name }) => name), rows], [['id'], 0], format);
    }
  });

  it('of many columns that are left out become batches of bounded size (P7)', async () => {
    const head = `{${Array.from({ length: 1_000 }, (_, i) => `"a${i}":1`).join()}}\n`;
    const conversion = new RowConversion({ format: 'ndjson' });
    const parts = await partsOf(conversion, head + '{}\n'.repeat(5_000));
    const longest = Math.max(...parts.map(({ length }) => length));
    assert.ok(longest < 16 << 20, `${longest} bytes`);
  });
});
