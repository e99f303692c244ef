import { SqlMistake, shown } from './sql-mistake.ts';
import type { Token } from './tokens.ts';

/** Reads tokens in order, once each. */
export class TokenCursor {
  readonly #tokens: readonly Token[];
  #next = 0;

  /** The last of `tokens` is of kind `end`; it is never taken. */
  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  /** Index of the token that comes next. */
  get index(): number {
    return this.#next;
  }

  at(index: number): Token | undefined {
    return this.#tokens[index];
  }

  peek(): Token {
    const token = this.#tokens[this.#next];
    if (token === undefined) throw new Error('the last token is never passed');
    return token;
  }

  take(): Token {
    const token = this.peek();
    if (token.kind === 'end') throw new SqlMistake('the expression ends too early', token.at);
    this.#next += 1;
    return token;
  }

  isOneOf(signs: ReadonlySet<string>): boolean {
    const { kind, value } = this.peek();
    return kind === 'symbol' && signs.has(value);
  }

  isSign(sign: string): boolean {
    const { kind, value } = this.peek();
    return kind === 'symbol' && value === sign;
  }

  isWord(word: string): boolean {
    const { kind, value } = this.peek();
    return kind === 'word' && value === word;
  }
}

export const unexpected = (token: Token): SqlMistake =>
  new SqlMistake(
    token.kind === 'end'
      ? 'the expression ends too early'
      : `${shown(token.written)} stands where an operator should come, such as = or AND`,
    token.at,
  );
