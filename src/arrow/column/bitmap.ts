/** Runs of bits in Arrow's bitmaps: bit `i` is bit `i % 8`, counted from the lowest, of byte `i / 8`. */

export const bitAt = (bitmap: Uint8Array, index: number): boolean => ((bitmap[index >> 3]! >> (index & 7)) & 1) === 1;

/** How many of the bits from `start` to before `end` are zero. */
export function countZeros(bitmap: Uint8Array, start: number, end: number): number {
  let ones = 0;
  for (let i = start; i < end; i++) ones += (bitmap[i >> 3]! >> (i & 7)) & 1;
  return end - start - ones;
}

/** `target` must hold zeros from `at` on. */
export function setBits(target: Uint8Array, at: number, count: number): void {
  const end = at + count;
  let bit = at;
  for (; bit < end && (bit & 7) !== 0; bit++) target[bit >> 3]! |= 1 << (bit & 7);
  for (; bit + 8 <= end; bit += 8) target[bit >> 3] = 0xff;
  for (; bit < end; bit++) target[bit >> 3]! |= 1 << (bit & 7);
}

/** Copies the bits from `start` to before `end`. `target` must hold zeros from `at` on. */
export function copyBits(target: Uint8Array, at: number, source: Uint8Array, start: number, end: number): void {
  let to = at;
  let from = start;
  const copyOne = (): void => {
    if (bitAt(source, from)) target[to >> 3]! |= 1 << (to & 7);
    to++;
    from++;
  };
  while (from < end && (to & 7) !== 0) copyOne();
  const shift = from & 7;
  for (; from + 8 <= end; from += 8, to += 8) {
    const byte = from >> 3;
    target[to >> 3] = shift === 0 ? source[byte]! : (source[byte]! >> shift) | (source[byte + 1]! << (8 - shift));
  }
  while (from < end) copyOne();
}
