import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { bitmapOf, bitsSet, bytesOfBitmap, valuesOfBitmap } from '#src/lance-format/roaring.ts';

const u16 = (...values: number[]): Buffer => Buffer.from(Uint16Array.from(values).buffer);
const u32 = (...values: number[]): Buffer => Buffer.from(Uint32Array.from(values).buffer);

/** A list under 0 and, under 2, a bitmap of every third value. Offsets are not read, and zero here. */
function listAndBitmap(): { bytes: Buffer; values: number[] } {
  const thirds = Array.from({ length: 5_000 }, (_, i) => 3 * i);
  const bits = Buffer.alloc(8_192);
  for (const value of thirds) bits[value >> 3] = (bits[value >> 3] ?? 0) | (1 << (value & 7));
  const header = Buffer.concat([u32(12_346, 2), u16(0, 3 - 1, 2, 5_000 - 1), u32(0, 0)]);
  const values = [7, 8, 65_535, ...thirds.map((value) => 2 * 65_536 + value)];
  return { bytes: Buffer.concat([header, u16(7, 8, 65_535), bits]), values };
}

/** Runs under 1, a list under 3: fewer than four containers have no offsets. */
function runsAndList(): { bytes: Buffer; values: number[] } {
  const header = Buffer.concat([u16(12_347, 2 - 1), Buffer.of(0b01), u16(1, 5 - 1, 3, 1 - 1)]);
  const runs = u16(2, 10, 2, 65_534, 1);
  const values = [10, 11, 12, 65_534, 65_535].map((low) => 65_536 + low);
  return { bytes: Buffer.concat([header, runs, u16(9)]), values: [...values, 3 * 65_536 + 9] };
}

describe('a Roaring bitmap', () => {
  for (const [title, build] of Object.entries({ 'of a list and a bitmap': listAndBitmap, 'with runs': runsAndList })) {
    test(`${title} is as long as it says, and has its values`, () => {
      const { bytes, values } = build();
      assert.equal(bytesOfBitmap(Buffer.concat([bytes, Buffer.alloc(3)])), bytes.length);
      assert.deepEqual([...valuesOfBitmap(bytes)], values);
    });

    test(`${title} that is cut short anywhere has no values`, () => {
      const { bytes } = build();
      for (let length = 0; length < bytes.length; length += 1 + (length >> 4)) {
        assert.throws(() => valuesOfBitmap(bytes.subarray(0, length)), /no Roaring bitmap/);
      }
    });
  }

  test('that has other values than it says is not believed', () => {
    const { bytes } = listAndBitmap();
    bytes[bytes.length - 1] = 0xff;
    assert.throws(() => valuesOfBitmap(bytes), /as many values/);
  });

  test('is written with its values as lists of up to 4,096 and as bitmaps, and says where they start', () => {
    const [one, many] = [new Uint32Array(1), new Uint32Array(2_048).fill(0xffff_0000)];
    one[0] = 0x8000_0001;
    const bytes = bitmapOf([
      { bits: one, count: 2 },
      undefined,
      { bits: many, count: 2_048 * 16 },
      { bits: new Uint32Array(2_048), count: 0 },
      { list: new Uint16Array() },
      { list: Uint16Array.of(3, 65_535) },
    ]);
    const header = Buffer.concat([u32(12_346, 3), u16(0, 2 - 1, 2, 2_048 * 16 - 1, 5, 2 - 1), u32(32, 36, 36 + 8_192)]);
    assert.deepEqual(bytes, Buffer.concat([header, u16(0, 31), Buffer.from(many.buffer), u16(3, 65_535)]));
  });

  for (const count of [1, 4_096, 4_097, 65_536]) {
    test(`written with ${count} values under one number reads as these`, () => {
      const bits = new Uint32Array(2_048);
      for (let value = 0; value < count; value += 1) bits[value >> 5]! |= 1 << (value & 31);
      const bytes = bitmapOf([undefined, { bits, count }]);
      assert.equal(bytes.length, 16 + Math.min(count * 2, 8_192));
      assert.deepEqual(
        valuesOfBitmap(bytes),
        Uint32Array.from({ length: count }, (_, value) => 65_536 + value),
      );
    });
  }

  test('of nothing has no values', () => {
    assert.deepEqual(valuesOfBitmap(bitmapOf([])), new Uint32Array(0));
  });
});

test('set bits are counted at all 32 positions', () => {
  for (let bit = 0; bit < 32; bit += 1) assert.equal(bitsSet((1 << bit) >>> 0), 1);
  assert.deepEqual([0, 0xffff_ffff, -1, 0x7fff_ffff, 0xaaaa_aaaa].map(bitsSet), [0, 32, 32, 31, 16]);
});
