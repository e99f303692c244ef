import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LancegateError } from '#src/kernel/errors.ts';
import { parseIdempotencyKey } from '#src/wire/identifiers.ts';

const allVisible = Array.from({ length: 0x7e - 0x21 + 1 }, (_, i) => String.fromCharCode(0x21 + i)).join('');
const afterQuote = `${allVisible.replace('"', '')}"`;

const understood: readonly (readonly [header: string | undefined, key: string | undefined])[] = [
  [undefined, undefined],
  ['a', 'a'],
  ['8e03978e-40d5-43dd-bc93-6894a57f9324', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
  ['"8e03978e-40d5-43dd-bc93-6894a57f9324"', '8e03978e-40d5-43dd-bc93-6894a57f9324'],
  [afterQuote, afterQuote],
  ['"a\\"b\\\\c"', 'a"b\\c'],
  ['x'.repeat(255), 'x'.repeat(255)],
  [`"${'x'.repeat(255)}"`, 'x'.repeat(255)],
];
for (const [header, key] of understood) {
  test(`the header ${header?.slice(0, 40)} is the key ${key?.slice(0, 40)}`, () => {
    assert.equal(parseIdempotencyKey(header), key);
  });
}

const refused = [
  '',
  '""',
  '"',
  '"a',
  'a b',
  '"a b"',
  'a, b',
  '"a"b',
  '"a"; p=1',
  '"a\\b"',
  'é',
  'a\u007f',
  'x'.repeat(256),
];
for (const header of refused) {
  test(`the header ${JSON.stringify(header.slice(0, 40))} is refused by its name`, () => {
    assert.throws(
      () => parseIdempotencyKey(header),
      (error) =>
        error instanceof LancegateError &&
        error.kind === 'InvalidInput' &&
        error.message.startsWith('idempotency-key: '),
    );
  });
}
