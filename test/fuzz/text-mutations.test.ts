/**
 * Whatever text a client sends as rows, it is refused with its place or becomes a stream that the reader of streams takes, however its
 * bytes were cut on the way (P1, P7, P12). By hand: LANCEGATE_FUZZ_RUNS=10000 node --test test/fuzz/text-mutations.test.ts
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Schema } from '#src/arrow/schema/schema.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { TextFormat } from '#src/rows/answer-form.ts';
import { RowConversion } from '#src/rows/bodies/row-conversion.ts';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import { field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { wholeOf } from '#test/fixtures/streams.ts';
import { pick, type Random, randomOf } from './mutations.ts';

const runs = Number(process.env.LANCEGATE_FUZZ_RUNS ?? 750);
const seed = Number(process.env.LANCEGATE_FUZZ_SEED ?? 1);

const rows = [
  {
    id: 1,
    name: 'Ada',
    at: '2026-01-01T10:00:00Z',
    day: '2026-01-01',
    x: 0.5,
    ok: true,
    v: [1, 2],
    s: { a: 'q', n: 1 },
    l: ['a'],
  },
  {
    id: 2,
    name: 'naïve "quoted", \n🙂',
    at: null,
    day: '1815-12-10',
    x: -1e30,
    ok: false,
    v: [0.1, -3],
    s: null,
    l: [],
  },
  { id: 9_007_199_254_740_991, name: '', x: 3, v: [7, 8], s: { a: null }, l: [null, 'b'] },
];
const table: Schema = schemaOf([
  field('id', { kind: 'int', bitWidth: 64, signed: true }, { nullable: false }),
  field('name', { kind: 'utf8' }, { dictionary: { id: 0n, index: { bitWidth: 8, signed: true }, ordered: false } }),
  field('at', { kind: 'timestamp', unit: 'ns', timezone: 'UTC' }),
  field('day', { kind: 'date', unit: 'day' }),
  field('x', { kind: 'float', bitWidth: 32 }),
  field('ok', { kind: 'bool' }),
  field('v', { kind: 'fixed_size_list', listSize: 2 }, { children: [field('item', { kind: 'float', bitWidth: 16 })] }),
  field(
    's',
    { kind: 'struct' },
    {
      children: [field('a', { kind: 'utf8' }), field('n', { kind: 'decimal', bitWidth: 128, precision: 9, scale: 2 })],
    },
  ),
  field('l', { kind: 'list' }, { children: [field('item', { kind: 'utf8' })] }),
]);

const csvCell = (value: unknown): string => {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return /[",\n]/.test(text) || text === '' ? `"${text.replaceAll('"', '""')}"` : text;
};
const names = table.fields.map(({ name }) => name);
const bodies: Readonly<Record<TextFormat, string>> = {
  json: JSON.stringify(rows),
  ndjson: rows.map((row) => JSON.stringify(row)).join('\n'),
  csv: [
    names.join(','),
    ...rows.map((row) => names.map((name) => csvCell((row as Record<string, unknown>)[name])).join(',')),
  ].join('\r\n'),
};

const pieces = [
  ...['{', '}', '[', ']', '"', ',', ':', '\n', '\r\n', '\\', '\\u0000', '\\ud800', '\0', '\ufeff', ' ', 'null', 'true'],
  ...['1e999', '-0', '9223372036854775808', '123456789012345678901234567890', '0.1e-400', 'NaN', '--1', '1.', '٣'],
  ...['"__proto__":1,', '"id":', '"":1,', '"a.b":1,', '{"id":{"id":{"id":1}}}', '[[[[[[[[[[[[[[[[[[[[', '""""', "'"],
  ...['2026-02-30', '+275760-09-13T00:00:00.000000001Z', '9999-12-31', 'AP8=', '"x"y', `"${'k'.repeat(300)}":1,`],
].map((text) => Buffer.from(text));
const bytesOfDamage = [
  Buffer.from([0xff]),
  Buffer.from([0xc3]),
  Buffer.from([0xed, 0xa0, 0x80]),
  Buffer.from([0xef, 0xbb]),
];

function damaged(body: Buffer, random: Random): Buffer {
  let text = body;
  for (let change = random(4); change >= 0; change--) {
    const at = random(text.length + 1);
    const length = random(12);
    const [before, behind] = [text.subarray(0, at), text.subarray(at + length)];
    const kinds: readonly (() => Buffer[])[] = [
      () => [before, behind],
      () => [before, pick(random, pieces), text.subarray(at)],
      () => [before, pick(random, pieces), behind],
      () => [before, pick(random, bytesOfDamage), behind],
      () => [before],
      () => [text, text.subarray(at, at + length)],
      () => [before, text.subarray(at, at + length), text.subarray(at)],
    ];
    text = Buffer.concat(pick(random, kinds)());
  }
  return text;
}

function cut(bytes: Buffer, random: Random): Buffer[] {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + random(40);
    parts.push(bytes.subarray(at, end));
    at = end;
  }
  return parts;
}

/** The rows that the service takes of it, or why it refuses. */
async function outcomeOf(format: TextFormat, parts: readonly Buffer[], of: Schema | undefined): Promise<unknown> {
  const conversion = new RowConversion({ format, table: of });
  const stream: Uint8Array[] = [];
  try {
    for (const part of parts) stream.push(...(await Array.fromAsync(conversion.add(part))));
    stream.push(...(await Array.fromAsync(conversion.end())));
  } catch (error) {
    if (error instanceof LancegateError && error.entry.status === 400) return error.message;
    throw error;
  }
  try {
    return decodeFile((await wholeOf(Buffer.concat(stream))).file);
  } catch (error) {
    // Of names that no table may have.
    if (error instanceof LancegateError && error.kind === 'TableSchemaValidationError') return error.message;
    throw error;
  }
}

/** Whether it was refused. The same bytes in other parts have the same outcome. */
async function tryRun(format: TextFormat, run: number, target: Schema | undefined): Promise<boolean> {
  const random = randomOf(seed, run);
  const intact = Buffer.from(bodies[format]);
  const body = run === 0 ? intact : damaged(intact, random);
  const label = `seed ${seed}, run ${run}, ${target === undefined ? 'new' : 'a table'}: ${JSON.stringify(String(body))}`;
  const fail = (error: unknown) => assert.fail(`${label}: ${(error as Error).stack}`);
  const whole = await outcomeOf(format, [body], target).catch(fail);
  assert.deepEqual(await outcomeOf(format, cut(body, random), target).catch(fail), whole, label);
  if (run === 0) assert.equal(typeof whole, 'object', label);
  return typeof whole === 'string';
}

describe('damaged rows of text', () => {
  for (const format of ['json', 'ndjson', 'csv'] as const) {
    it(`of ${format} are refused or taken, in whatever parts they come`, async () => {
      let refused = 0;
      for (let run = 0; run < runs / 3; run++) {
        for (const target of [undefined, table]) if (await tryRun(format, run, target)) refused += 1;
      }
      assert.ok(refused > runs / 10 && refused < runs / 1.5, `${refused} refused`);
    });
  }
});
