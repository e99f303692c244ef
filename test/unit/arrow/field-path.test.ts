import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatFieldPath, parseFieldPath, resolveField, sameFieldPath } from '#src/arrow/schema/field-path.ts';
import type { Field, Schema } from '#src/arrow/schema/schema.ts';
import { LancegateError } from '#src/kernel/errors.ts';

const field = (name: string, children: readonly Field[] = [], kind: 'struct' | 'list' | 'utf8' = 'struct'): Field => ({
  name,
  nullable: true,
  type: { kind: children.length === 0 ? 'utf8' : kind },
  dictionary: undefined,
  children,
  metadata: new Map(),
});

describe('a field path', () => {
  const wellFormed: readonly (readonly [text: string, segments: readonly string[], canonical: string])[] = [
    ['id', ['id'], 'id'],
    ['meta.k', ['meta', 'k'], 'meta.k'],
    ['`a.b`', ['a.b'], '`a.b`'],
    ['`a``b`', ['a`b'], '`a``b`'],
    ['````', ['`'], '````'],
    ['`id`', ['id'], 'id'],
    ['meta.`a.b`.c', ['meta', 'a.b', 'c'], 'meta.`a.b`.c'],
    ['two words', ['two words'], 'two words'],
    ['Größe', ['Größe'], 'Größe'],
    ["it's", ["it's"], "it's"],
    [' ', [' '], ' '],
  ];
  for (const [text, segments, canonical] of wellFormed) {
    it(`${text} names ${JSON.stringify(segments)} and is shown as ${canonical}`, () => {
      const path = parseFieldPath(text);
      assert.deepEqual(path.segments, segments);
      assert.equal(formatFieldPath(path), canonical);
      assert.deepEqual(parseFieldPath(canonical), path);
    });
  }

  const malformed: readonly (readonly [text: string, why: RegExp])[] = [
    ['', /it is empty/],
    ['.', /segment 1 is empty/],
    ['a.', /segment 2 is empty/],
    ['.a', /segment 1 is empty/],
    ['a..b', /segment 2 is empty/],
    ['``', /segment 1 is empty/],
    ['`a', /not closed/],
    ['`a``', /not closed/],
    ['a`b', /around a whole segment/],
    ['a`b`', /around a whole segment/],
    ['`a`b', /only a dot may follow/],
    ['`a`.', /segment 2 is empty/],
  ];
  for (const [text, why] of malformed) {
    it(`${JSON.stringify(text)} is refused, and the refusal names it`, () => {
      assert.throws(
        () => parseFieldPath(text),
        (error) =>
          error instanceof LancegateError &&
          error.kind === 'InvalidInput' &&
          why.test(error.message) &&
          error.message.includes(JSON.stringify(text)),
      );
    });
  }

  it('of any length makes a message of bounded length', () => {
    assert.throws(
      () => parseFieldPath(`a\`${'x'.repeat(100_000)}`),
      (error: Error) => error.message.length < 400,
    );
  });

  it('is the same as another only where all segments are', () => {
    assert.ok(sameFieldPath(parseFieldPath('`id`'), parseFieldPath('id')));
    assert.ok(!sameFieldPath(parseFieldPath('`a.b`'), parseFieldPath('a.b')));
    assert.ok(!sameFieldPath(parseFieldPath('a'), parseFieldPath('a.b')));
  });
});

describe('resolving a field path', () => {
  const schema: Schema = {
    fields: [field('id'), field('meta', [field('k'), field('in', [field('k')])]), field('l', [field('item')], 'list')],
    metadata: new Map(),
  };
  const resolved = (text: string): string | undefined => resolveField(schema, parseFieldPath(text))?.name;

  it('finds top-level columns and fields of structs', () => {
    assert.equal(resolved('id'), 'id');
    assert.equal(resolved('meta.k'), 'k');
    assert.equal(resolved('meta.in.k'), 'k');
  });
  it('does not find a nested leaf by its name alone', () => assert.equal(resolved('k'), undefined));
  it('heeds case', () => assert.equal(resolved('ID'), undefined));
  it('does not enter lists or plain columns', () => {
    assert.equal(resolved('l.item'), undefined);
    assert.equal(resolved('id.x'), undefined);
  });
});
