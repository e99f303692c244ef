/**
 * Writes JSON text as bytes. Numbers and texts are written as bytes, several at once where that is possible: strings in between would
 * take three times as long (docs/measurements/rows.md).
 */
import {
  countDigits,
  exponentOf,
  fractionLengths,
  fractions,
  nearest,
  pairOf,
  powerOfTen,
  shortest,
  upperHalf,
} from './digits.ts';

const [quote, backslash, comma, zero, minus, point] = [0x22, 0x5c, 0x2c, 0x30, 0x2d, 0x2e];

/** A decimal of so many digits is told from every other by its double (DBL_DIG). */
const digitsOfDouble = 15;
const digitsOfSingle = 9;
/** Every decimal of so many digits survives a single float (FLT_DIG). */
const leastDigitsOfSingle = 6;

/** Bytes that are written often, four at a time: what the last word has behind them is written over by what follows. */
export interface FixedText {
  readonly words: Int32Array;
  readonly length: number;
}

export function fixedText(text: string): FixedText {
  const length = Buffer.byteLength(text);
  const padded = Buffer.alloc(Math.ceil(length / 4) * 4);
  padded.write(text);
  return { words: Int32Array.from({ length: padded.length / 4 }, (_, i) => padded.readInt32LE(4 * i)), length };
}

const nan = fixedText('"NaN"');
const infinity = fixedText('"Infinity"');
const negativeInfinity = fixedText('"-Infinity"');

/** There is always room for so many bytes behind those that were reserved, so words may go beyond. */
const beyond = 8;

export class TextOut {
  bytes: Buffer;
  /** The next byte goes there. */
  at = 0;
  #view: DataView;
  /** Both have the same bytes: a number is written, and its bits are read. */
  readonly #double = new Float64Array(1);
  readonly #words = new Uint32Array(this.#double.buffer);

  constructor(capacity: number) {
    this.bytes = Buffer.allocUnsafeSlow(capacity + beyond);
    this.#view = viewOf(this.bytes);
  }

  /** What was written, until more is. */
  take(): Buffer {
    const taken = this.bytes.subarray(0, this.at);
    this.at = 0;
    return taken;
  }

  reserve(count: number): void {
    if (this.at + count + beyond <= this.bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.bytes.length, this.at + count + beyond));
    this.bytes.copy(larger, 0, 0, this.at);
    this.bytes = larger;
    this.#view = viewOf(larger);
  }

  byte(value: number): void {
    this.reserve(1);
    this.bytes[this.at++] = value;
  }

  fixed({ words, length }: FixedText): void {
    this.reserve(length);
    const { at } = this;
    for (let i = 0; i < words.length; i++) this.#view.setInt32(at + 4 * i, words[i]!, true);
    this.at = at + length;
  }

  raw(bytes: Uint8Array): void {
    this.reserve(bytes.length);
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
  }

  ascii(text: string): void {
    const { length } = text;
    this.reserve(length);
    const { bytes: target, at } = this;
    for (let i = 0; i < length; i++) target[at + i] = text.charCodeAt(i);
    this.at = at + length;
  }

  /** `value` is a safe integer. */
  integer(value: number): void {
    this.reserve(20);
    if (value < 0) this.bytes[this.at++] = minus;
    const size = Math.abs(value);
    if (size < 1e9) {
      this.#digits(size, countDigits(size));
      return;
    }
    const high = Math.floor(size / 1e9);
    this.#digits(high, countDigits(high));
    this.#digits(size - high * 1e9, 9);
  }

  /** Writes at most nine digits, with zeros before. */
  padded(value: number, width: number): void {
    this.reserve(width);
    this.#digits(value, width);
  }

  /** Three numbers below a hundred, with two digits each and a mark between. */
  triple(first: number, second: number, third: number, mark: number): void {
    this.reserve(8);
    const { at } = this;
    const view = this.#view;
    view.setUint16(at, pairOf(first), true);
    this.bytes[at + 2] = mark;
    view.setUint16(at + 3, pairOf(second), true);
    this.bytes[at + 5] = mark;
    view.setUint16(at + 6, pairOf(third), true);
    this.at = at + 8;
  }

  /** Writes the fewest digits that tell a double from every other. */
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
    const millionths = Math.round(size * 1e6);
    if (size < 1e9 && millionths / 1e6 === size) {
      this.#millionths(Math.floor(size), millionths - Math.floor(size) * 1e6);
      return;
    }
    const decimals = digitsOfDouble - 1 - exponentOf(size);
    const rounded = Math.round(size * powerOfTen(decimals));
    if (rounded / powerOfTen(decimals) === size) this.#decimal(rounded, decimals);
    else this.#allDigits(size, decimals + 2);
  }

  /** Writes the fewest digits that tell a single float from every other: nine always do (FLT_DECIMAL_DIG). */
  single(value: number): void {
    if (this.#special(value)) return;
    const size = Math.abs(value);
    if (!(size >= 1e-5 && size < 1e15)) {
      this.ascii(String(shortest(value)));
      return;
    }
    this.reserve(48);
    if (value < 0) this.bytes[this.at++] = minus;
    const thousandths = Math.round(size * 1e3);
    if (thousandths < 1e6 && Math.fround(thousandths / 1e3) === size) {
      const whole = (thousandths / 1_000) | 0;
      this.#millionths(whole, (thousandths - whole * 1_000) * 1_000);
      return;
    }
    const digits = exponentOf(size) + 1;
    const most = Math.max(0, digitsOfSingle - digits);
    let decimals = Math.min(Math.max(0, leastDigitsOfSingle - digits), most);
    for (; decimals < most; decimals++) {
      const power = powerOfTen(decimals);
      if (Math.fround(Math.round(size * power) / power) === size) break;
    }
    this.#decimal(Math.round(size * powerOfTen(decimals)), decimals);
  }

  /** Writes UTF-8, and escapes what JSON must escape (RFC 8259, 7). */
  text(source: DataView, start: number, end: number): void {
    this.reserve(6 * (end - start) + 2);
    const view = this.#view;
    let at = this.at;
    view.setUint8(at++, quote);
    for (let i = start; i < end; ) {
      const word = i + 4 <= end ? source.getInt32(i, true) : 0;
      if (hasEscape(word)) {
        this.at = at;
        this.#escaped(source.getUint8(i++));
        at = this.at;
      } else {
        view.setInt32(at, word, true);
        at += 4;
        i += 4;
      }
    }
    view.setUint8(at, quote);
    this.at = at + 1;
  }

  #escaped(byte: number): void {
    if (byte >= 0x20 && byte !== quote && byte !== backslash) {
      this.bytes[this.at++] = byte;
      return;
    }
    const escaped = escapes[byte]!;
    for (let k = 0; k < escaped.length; k++) this.bytes[this.at++] = escaped[k]!;
  }

  /** Takes the quotation marks off the text from `start` on, unless it is empty or has a comma or what JSON escapes. */
  unquoted(start: number): boolean {
    const view = this.#view;
    const end = this.at - 1;
    if (start + 1 === end) return false;
    for (let i = start + 1; i < end; i++) {
      const byte = view.getUint8(i);
      if (byte === comma || byte === backslash) return false;
    }
    for (let i = start; i < end; i += 4) view.setInt32(i, view.getInt32(i + 1, true), true);
    this.at = end - 1;
    return true;
  }

  #special(value: number): boolean {
    if (Number.isInteger(value)) {
      if (Object.is(value, -0)) this.ascii('-0.0');
      else if (Number.isSafeInteger(value)) this.integer(value);
      else return false;
      return true;
    }
    if (Number.isFinite(value)) return false;
    if (Number.isNaN(value)) this.fixed(nan);
    else this.fixed(value > 0 ? infinity : negativeInfinity);
    return true;
  }

  /** Writes a size below 1e9. */
  #millionths(whole: number, millionths: number): void {
    this.#digits(whole, countDigits(whole));
    const { at } = this;
    const view = this.#view;
    const thousandths = (millionths / 1_000) | 0;
    const rest = millionths - thousandths * 1_000;
    view.setInt32(at, fractions[thousandths]!, true);
    if (rest === 0) {
      this.at = at + fractionLengths[thousandths]!;
      return;
    }
    view.setInt32(at + 4, fractions[rest]! >> 8, true);
    this.at = at + 3 + fractionLengths[rest]!;
  }

  /** Writes `value` with a point before its last `decimals` digits, without zeros at its end. */
  #decimal(value: number, decimals: number): void {
    const power = powerOfTen(decimals);
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
   * Writes a size that has no decimal of fifteen digits as one of sixteen or seventeen of which `decimals` are behind the point. The size
   * times a power of ten is the sum of two doubles exactly (Dekker 1971), and a decimal stands for the size if it is nearer than half the
   * distance to the next double. That is the same on both sides: the powers of two in the range have at most twelve digits.
   */
  #allDigits(size: number, decimals: number): void {
    const power = powerOfTen(decimals);
    const product = size * power;
    const sizeHigh = upperHalf(size);
    const powerHigh = upperHalf(power);
    const sizeLow = size - sizeHigh;
    const powerLow = power - powerHigh;
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

  /** Writes the last digits of a whole number below 2^31. */
  #digits(value: number, count: number): void {
    const { at } = this;
    const view = this.#view;
    let rest = value | 0;
    let i = at + count - 2;
    for (; i >= at; i -= 2) {
      const hundredth = (rest / 100) | 0;
      view.setUint16(i, pairOf(rest - hundredth * 100), true);
      rest = hundredth;
    }
    if (i === at - 1) view.setUint8(at, zero + rest);
    this.at = at + count;
  }
}

export const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength);

/** Whether a byte of a word is below a space, a quotation mark or a backslash (Mycroft 1987: no byte that is one is missed). */
function hasEscape(word: number): boolean {
  const quotes = word ^ 0x22222222;
  const backslashes = word ^ 0x5c5c5c5c;
  const found =
    ((word - 0x20202020) & ~word) | ((quotes - 0x01010101) & ~quotes) | ((backslashes - 0x01010101) & ~backslashes);
  return (found & 0x80808080) !== 0;
}

const escapes = Array.from({ length: backslash + 1 }, (_, byte) =>
  Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1)),
);
