/**
 * JSON text as bytes. Numbers and texts are written byte by byte: strings in between would take three times as long
 * (docs/measurements/rows.md).
 */

const quote = 0x22;
const backslash = 0x5c;
const zero = 0x30;
const minus = 0x2d;
const point = 0x2e;

/** Exact as doubles (IEEE 754). */
const powersOfTen = Array.from({ length: 23 }, (_, power) => 10 ** power);
/** A decimal of so many digits is told from every other by its double (DBL_DIG). */
const digitsOfDouble = 15;

const nameOf = ['"NaN"', '"Infinity"', '"-Infinity"'].map((text) => Buffer.from(text));
const [nan = noBytes(), infinity = noBytes(), negativeInfinity = noBytes()] = nameOf;

function noBytes(): Buffer {
  return Buffer.alloc(0);
}

export class TextOut {
  bytes: Buffer;
  /** Where the next byte goes. */
  at = 0;

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** What was written, in memory of its own. */
  take(): Buffer {
    const taken = Buffer.from(this.bytes.subarray(0, this.at));
    this.at = 0;
    return taken;
  }

  reserve(count: number): void {
    if (this.at + count <= this.bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.bytes.length, this.at + count));
    this.bytes.copy(larger, 0, 0, this.at);
    this.bytes = larger;
  }

  byte(value: number): void {
    this.reserve(1);
    this.bytes[this.at++] = value;
  }

  raw(bytes: Uint8Array): void {
    const { length } = bytes;
    this.reserve(length);
    const { bytes: target, at } = this;
    for (let i = 0; i < length; i++) target[at + i] = bytes[i]!;
    this.at = at + length;
  }

  ascii(text: string): void {
    const { length } = text;
    this.reserve(length);
    const { bytes: target, at } = this;
    for (let i = 0; i < length; i++) target[at + i] = text.charCodeAt(i);
    this.at = at + length;
  }

  /** A safe integer. */
  integer(value: number): void {
    this.reserve(20);
    if (value < 0) this.bytes[this.at++] = minus;
    const size = Math.abs(value);
    if (size < 1e9) {
      this.#digits(size, countDigits(size));
      return;
    }
    const high = Math.floor(size / 1e9);
    if (high < 1e9) this.#digits(high, countDigits(high));
    this.#digits(size - high * 1e9, 9);
  }

  /** At most nine digits, with zeros before. */
  padded(value: number, width: number): void {
    this.reserve(width);
    this.#digits(value, width);
  }

  double(value: number): void {
    if (this.#special(value)) return;
    const size = Math.abs(value);
    if (size >= 1e-5 && size < 1e15) {
      const power = powersOfTen[digitsOfDouble - 1 - exponentOf(size)]!;
      const rounded = Math.round(size * power);
      if (rounded / power === size) {
        this.#decimal(value < 0, rounded, power);
        return;
      }
    }
    this.ascii(String(value));
  }

  /** With the fewest digits that tell a single float from every other: nine always do (FLT_DECIMAL_DIG). */
  single(value: number): void {
    if (this.#special(value)) return;
    const size = Math.abs(value);
    if (!(size >= 1e-5 && size < 1e15)) {
      this.ascii(String(shortest(value)));
      return;
    }
    const exponent = exponentOf(size);
    for (let digits = 7; ; digits++) {
      // A reader of this decimal gets the quotient, since both numbers are exact.
      const power = powersOfTen[Math.max(0, digits - 1 - exponent)]!;
      const rounded = Math.round(size * power);
      if (digits < 9 && Math.fround(rounded / power) !== size) continue;
      this.#decimal(value < 0, rounded, power);
      return;
    }
  }

  /** UTF-8 with what JSON must escape (RFC 8259, 7). */
  text(bytes: Uint8Array, start: number, end: number): void {
    this.reserve(6 * (end - start) + 2);
    const target = this.bytes;
    let at = this.at;
    target[at++] = quote;
    for (let i = start; i < end; i++) {
      const byte = bytes[i]!;
      if (byte >= 0x20 && byte !== quote && byte !== backslash) {
        target[at++] = byte;
        continue;
      }
      const escaped = escapes[byte]!;
      for (let k = 0; k < escaped.length; k++) target[at++] = escaped[k]!;
    }
    target[at++] = quote;
    this.at = at;
  }

  #special(value: number): boolean {
    if (Number.isInteger(value)) {
      if (Object.is(value, -0)) this.ascii('-0.0');
      else if (Number.isSafeInteger(value)) this.integer(value);
      else return false;
      return true;
    }
    if (Number.isFinite(value)) return false;
    if (Number.isNaN(value)) this.raw(nan);
    else this.raw(value > 0 ? infinity : negativeInfinity);
    return true;
  }

  /** `value / power`, without zeros at its end. */
  #decimal(isNegative: boolean, value: number, power: number): void {
    this.reserve(48);
    if (isNegative) this.bytes[this.at++] = minus;
    const whole = Math.floor(value / power);
    this.integer(whole);
    let rest = value - whole * power;
    let digits = countDigits(power) - 1;
    if (rest === 0) return;
    for (const [zeros, unit] of zerosAtEnd) {
      for (let shorter = Math.floor(rest / unit); shorter * unit === rest; shorter = Math.floor(rest / unit)) {
        rest = shorter;
        digits -= zeros;
      }
    }
    this.bytes[this.at++] = point;
    this.#wide(rest, digits);
  }

  #wide(value: number, count: number): void {
    if (count <= 9) {
      this.#digits(value, count);
      return;
    }
    const high = Math.floor(value / 1e9);
    this.#wide(high, count - 9);
    this.#digits(value - high * 1e9, 9);
  }

  #digits(value: number, count: number): void {
    const { bytes: target, at } = this;
    let rest = value | 0;
    for (let i = at + count - 1; i >= at; i--) {
      const tenth = (rest / 10) | 0;
      target[i] = zero + rest - tenth * 10;
      rest = tenth;
    }
    this.at = at + count;
  }
}

/** Of a whole number. */
function countDigits(value: number): number {
  let count = 1;
  for (let power = 10; value >= power; power *= 10) count += 1;
  return count;
}

const zerosAtEnd = [
  [7, 1e7],
  [1, 10],
] as const;

/** Such that the size is between one and ten of that power of ten, for sizes from 1e-5 to 1e15. */
function exponentOf(size: number): number {
  let exponent = 0;
  if (size >= 1) while (size >= powersOfTen[exponent + 1]!) exponent += 1;
  else for (; size * powersOfTen[-exponent]! < 1; ) exponent -= 1;
  return exponent;
}

function shortest(value: number): number {
  for (let digits = 7; digits < 9; digits++) {
    const shorter = Number(value.toPrecision(digits));
    if (Math.fround(shorter) === value) return shorter;
  }
  return Number(value.toPrecision(9));
}

const escapes = Array.from({ length: backslash + 1 }, (_, byte) =>
  Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1)),
);
