/**
 * Finds the sums, differences and products in an expression that was checked (`check-filter.ts`), with what they are made of.
 * All else is words in their order: this knows as much of the grammar as says where an operand begins and ends.
 */
import type { CheckedSql } from '../kernel/checked-sql.ts';
import { noLimits, type Token, TokenReader } from './tokens.ts';

export type Computation =
  | { readonly kind: 'words'; readonly parts: readonly (string | Computation)[] }
  | { readonly kind: 'brackets'; readonly inner: Computation }
  | { readonly kind: 'negated'; readonly operand: Computation }
  | { readonly kind: 'joined'; readonly operator: string; readonly left: Computation; readonly right: Computation };

export const parseArithmetic = (sql: CheckedSql): Computation => new ArithmeticReader(sql).level();

/** As it was written, save for blanks. */
export const textOf = (expression: Computation): string => {
  switch (expression.kind) {
    case 'words':
      return expression.parts.map((part) => (typeof part === 'string' ? part : textOf(part))).join(' ');
    case 'brackets':
      return `( ${textOf(expression.inner)} )`;
    case 'negated':
      return `- ${textOf(expression.operand)}`;
    case 'joined':
      return `${textOf(expression.left)} ${expression.operator} ${textOf(expression.right)}`;
  }
};

/** Between two of them, or at the beginning, operands stand. */
type Item = { readonly operand: Computation } | { readonly sign: string };

const additive: ReadonlySet<string> = new Set(['+', '-']);
const multiplicative: ReadonlySet<string> = new Set(['*', '/', '%']);
/** These have any other rank: what stands beside them is not taken apart. */
const ofOtherRank: ReadonlySet<string> = new Set(['||', '<<', '>>', '&', '|', '^']);
/**
 * These words are no column where a value should come: behind an operand every word is none. Other keywords can be columns,
 * such as `time` and `end`.
 */
const separatingWords: ReadonlySet<string> = new Set(['BETWEEN', 'ILIKE', 'IN', 'LIKE', 'NOT', 'WHEN']);
const closing: ReadonlySet<string> = new Set([')', ']']);

class ArithmeticReader {
  readonly #sql: TokenReader;

  constructor(sql: string) {
    this.#sql = new TokenReader(sql, noLimits);
  }

  /** Reads up to the bracket, or the END, that closes it. */
  level(): Computation {
    const parts: (string | Computation)[] = [];
    let run: Item[] = [];
    const endRun = () => {
      parts.push(...joinedItems(run));
      run = [];
    };
    for (let next = this.#sql.peek(); !endsLevel(next, run.at(-1)); next = this.#sql.peek()) {
      if (isArithmetic(next)) run.push({ sign: this.#sql.take().value });
      else if (isSeparator(next, run.at(-1))) {
        endRun();
        parts.push(this.#sql.take().written);
      } else run.push({ operand: this.#operand() });
    }
    endRun();
    const [only] = parts;
    return parts.length === 1 && only !== undefined && typeof only !== 'string' ? only : { kind: 'words', parts };
  }

  /** Takes an operand with all that follows it and belongs to it. */
  #operand(): Computation {
    const first = this.#sql.take();
    if (first.value === '(' && first.kind === 'symbol')
      return this.#followed({ kind: 'brackets', inner: this.#until() });
    if (first.value === '[' && first.kind === 'symbol') return this.#followed(words('[', this.#until(), ']'));
    if (first.kind === 'word' && first.value === 'CASE') return this.#followed(words('CASE', this.#until(), 'END'));
    return this.#followed(words(first.written));
  }

  /** The token that ends it is taken. */
  #until(): Computation {
    const inner = this.level();
    this.#sql.take();
    return inner;
  }

  #followed(operand: Computation): Computation {
    if (this.#sql.takeSign('(')) return this.#followed(words(operand, '(', this.#until(), ')'));
    if (this.#sql.takeSign('[')) return this.#followed(words(operand, '[', this.#until(), ']'));
    const { kind, value } = this.#sql.peek();
    const joins = kind === 'symbol' && (value === '.' || value === '::');
    if (!joins && kind !== 'text') return operand;
    const sign = joins ? [this.#sql.take().written] : [];
    return this.#followed(words(operand, ...sign, this.#sql.take().written));
  }
}

const words = (...parts: readonly (string | Computation)[]): Computation => ({ kind: 'words', parts });

const isOperand = (item: Item | undefined): boolean => item !== undefined && 'operand' in item;

const endsLevel = ({ kind, value }: Token, before: Item | undefined): boolean =>
  kind === 'end' ||
  (kind === 'symbol' && closing.has(value)) ||
  (kind === 'word' && value === 'END' && isOperand(before));

const isArithmetic = ({ kind, value }: Token): boolean =>
  kind === 'symbol' && (additive.has(value) || multiplicative.has(value) || ofOtherRank.has(value));

/** What stands behind an operand without a sign belongs to no sum. */
const isSeparator = ({ kind, value }: Token, before: Item | undefined): boolean =>
  (kind === 'word' && separatingWords.has(value)) ||
  (kind === 'symbol' && value !== '(' && value !== '[') ||
  isOperand(before);

/** Products bind tighter than sums, and the first of equals first. */
function joinedItems(items: readonly Item[]): readonly (string | Computation)[] {
  const plain = items.map((item) => ('sign' in item ? item.sign : item.operand));
  if (items.length === 0 || items.some((item) => 'sign' in item && ofOtherRank.has(item.sign))) return plain;
  let at = 0;
  const signIn = (signs: ReadonlySet<string>): string | undefined => {
    const item = items[at];
    return item !== undefined && 'sign' in item && signs.has(item.sign) ? item.sign : undefined;
  };
  const signed = (): Computation | undefined => {
    const sign = signIn(additive);
    const item = items[at];
    at += 1;
    if (item === undefined) return undefined;
    if ('operand' in item) return item.operand;
    const operand = signed();
    if (operand === undefined || sign === undefined) return undefined;
    return sign === '-' ? { kind: 'negated', operand } : words('+', operand);
  };
  const chain = (signs: ReadonlySet<string>, part: () => Computation | undefined): Computation | undefined => {
    let left = part();
    for (let operator = signIn(signs); operator !== undefined; operator = signIn(signs)) {
      at += 1;
      const right = part();
      left = left && right && { kind: 'joined', operator, left, right };
    }
    return left;
  };
  const whole = chain(additive, () => chain(multiplicative, signed));
  return whole === undefined || at < items.length ? plain : [whole];
}
