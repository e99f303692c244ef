/** Numbers as text: each is the shortest decimal that is read as the same number, as `String` writes it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { TextOut } from '#src/rows/answers/text-out.ts';
import { randomOf } from '#test/fuzz/mutations.ts';

const draws = 20_000;

/** From zero to one. */
function fractionsOf(seed: number): () => number {
  const random = randomOf(seed, 0);
  return () => (random(2 ** 32) + random(2 ** 20) / 2 ** 20) / 2 ** 32;
}

describe('numbers as text', () => {
  const out = new TextOut(1_024);
  const written = (write: () => void): string => {
    write();
    return out.take().toString();
  };
  const double = (value: number): string => written(() => out.double(value));
  const single = (value: number): string => written(() => out.single(value));

  test('a double has the digits that JavaScript gives it', () => {
    const random = fractionsOf(7);
    const edges = Array.from({ length: 60 }, (_, i) => [2 ** (i - 20), 10 ** (i - 20)]).flat();
    const beside = edges.flatMap((edge) => [edge, edge * (1 + Number.EPSILON), edge * (1 - Number.EPSILON / 2), -edge]);
    const drawn = Array.from({ length: draws }, () => [
      random(),
      -random() * 10 ** (Math.floor(random() * 40) - 20),
      Math.round(random() * 1e9) / 10 ** Math.floor(random() * 12),
      // Half of the digits that follow are exact, so two decimals are equally near.
      Math.round(random() * 1e12) / 2 ** Math.floor(random() * 20),
    ]).flat();
    // The last eight of seventeen digits are next to zero, or to a carry.
    const carried = drawn.slice(0, 4_000).flatMap((_, i) => {
      const digits = String(100_000_000 + Math.floor(random() * 899_999_999));
      return [Number(`0.${digits}0000000${i % 10}`), Number(`0.${digits}9999999${i % 10}`)];
    });
    for (const value of [...beside, ...drawn, ...carried]) assert.equal(double(value), String(value));
  });

  test('a single float is read as itself, with at most nine digits', () => {
    const random = fractionsOf(11);
    for (let i = 0; i < draws; i++) {
      const few = Math.round(random() * 10_000) / 1_000;
      assert.equal(single(Math.fround(few)), String(few));
      const value = Math.fround((random() - 0.5) * 10 ** (Math.floor(random() * 24) - 12));
      const text = single(value);
      assert.equal(Math.fround(Number(text)), value);
      const digits = text.replace(/e.*|[-.]/g, '').replace(/^0+/, '');
      assert.ok(Number.isInteger(value) || digits.length <= 9, text);
    }
  });
});
