/**
 * The words of the engine's SQL dialect (sqlparser's generic one with backticks), in order. Where versions of the dialect
 * differ (escapes in texts, nested comments, `$$` quoting, `#` in names) the text is refused, so that the engine never reads it
 * otherwise than it was checked. Each character is read once.
 */
import { sqlLimits } from './limits.ts';

/** What is wrong with a text, and where: `at` is an offset into it. */
export class SqlMistake extends Error {
  readonly at: number;

  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

/** A part of the client's own text, as a message quotes it. */
export const shown = (text: string): string => (text.length > 40 ? `${text.slice(0, 40)}…` : text);

export interface Token {
  /** `name` is a quoted one; `word` may be a keyword. */
  readonly kind: 'word' | 'name' | 'text' | 'bytes' | 'number' | 'symbol' | 'end';
  /** A word in upper case; a name and a text without quotes; else as written. */
  readonly value: string;
  readonly written: string;
  readonly at: number;
}

/** A token stands where an operator should come. */
export const unexpected = (token: Token): SqlMistake =>
  new SqlMistake(
    token.kind === 'end'
      ? 'the expression ends too early'
      : `${shown(token.written)} stands where an operator should come, such as = or AND`,
    token.at,
  );

const lineComment = /--[^\n]*/y;
const word = /[\p{Alphabetic}_][\p{Alphabetic}0-9_]*/uy;
/** The engine makes bytes of hexadecimal digits. */
const number = /0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y;
/** The longest come first. */
const symbol = /::|<=>|<<|>>|\|\||<=|>=|<>|!=|==|[-+*/%=<>&|^()[\],.:]/y;
const ascii = /^[A-Za-z0-9_]+$/;
const runsOn = /[\p{Alphabetic}0-9_.]/uy;

/** One text may have so many. */
type TextLimits = Readonly<Record<'characters' | 'tokens', number>>;

/** Such a text was read before. What the check adds to it may take it past the limits of a client's text. */
export const noLimits: TextLimits = { characters: Number.POSITIVE_INFINITY, tokens: Number.POSITIVE_INFINITY };

/** What double quotes stand around: names; or, directly behind an equals sign, texts. */
export type DoubleQuotes = 'names' | 'texts behind =';

const equals: ReadonlySet<string> = new Set(['=', '==']);

/** Reads a text token by token, each once, and knows the one that comes next. Throws `SqlMistake`. */
export class TokenReader {
  readonly #limits: TextLimits;
  readonly #doubleQuotes: DoubleQuotes;
  readonly #text: string;
  /** They stand in their order, each with what the engine gets there. */
  readonly #rewritten: { readonly from: number; readonly to: number; readonly as: string }[] = [];
  #at = 0;
  #next: Token;
  #taken: Token | undefined;
  #takenBefore: Token | undefined;
  #count = 0;

  constructor(text: string, limits: TextLimits = sqlLimits, doubleQuotes: DoubleQuotes = 'names') {
    if (text.length > limits.characters) {
      throw new SqlMistake(`the expression is longer than ${limits.characters} characters`, 0);
    }
    this.#limits = limits;
    this.#doubleQuotes = doubleQuotes;
    this.#text = text;
    this.#next = this.#read();
  }

  /** How many tokens were taken. */
  get count(): number {
    return this.#count;
  }

  /** The token before the one that was taken last. */
  get takenBefore(): Token | undefined {
    return this.#takenBefore;
  }

  /** Returns the token that comes next; one of kind `end` behind the last. */
  peek(): Token {
    return this.#next;
  }

  take(): Token {
    const token = this.#next;
    if (token.kind === 'end') throw unexpected(token);
    this.#count += 1;
    if (this.#count > this.#limits.tokens) {
      throw new SqlMistake(`the expression has more than ${this.#limits.tokens} words and signs`, token.at);
    }
    this.#takenBefore = this.#taken;
    this.#taken = token;
    this.#next = this.#read();
    return token;
  }

  isSign(sign: string): boolean {
    return this.#is('symbol', sign);
  }

  /** Takes the sign if it comes next. */
  takeSign(sign: string): boolean {
    return this.#takeIf('symbol', sign);
  }

  /** Takes the word, in upper case, if it comes next. */
  takeWord(word: string): boolean {
    return this.#takeIf('word', word);
  }

  /**
   * What was read, with blanks for comments, and backticks around every quoted name: of double quotes the engine makes a name in a
   * condition, and a text in the value of a column.
   */
  forEngine(): string {
    let text = '';
    let passed = 0;
    for (const { from, to, as } of this.#rewritten) {
      text += this.#text.slice(passed, from) + as;
      passed = to;
    }
    return text + this.#text.slice(passed);
  }

  #is(kind: Token['kind'], value: string): boolean {
    return this.#next.kind === kind && this.#next.value === value;
  }

  #takeIf(kind: Token['kind'], value: string): boolean {
    const isNext = this.#is(kind, value);
    if (isNext) this.take();
    return isNext;
  }

  #read(): Token {
    this.#skip();
    return this.#at < this.#text.length ? this.#token() : { kind: 'end', value: '', written: '', at: this.#at };
  }

  #skip(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (isBlank(code)) this.#at += 1;
      else if (code === hyphen && this.#text.charCodeAt(this.#at + 1) === hyphen) this.#skipLine();
      else if (code === slash && this.#text.charCodeAt(this.#at + 1) === star) this.#skipBlock();
      else return;
    }
  }

  #skipLine(): void {
    const from = this.#at;
    this.#match(lineComment);
    this.#blank(from);
  }

  #skipBlock(): void {
    const from = this.#at;
    const end = this.#text.indexOf('*/', from + 2);
    if (end === -1) throw new SqlMistake('the comment does not end', from);
    const inner = this.#text.indexOf('/*', from + 2);
    if (inner !== -1 && inner < end) throw new SqlMistake('a comment begins inside another', inner);
    this.#at = end + 2;
    this.#blank(from);
  }

  #blank(from: number): void {
    const as = this.#text.slice(from, this.#at).replaceAll(/[^\n]/g, ' ');
    this.#rewritten.push({ from, to: this.#at, as });
  }

  #token(): Token {
    const at = this.#at;
    const first = this.#text.charAt(at);
    // Long lists have as many commas as values.
    if (first === ',') return this.#comma(at);
    if (first === "'") return this.#quotedToken('text', first, at);
    if (isDigit(first.charCodeAt(0)) || first === '.') {
      const digits = this.#digits() ?? this.#match(number);
      if (digits !== undefined) return this.#number(digits, at);
    }
    if (first === '`') return this.#quotedToken('name', first, at);
    if (first === '"') return this.#doubleQuoted(at);
    if ((first === 'x' || first === 'X') && this.#text.charAt(at + 1) === "'") return this.#bytes(at);
    const letters = this.#match(word);
    if (letters !== undefined) return this.#word(letters, at);
    const sign = this.#match(symbol);
    if (sign !== undefined) return { kind: 'symbol', value: sign, written: sign, at };
    throw new SqlMistake(`${quoteSign(this.#text, at)} has no meaning here`, at);
  }

  #comma(at: number): Token {
    this.#at += 1;
    return { kind: 'symbol', value: ',', written: ',', at };
  }

  /** A whole number without anything that belongs to it; long lists have many. Else undefined, and nothing is read. */
  #digits(): string | undefined {
    let end = this.#at;
    while (isDigit(this.#text.charCodeAt(end))) end += 1;
    const after = this.#text.charCodeAt(end);
    if (end === this.#at || !(after === comma || after === closing || isBlank(after))) return undefined;
    const digits = this.#text.slice(this.#at, end);
    this.#at = end;
    return digits;
  }

  #quotedToken(kind: 'text' | 'name', quote: string, at: number): Token {
    const value = this.#quoted(quote, kind);
    if (kind === 'name' && value === '') throw new SqlMistake('a quoted name is empty', at);
    return { kind, value, written: this.#text.slice(at, this.#at), at };
  }

  #doubleQuoted(at: number): Token {
    if (this.#doubleQuotes === 'texts behind =' && this.#isCompared()) {
      const text = this.#quotedToken('text', '"', at);
      this.#rewritten.push({ from: at, to: this.#at, as: `'${text.value.replaceAll("'", "''")}'` });
      return text;
    }
    const token = this.#quotedToken('name', '"', at);
    this.#rewritten.push({ from: at, to: this.#at, as: `\`${token.value.replaceAll('`', '``')}\`` });
    return token;
  }

  /** Says whether what is read now stands behind an equals sign. */
  #isCompared(): boolean {
    return this.#taken?.kind === 'symbol' && equals.has(this.#taken.value);
  }

  /** A doubled quote stands for itself. */
  #quoted(quote: string, what: string): string {
    const from = this.#at;
    let end = this.#text.indexOf(quote, from + 1);
    while (end !== -1 && this.#text.charAt(end + 1) === quote) end = this.#text.indexOf(quote, end + 2);
    if (end === -1) throw new SqlMistake(`the quoted ${what} does not end`, from);
    this.#at = end + 1;
    return this.#text.slice(from + 1, end).replaceAll(quote + quote, quote);
  }

  #bytes(at: number): Token {
    this.#at += 1;
    const value = this.#quoted("'", 'hexadecimal literal');
    if (!/^(?:[0-9a-fA-F]{2})*$/.test(value)) throw new SqlMistake("X'…' takes pairs of hexadecimal digits", at);
    return { kind: 'bytes', value, written: this.#text.slice(at, this.#at), at };
  }

  #number(digits: string, at: number): Token {
    // The engine takes an L behind a number for a part of it.
    if (this.#text.charAt(this.#at) === 'L') this.#at += 1;
    runsOn.lastIndex = this.#at;
    if (runsOn.test(this.#text)) throw new SqlMistake(`the number ${shown(digits)} runs into what follows`, at);
    // The engine makes infinity of it.
    if (Number(digits) === Infinity)
      throw new SqlMistake(`the number ${shown(digits)} is larger than any that is stored`, at);
    return { kind: 'number', value: digits, written: digits, at };
  }

  #word(letters: string, at: number): Token {
    const next = this.#text.charAt(this.#at);
    if ('#@$'.includes(next) && next !== '') {
      throw new SqlMistake(`a name that holds ${next} is written in backticks`, at);
    }
    const value = letters.toUpperCase();
    // A long s is an S in upper case: no keyword is to hide so.
    if (ascii.test(value) && !ascii.test(letters)) throw new SqlMistake(`write ${value} in plain letters`, at);
    return { kind: 'word', value, written: letters, at };
  }

  /** What the expression matches at the present position; steps over it. */
  #match(expression: RegExp): string | undefined {
    expression.lastIndex = this.#at;
    const found = expression.exec(this.#text)?.[0];
    if (found !== undefined) this.#at = expression.lastIndex;
    return found;
  }
}

const [comma, closing, hyphen, slash, star] = [0x2c, 0x29, 0x2d, 0x2f, 0x2a];
const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;
const isBlank = (code: number): boolean =>
  code === 0x20 || (code >= 0x09 && code <= 0x0d && code !== 0x0b && code !== 0x0c);

const quoteSign = (text: string, at: number): string => JSON.stringify(String.fromCodePoint(text.codePointAt(at) ?? 0));
