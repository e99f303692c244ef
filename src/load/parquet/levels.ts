/** How the values of lists repeat: a level for each, of which 0 begins a row. */
import { invalidInput } from '../../kernel/errors.ts';

/** `most`: the highest of the levels. */
export function rowsInLevels(levels: Buffer, most: number, values: number) {
  let [left, rows] = [values, 0];
  let isContinuation: boolean | undefined;
  for (const { count, zerosIn } of runsIn(levels, Math.ceil(Math.log2(most + 1)))) {
    const used = Math.min(count, left);
    if (used === 0) continue;
    isContinuation ??= zerosIn(1) === 0;
    rows += zerosIn(used);
    left -= used;
    if (left === 0) break;
  }
  if (left > 0) throw invalidInput('a page has fewer values than it says');
  return { rows, isContinuation: isContinuation === true };
}

/** Of levels that follow each other. */
interface Run {
  readonly count: number;
  zerosIn(first: number): number;
}

/** Runs of one level, and groups of eight, of `width` bits each. */
function* runsIn(levels: Buffer, width: number): Generator<Run, void> {
  for (let at = 0; at < levels.length; ) {
    let head = 0;
    for (let scale = 1, byte = 0x80; byte >= 0x80; scale *= 0x80) {
      byte = levels.readUInt8(at);
      head += (byte & 0x7f) * scale;
      at += 1;
    }
    const count = Math.floor(head / 2);
    if (head % 2 === 0) {
      const isZero = levels.readUInt8(at) === 0;
      at += 1;
      yield { count, zerosIn: (first) => (isZero ? first : 0) };
      continue;
    }
    const group = levels.subarray(at, at + count * width);
    at += group.length;
    yield { count: Math.floor((8 * group.length) / width), zerosIn: (first) => zerosOf(group, width, first) };
  }
}

function zerosOf(group: Buffer, width: number, first: number): number {
  let zeros = 0;
  for (let bit = 0; bit < first * width; bit += width) {
    const byte = bit >> 3;
    const two = (group[byte] ?? 0) | ((group[byte + 1] ?? 0) << 8);
    if (((two >> (bit & 7)) & ((1 << width) - 1)) === 0) zeros += 1;
  }
  return zeros;
}
