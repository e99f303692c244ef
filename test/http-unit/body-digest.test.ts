import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { BodyDigest } from '#src/http/body/body-digest.ts';
import { LancegateError } from '#src/kernel/errors.ts';

const chunks = ['one', '', 'two', 'three'].map((text) => Buffer.from(text));
const expected = createHash('sha256').update('onetwothree').digest('hex');

async function* body(): AsyncGenerator<Uint8Array, void, void> {
  yield* chunks;
}

for (const reads of [0, 1, 3, 4, 5]) {
  test(`the digest is of the whole body, though only ${reads} chunks were asked for before`, async () => {
    const digest = new BodyDigest(body(), undefined);
    const passing = digest.bytes()[Symbol.asyncIterator]();
    const seen: unknown[] = [];
    for (let i = 0; i < reads; i++) seen.push((await passing.next()).value);
    assert.deepEqual(seen.slice(0, chunks.length), chunks.slice(0, reads));
    assert.equal(await digest.whole(), expected);
  });
}

test('a body that is read for its digest alone is bounded (P7)', async () => {
  assert.equal(await new BodyDigest(body(), 11).whole(), expected);
  await assert.rejects(
    new BodyDigest(body(), 10).whole(),
    (error) => error instanceof LancegateError && error.kind === 'BodyTooLarge',
  );
});
