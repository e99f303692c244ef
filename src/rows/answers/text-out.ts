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
const powersOfTen = Float64Array.from({ length: 23 }, (_, power) => 10 ** power);
/** A decimal of so many digits is told from every other by its double (DBL_DIG). */
const digitsOfDouble = 15;
const digitsOfSingle = 9;
/** Every decimal of so many digits survives a single float (FLT_DIG). */
const leastDigitsOfSingle = 6;
/** What people write has seldom more, and this costs less than to find fifteen digits. */
const fewDecimals = 6;

const nameOf = ['"NaN"', '"Infinity"', '"-Infinity"'].map((text) => Buffer.from(text));
const [nan = noBytes(), infinity = noBytes(), negativeInfinity = noBytes()] = nameOf;

function noBytes(): Buffer {
  return Buffer.alloc(0);
}

export class TextOut {
  bytes: Buffer;
  /** Where the next byte goes. */
  at = 0;
  /** A number and its bits. */
  readonly #double = new Float64Array(1);
  readonly #words = new Uint32Array(this.#double.buffer);

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

  /** Three numbers below a hundred, with two digits each and a mark between. */
  triple(first: number, second: number, third: number, mark: number): void {
    this.reserve(8);
    const { bytes: target, at } = this;
    target[at] = pairs[2 * first]!;
    target[at + 1] = pairs[2 * first + 1]!;
    target[at + 2] = mark;
    target[at + 3] = pairs[2 * second]!;
    target[at + 4] = pairs[2 * second + 1]!;
    target[at + 5] = mark;
    target[at + 6] = pairs[2 * third]!;
    target[at + 7] = pairs[2 * third + 1]!;
    this.at = at + 8;
  }

  /** With the fewest digits that tell a double from every other. */
  double(value: number): void {
    if (this.#special(value)) return;
    const size = Math.abs(value);
    if (!(size >= 1e-5 && size < 1e15)) {
      this.ascii(String(value));
      return;
    }
    this.reserve(48);
    if (value < 0) this.bytes[this.at++] = minus;
    // A reader of the decimal gets the quotient, since both numbers are exact.
    const few = Math.round(size * powersOfTen[fewDecimals]!);
    if (few < 1e15 && few / powersOfTen[fewDecimals]! === size) {
      this.#decimal(few, fewDecimals);
      return;
    }
    const decimals = digitsOfDouble - 1 - exponentOf(size);
    const rounded = Math.round(size * powersOfTen[decimals]!);
    if (rounded / powersOfTen[decimals]! === size) this.#decimal(rounded, decimals);
    else this.#allDigits(size, decimals + 2);
  }

  /** With the fewest digits that tell a single float from every other: nine always do (FLT_DECIMAL_DIG). */
  single(value: number): void {
    if (this.#special(value)) return;
    const size = Math.abs(value);
    if (!(size >= 1e-5 && size < 1e15)) {
      this.ascii(String(shortest(value)));
      return;
    }
    this.reserve(48);
    if (value < 0) this.bytes[this.at++] = minus;
    const digits = exponentOf(size) + 1;
    const most = Math.max(0, digitsOfSingle - digits);
    let decimals = Math.min(Math.max(0, leastDigitsOfSingle - digits), most);
    for (; decimals < most; decimals++) {
      const power = powersOfTen[decimals]!;
      if (Math.fround(Math.round(size * power) / power) === size) break;
    }
    this.#decimal(Math.round(size * powersOfTen[decimals]!), decimals);
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

  /** `value` with a point before its last `decimals` digits, without zeros at its end. */
  #decimal(value: number, decimals: number): void {
    const power = powersOfTen[decimals]!;
    const whole = Math.floor(value / power);
    this.integer(whole);
    let rest = value - whole * power;
    if (rest === 0) return;
    let digits = decimals;
    for (; rest >= 1e9 && rest % 10 === 0; rest /= 10) digits -= 1;
    if (rest < 1e9) {
      // The remainder of a double is a call into a library, that of an integer is not.
      for (let shorter = (rest / 10) | 0; shorter * 10 === rest; shorter = (rest / 10) | 0) {
        rest = shorter;
        digits -= 1;
      }
    }
    this.bytes[this.at++] = point;
    this.#wide(rest, digits);
  }

  /**
   * A size that has no decimal of fifteen digits, as one of sixteen or seventeen of which `decimals` are behind the point. The size times
   * a power of ten is the sum of two doubles exactly (Dekker 1971), and a decimal stands for the size if it is nearer than half the
   * distance to the next double. That is the same on both sides: the powers of two in the range have at most twelve digits.
   */
  #allDigits(size: number, decimals: number): void {
    const power = powersOfTen[decimals]!;
    const product = size * power;
    const [sizeHigh, powerHigh] = [upperHalf(size), upperHalf(power)];
    const [sizeLow, powerLow] = [size - sizeHigh, power - powerHigh];
    const missing = sizeHigh * powerHigh - product + sizeHigh * powerLow + sizeLow * powerHigh + sizeLow * powerLow;
    let high = Math.floor(product / 1e8);
    const low = product - high * 1e8 + missing;
    const sixteen = nearest(low / 10) * 10;
    this.#double[0] = size;
    this.#words[1] = ((this.#words[1]! >>> 20) - 53) << 20;
    this.#words[0] = 0;
    const halfStep = this.#double[0];
    const isSixteen = Math.abs(sixteen - low) < halfStep * power - 1e-6;
    let rounded = isSixteen ? sixteen : nearest(low);
    // A multiple of 1e8 is a double, and has a decimal of nine digits: so the size is never at one, and the product never passes one.
    if (rounded < 0) [high, rounded] = [high - 1, rounded + 1e8];
    const { bytes: target } = this;
    const whole = Math.max(0, 17 - decimals);
    if (whole === 0) target[this.at++] = zero;
    const start = this.at;
    target[this.at++] = point;
    for (let zeros = decimals - 17; zeros > 0; zeros--) target[this.at++] = zero;
    this.#digits(high, 9);
    this.#digits(rounded, 8);
    for (let i = start; i < start + whole; i++) target[i] = target[i + 1]!;
    target[start + whole] = point;
    if (isSixteen) this.at -= 1;
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
    let i = at + count;
    for (; i > at + 1; i -= 2) {
      const hundredth = (rest / 100) | 0;
      const pair = (rest - hundredth * 100) * 2;
      target[i - 1] = pairs[pair + 1]!;
      target[i - 2] = pairs[pair]!;
      rest = hundredth;
    }
    if (i > at) target[at] = zero + (rest % 10);
    this.at = at + count;
  }
}

/** The digits of all numbers below a hundred. */
const pairs = Buffer.from(Array.from({ length: 100 }, (_, value) => String(value).padStart(2, '0')).join(''));

/** Of a whole number. */
function countDigits(value: number): number {
  let count = 1;
  for (let power = 10; value >= power; power *= 10) count += 1;
  return count;
}

/** Such that the size is between one and ten of that power of ten, for sizes from 1e-5 to 1e15. */
function exponentOf(size: number): number {
  let digits = 1;
  if (size >= 1) {
    while (size >= powersOfTen[digits]!) digits += 1;
    return digits - 1;
  }
  while (size * powersOfTen[digits]! < 1) digits += 1;
  return -digits;
}

/** The upper 26 bits of its fraction (Veltkamp), so that products of halves are exact. */
function upperHalf(value: number): number {
  const scaled = 134_217_729 * value;
  return scaled - (scaled - value);
}

/** Halves go to the even neighbour, as IEEE 754 has it. */
function nearest(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
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
