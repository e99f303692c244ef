/** What a JSON body may be made of: the event loop belongs to all clients, and parsing some texts takes it a tenth of a second. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Type from 'typebox';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import { BodyReader, parseJson, readFields } from '#src/wire/json-body.ts';

const many = (count: number, each: (index: number) => string): string =>
  Array.from({ length: count }, (_, i) => each(i)).join(',');
const refuses = (run: () => unknown, message: RegExp): void =>
  assert.throws(run, { name: 'LancegateError', kind: 'InvalidInput', message });

test('a text of more brackets, fields, texts or levels than any request needs is refused before it is parsed (P7, P10)', () => {
  const parse = (text: string) => () => parseJson(text, 'the body');
  refuses(parse('['.repeat(65)), /^the body is nested more than 64 deep$/);
  refuses(parse(`[${many(20_001, () => '{}')}]`), /more than 20000 arrays and objects$/);
  refuses(parse(`{${many(20_001, (i) => `"${i}":1`)}}`), /more than 20000 fields$/);
  refuses(parse(`[${many(65_537, () => '""')}]`), /more than 65536 texts$/);
});

test('what is inside of texts counts for nothing, however it is escaped', () => {
  const texts = ['[[[[{{{{::::'.repeat(10_000), '"'.repeat(70_000), '\\'.repeat(70_001), '\\"[', '', '\\'];
  for (const text of texts) assert.deepEqual(parseJson(JSON.stringify({ text }), 'it'), { text });
  const deep = `${'['.repeat(64)}1${']'.repeat(64)}`;
  assert.equal(JSON.stringify(parseJson(deep, 'it')), deep);
  assert.equal((parseJson(`[${many(200_000, () => '1')}]`, 'it') as unknown[]).length, 200_000);
  for (const text of ['"', '{"a', '"\\', ']]]']) refuses(() => parseJson(text, 'it'), /^it is not JSON$/);
});

test('the fault of a long array is named as that of a short one, without a look at the rest of it', () => {
  const schema = Type.Object({ list: Type.Optional(Type.Array(Type.Object({ a: Type.String() }), { maxItems: 3 })) });
  refuses(() => readFields(schema, { list: [{ a: '' }, { a: 1 }] }, 'it'), /^list\.1\.a must be string$/);
  refuses(() => readFields(schema, { list: [{ a: '' }, {}] }, 'it'), /^the body lacks a$/);
  const longer = { list: Array.from({ length: 19_000 }, () => ({ a: '' })) };
  refuses(() => readFields(schema, longer, 'it'), /^list must not have more than 3 items$/);
  refuses(
    () => new BodyReader(schema).parse(`{"id":[${many(65, () => '1')}]}`, ['t'], () => undefined),
    /^id must not have more than 64 items$/,
  );
});

test('a field path has no more segments than a column can lie deep', () => {
  const path = (segments: number): string => Array.from({ length: segments }, () => 'a').join('.');
  assert.equal(parseFieldPath(path(128)).segments.length, 128);
  refuses(() => parseFieldPath(path(129)), /^on: malformed field path .*: it has more than 128 segments$/);
  refuses(() => parseFieldPath('a'.repeat(65_537)), /it has more than 65536 characters$/);
});
