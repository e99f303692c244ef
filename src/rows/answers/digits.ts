/** What numbers need to be written as digits. */

const powersOfTen = Float64Array.from({ length: 23 }, (_, power) => 10 ** power);

/** Exact as doubles (IEEE 754), up to 10^22. */
export const powerOfTen = (power: number): number => powersOfTen[power]!;

const pairs = Uint16Array.from({ length: 100 }, (_, value) =>
  Buffer.from(String(value).padStart(2, '0')).readUInt16LE(),
);

/** Gives the two digits of a number below a hundred, as they lie in memory. */
export const pairOf = (value: number): number => pairs[value]!;

/** They have a point and the digits of each number of thousandths, as they lie in memory, and how many bytes are no zeros at the end. */
export const fractions = Int32Array.from({ length: 1_000 }, (_, value) =>
  Buffer.from(`.${String(value).padStart(3, '0')}`).readInt32LE(),
);
export const fractionLengths = Uint8Array.from({ length: 1_000 }, (_, value) => {
  const digits = String(value).padStart(3, '0').replace(/0+$/, '').length;
  return digits === 0 ? 0 : digits + 1;
});

/** `value` is a whole number below 1e9. */
export function countDigits(value: number): number {
  if (value < 10_000) {
    if (value < 100) return value < 10 ? 1 : 2;
    return value < 1_000 ? 3 : 4;
  }
  if (value < 1_000_000) return value < 100_000 ? 5 : 6;
  if (value < 100_000_000) return value < 10_000_000 ? 7 : 8;
  return 9;
}

/** Such that the size is between one and ten of that power of ten, for sizes from 1e-5 to 1e15. */
export function exponentOf(size: number): number {
  let digits = 1;
  if (size >= 1) {
    while (size >= powerOfTen(digits)) digits += 1;
    return digits - 1;
  }
  while (size * powerOfTen(digits) < 1) digits += 1;
  return -digits;
}

/** The upper 26 bits of its fraction (Veltkamp), so that products of halves are exact. */
export function upperHalf(value: number): number {
  const scaled = 134_217_729 * value;
  return scaled - (scaled - value);
}

/** Halves go to the even neighbour, as IEEE 754 has it. */
export function nearest(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

export function shortest(value: number): number {
  for (let digits = 7; digits < 9; digits++) {
    const shorter = Number(value.toPrecision(digits));
    if (Math.fround(shorter) === value) return shorter;
  }
  return Number(value.toPrecision(9));
}
