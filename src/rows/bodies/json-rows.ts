/** Cuts rows out of JSON: of an array of objects, or of an object in each line (NDJSON). */
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { isObject } from '../../kernel/json-bounds.ts';
import { decoder, mostRowBytes, type Row, type RowSource, rowTooLong, type TakeRow } from './row-source.ts';

const newline = 0x0a;
const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d];

/** A row is the object in a line. Lines without one are left out. */
export class NdjsonRows implements RowSource {
  #rest = Buffer.alloc(0);
  #lines = 0;
  readonly #take: TakeRow;

  constructor(take: TakeRow) {
    this.#take = take;
  }

  push(bytes: Uint8Array): void {
    const text = Buffer.concat([this.#rest, bytes]);
    let start = 0;
    for (let end = text.indexOf(newline); end !== -1; end = text.indexOf(newline, start)) {
      this.#line(text.subarray(start, end));
      start = end + 1;
    }
    this.#rest = Buffer.from(text.subarray(start));
    if (this.#rest.length > mostRowBytes) throw rowTooLong(`line ${this.#lines + 1}`);
  }

  end(): void {
    this.#line(this.#rest);
  }

  #line(line: Uint8Array): void {
    this.#lines += 1;
    const place = `line ${this.#lines}`;
    if (line.length > mostRowBytes) throw rowTooLong(place);
    this.#take(() => {
      const text = decoded(line, place);
      return text.trim() === '' ? undefined : rowOf(text, place);
    });
  }
}

type Expected = 'array' | 'first row' | 'row' | 'comma' | 'nothing';

/** A row is an object of one array. Only what is between its commas is kept, row by row. */
export class JsonRows implements RowSource {
  readonly #parts: Buffer[] = [];
  #partBytes = 0;
  #expected: Expected = 'array';
  #depth = 0;
  #isInText = false;
  #isEscaped = false;
  #rows = 0;
  readonly #take: TakeRow;

  constructor(take: TakeRow) {
    this.#take = take;
  }

  push(given: Uint8Array): void {
    const bytes = Buffer.from(given);
    let start = this.#depth > 0 ? 0 : -1;
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at]!;
      if (this.#depth === 0) {
        if (this.#begins(byte)) start = at;
        continue;
      }
      if (!this.#ends(byte)) continue;
      this.#keep(bytes.subarray(start, at + 1));
      this.#row();
      start = -1;
    }
    if (start !== -1) this.#keep(bytes.subarray(start));
  }

  end(): void {
    if (this.#expected !== 'nothing') throw invalidInput(`row ${this.#rows + 1}: the JSON ends before its array does`);
  }

  /** Says whether a row begins with a byte outside of rows. */
  #begins(byte: number): boolean {
    if (byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d) return false;
    const expected = this.#expected;
    const isRow = byte === openObject && (expected === 'first row' || expected === 'row');
    if (isRow) this.#depth = 1;
    else if (expected === 'array' && byte === openArray) this.#expected = 'first row';
    else if (byte === closeArray && (expected === 'first row' || expected === 'comma')) this.#expected = 'nothing';
    else if (byte === comma && expected === 'comma') this.#expected = 'row';
    else throw this.#unexpected();
    return isRow;
  }

  #unexpected() {
    if (this.#expected === 'array') {
      const lines = 'an object in each line needs the Content-Type application/x-ndjson';
      return invalidInput(`rows of JSON are an array of objects, [{…}, …]; ${lines}`);
    }
    if (this.#expected === 'nothing') return invalidInput('something follows the array of rows');
    const what = this.#expected === 'comma' ? 'a comma or the end of the array' : 'an object';
    return invalidInput(`row ${this.#rows + 1}: ${what} is expected here`);
  }

  /** Says whether a row ends with a byte inside of it. */
  #ends(byte: number): boolean {
    if (this.#isInText) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === backslash) this.#isEscaped = true;
      else if (byte === quote) this.#isInText = false;
      return false;
    }
    if (byte === quote) this.#isInText = true;
    else if (byte === openObject || byte === openArray) this.#depth += 1;
    else if (byte === closeObject || byte === closeArray) this.#depth -= 1;
    return this.#depth === 0;
  }

  #keep(bytes: Buffer): void {
    this.#partBytes += bytes.length;
    if (this.#partBytes > mostRowBytes) throw rowTooLong(`row ${this.#rows + 1}`);
    this.#parts.push(Buffer.from(bytes));
  }

  #row(): void {
    this.#rows += 1;
    this.#expected = 'comma';
    const place = `row ${this.#rows}`;
    const bytes = Buffer.concat(this.#parts.splice(0));
    this.#partBytes = 0;
    this.#take(() => rowOf(decoded(bytes, place), place));
  }
}

function decoded(bytes: Uint8Array, place: string): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw invalidInput(`${place}: the text is not UTF-8`);
  }
}

/** Values take many times the memory of their text. Only in a long row there can be many. */
const mostValues = 200_000;

function requireFewValues(text: string, place: string): void {
  if (text.length < 64 << 10) return;
  let values = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at);
    if (character === comma || character === openArray || character === openObject) values += 1;
  }
  if (values > mostValues) throw invalidInput(`${place}: a row has at most ${mostValues} values`);
}

function rowOf(text: string, place: string): Row {
  requireFewValues(text, place);
  const values = parsed(text, place);
  if (isObject(values)) return { values, place };
  throw invalidInput(`${place}: a row is an object, {"column": value, …}`);
}

const cutLine = 'it ends before its object does; each object has one line, or they are an array, [{…}, …]';

function parsed(text: string, place: string): unknown {
  try {
    return parseExactly(text);
  } catch (error) {
    if (error instanceof LancegateError) throw error;
    const [, position] = /at position (\d+)/.exec(error instanceof Error ? error.message : '') ?? [];
    // Of an array, a row has the closing brackets that it needs.
    const isCut = position === undefined || Number(position) >= text.length;
    const where = isCut ? `: ${cutLine}` : `, at character ${Number(position) + 1}`;
    throw invalidInput(`${place} is not JSON${where}`);
  }
}

/** Integers beyond 2^53 are bigints. Reviving is slow, and only those of 16 digits or more lose any. */
export const parseExactly = (text: string): unknown =>
  /(?<![\d.])\d{16}/.test(text) ? JSON.parse(text, keepLongIntegers) : JSON.parse(text);

/** TypeScript's library does not know the third argument yet. */
function keepLongIntegers(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
  const { source = '' } = context ?? {};
  return /^-?\d+$/.test(source) ? BigInt(source) : value;
}
