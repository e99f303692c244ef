/**
 * The words of the engine's SQL dialect (sqlparser's generic one with backticks). Where versions of it differ (escapes in
 * texts, nested comments, `$$` quoting, `#` in names) the text is refused, so that the engine never reads it otherwise than
 * it was checked. Reads each character once.
 */
import { sqlLimits } from './limits.ts';
import { SqlMistake, shown } from './sql-mistake.ts';

export interface Token {
  /** `name` is a quoted one; `word` may be a keyword. */
  readonly kind: 'word' | 'name' | 'text' | 'bytes' | 'number' | 'symbol' | 'end';
  /** A word in upper case; a name and a text without quotes; else as written. */
  readonly value: string;
  readonly written: string;
  readonly at: number;
}

export interface ReadSql {
  /** The last one is of kind `end`. */
  readonly tokens: readonly Token[];
  /** The text with blanks for comments, so that every token stands where it stood. */
  readonly text: string;
}

const lineComment = /--[^\n]*/y;
const word = /[\p{Alphabetic}_][\p{Alphabetic}0-9_]*/uy;
/** Of hexadecimal digits the engine makes bytes. */
const number = /0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?/y;
/** The longest first. */
const symbol = /::|<=>|<<|>>|\|\||<=|>=|<>|!=|==|[-+*/%=<>&|^()[\],.:]/y;
const ascii = /^[A-Za-z0-9_]+$/;
const runsOn = /[\p{Alphabetic}0-9_.]/uy;

export function readTokens(text: string): ReadSql {
  if (text.length > sqlLimits.characters) {
    throw new SqlMistake(`the expression is longer than ${sqlLimits.characters} characters`, 0);
  }
  return new Lexer(text).read();
}

class Lexer {
  readonly #text: string;
  readonly #tokens: Token[] = [];
  readonly #comments: { readonly from: number; readonly to: number }[] = [];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): ReadSql {
    for (this.#skip(); this.#at < this.#text.length; this.#skip()) {
      this.#tokens.push(this.#next());
      if (this.#tokens.length > sqlLimits.tokens) {
        throw new SqlMistake(`the expression has more than ${sqlLimits.tokens} words and signs`, this.#at);
      }
    }
    this.#tokens.push({ kind: 'end', value: '', written: '', at: this.#at });
    return { tokens: this.#tokens, text: this.#withoutComments() };
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
    this.#comments.push({ from, to: this.#at });
  }

  #skipBlock(): void {
    const from = this.#at;
    const end = this.#text.indexOf('*/', from + 2);
    if (end === -1) throw new SqlMistake('the comment does not end', from);
    const inner = this.#text.indexOf('/*', from + 2);
    if (inner !== -1 && inner < end) throw new SqlMistake('a comment begins inside another', inner);
    this.#at = end + 2;
    this.#comments.push({ from, to: this.#at });
  }

  #next(): Token {
    const at = this.#at;
    const first = this.#text.charAt(at);
    if (first === ',') return this.#sign(',', at);
    if (first === "'") return this.#quotedToken('text', first, at);
    if (isDigit(first.charCodeAt(0)) || first === '.') {
      const digits = this.#digits() ?? this.#match(number);
      if (digits !== undefined) return this.#number(digits, at);
    }
    if (first === '`' || first === '"') return this.#name(first, at);
    if ((first === 'x' || first === 'X') && this.#text.charAt(at + 1) === "'") return this.#bytes(at);
    const letters = this.#match(word);
    if (letters !== undefined) return this.#word(letters, at);
    const sign = this.#match(symbol);
    if (sign !== undefined) return { kind: 'symbol', value: sign, written: sign, at };
    throw new SqlMistake(`${quoteSign(this.#text, at)} has no meaning here`, at);
  }

  #sign(sign: string, at: number): Token {
    this.#at += 1;
    return { kind: 'symbol', value: sign, written: sign, at };
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

  #name(quote: string, at: number): Token {
    const token = this.#quotedToken('name', quote, at);
    if (token.value === '') throw new SqlMistake('a quoted name is empty', at);
    return token;
  }

  #quotedToken(kind: 'text' | 'name', quote: string, at: number): Token {
    const value = this.#quoted(quote, kind);
    return { kind, value, written: this.#text.slice(at, this.#at), at };
  }

  /** A doubled quote stands for itself. */
  #quoted(quote: string, what: string): string {
    const from = this.#at;
    let end = this.#text.indexOf(quote, from + 1);
    while (end !== -1 && this.#text.charAt(end + 1) === quote) end = this.#text.indexOf(quote, end + 2);
    if (end === -1) throw new SqlMistake(`the quoted ${what} does not end`, from);
    this.#at = end + 1;
    const inner = this.#text.slice(from + 1, end);
    return inner.includes(quote) ? inner.replaceAll(quote + quote, quote) : inner;
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

  #withoutComments(): string {
    let text = '';
    let from = 0;
    for (const comment of this.#comments) {
      text +=
        this.#text.slice(from, comment.from) + this.#text.slice(comment.from, comment.to).replaceAll(/[^\n]/g, ' ');
      from = comment.to;
    }
    return text + this.#text.slice(from);
  }
}

const [comma, closing, hyphen, slash, star] = [0x2c, 0x29, 0x2d, 0x2f, 0x2a];
const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39;
const isBlank = (code: number): boolean =>
  code === 0x20 || (code >= 0x09 && code <= 0x0d && code !== 0x0b && code !== 0x0c);

const quoteSign = (text: string, at: number): string => JSON.stringify(String.fromCodePoint(text.codePointAt(at) ?? 0));
