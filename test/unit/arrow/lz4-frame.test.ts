import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeLz4Frame } from '#src/arrow/column/lz4-frame.ts';
import { LancegateError } from '#src/kernel/errors.ts';

/** Flags: version 1; 0x20 independent blocks, 0x10 block checksums, 0x08 content size, 0x04 content checksum. */
function frame(flags: number, blocks: readonly Buffer[]): Buffer {
  const head = Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x40 | flags, 0x40]);
  const size = Buffer.alloc((flags & 0x08) === 0 ? 0 : 8);
  const sums = (flags & 0x10) === 0 ? [] : [Buffer.alloc(4)];
  const tail = Buffer.alloc((flags & 0x04) === 0 ? 4 : 8);
  const parts = blocks.flatMap((block) => [block, ...sums]);
  return Buffer.concat([head, size, Buffer.alloc(1), ...parts, tail]);
}

function block(bytes: readonly number[], stored = false): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32LE((bytes.length | (stored ? 0x8000_0000 : 0)) >>> 0);
  return Buffer.concat([size, Buffer.from(bytes)]);
}

const abcd = [0x61, 0x62, 0x63, 0x64];
/** `abcd`, then eight bytes from four back, then `x`. */
const sequences = block([0x44, ...abcd, 4, 0, 0x10, 0x78]);
/** Four bytes from four back, then `y`: only linked blocks may. */
const linked = block([0x00, 4, 0, 0x10, 0x79]);
const text = (input: Buffer, size: number): string => Buffer.from(decodeLz4Frame(input, size)).toString();

describe('an LZ4 frame', () => {
  for (const flags of [0x00, 0x20, 0x10, 0x08, 0x04, 0x3c]) {
    it(`with flags ${flags.toString(16)} is decoded`, () => {
      assert.equal(text(frame(flags, [sequences, block(abcd, true)]), 17), 'abcdabcdabcdxabcd');
    });
  }
  it('of linked blocks may reach back into the block before', () => {
    assert.equal(text(frame(0, [block(abcd, true), linked]), 9), 'abcdabcdy');
  });
  it('of independent blocks may not', () => {
    assert.throws(() => decodeLz4Frame(frame(0x20, [block(abcd, true), linked]), 9), /reaches back too far/);
  });
  it('may follow another, and frames to skip', () => {
    const skip = Buffer.from('502a4d1803000000ffffff', 'hex');
    const one = frame(0, [block(abcd, true)]);
    assert.equal(text(Buffer.concat([skip, one, skip, one]), 8), 'abcdabcd');
  });
  it('with long literals and long matches is decoded', () => {
    const literals = Array.from({ length: 300 }, (_, i) => i & 0xff);
    const bytes = decodeLz4Frame(frame(0, [block([0xff, 255, 30, ...literals, 44, 1, 41, 0x00])]), 300 + 60);
    assert.deepEqual([...bytes], [...literals, ...literals.slice(0, 60)]);
  });

  const refused: readonly (readonly [string, Buffer, number, RegExp])[] = [
    ['that is larger than declared', frame(0, [sequences]), 12, /larger than declared/],
    ['that is smaller than declared', frame(0, [sequences]), 14, /13 bytes where 14/],
    ['that reaches back before its beginning', frame(0, [block([0x10, 0x61, 2, 0, 0x00])]), 5, /too far/],
    ['with a match of distance 0', frame(0, [block([0x10, 0x61, 0, 0, 0x00])]), 5, /too far/],
    ['that is cut off', frame(0, [sequences]).subarray(0, 14), 13, /cut off/],
    ['that begins otherwise', Buffer.from('hello, world'), 5, /does not begin/],
    ['that needs a dictionary', frame(0x01, [sequences]), 13, /needs a dictionary/],
    ['whose literals leave their block', frame(0, [block([0xf0, 255, 255, 0])]), 600, /outside their block/],
  ];
  for (const [title, input, size, why] of refused) {
    it(`${title} is refused`, () => {
      assert.throws(
        () => decodeLz4Frame(input, size),
        (error) => error instanceof LancegateError && error.kind === 'InvalidInput' && why.test(error.message),
      );
    });
  }
});
