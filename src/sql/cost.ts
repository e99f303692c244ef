/**
 * What an expression costs the engine, summed up while `checkFilter` reads it: how deep it recurses, what is multiplied inside
 * of what, and the work of planning. Each method throws a `SqlMistake` at the token that exceeds `sqlLimits`.
 */
import { type Frame, multipliersOf } from './frame.ts';
import { sqlLimits } from './limits.ts';
import { SqlMistake } from './sql-mistake.ts';
import type { Token } from './tokens.ts';

export class Cost {
  readonly #frames: Frame[];
  #conditions = 0;
  #work = 0;
  /** Calls with a syntax of their own that are open, and the token after the first of them. */
  #keywordCalls = 0;
  #keywordCallToken = 0;

  constructor(whole: Frame) {
    this.#frames = [whole];
  }

  /** The innermost frame that is open. */
  get frame(): Frame {
    const frame = this.#frames.at(-1);
    if (frame === undefined) throw new Error('there is always a frame');
    return frame;
  }

  open(frame: Frame, token: Token): void {
    this.#frames.push(frame);
    if (this.#frames.length - 1 > sqlLimits.depth) throw tooDeep(token);
    if (frame.keyword === undefined) return;
    if (this.#keywordCalls === 0) this.#keywordCallToken = frame.firstToken;
    this.#keywordCalls += 1;
  }

  /** Closes the innermost frame, whose last element has ended; `index` is that of the next token. */
  close(token: Token, index: number): void {
    const frame = this.frame;
    if (frame.keyword !== undefined) this.#leaveKeywordCall(frame, index);
    this.#frames.pop();
    const depth = frame.deepest + frame.branches + 1;
    if (depth > sqlLimits.depth) throw tooDeep(frame.opened);
    const outer = this.frame;
    outer.inner = Math.max(outer.inner, depth);
    const multipliers = frame.mostMultipliers + multipliersOf(frame);
    if (multipliers > sqlLimits.multipliers) throw tooManyMultipliers(frame.opened);
    outer.innerMultipliers = Math.max(outer.innerMultipliers, multipliers);
    this.addWork(token, depth);
  }

  /** One operator more in the present term. */
  addOperator(token: Token): void {
    this.frame.operators += 1;
    if (this.frame.operators > sqlLimits.depth) throw tooDeep(token);
  }

  /** An AND or OR that the engine balances ends a term. */
  addCondition(token: Token): void {
    this.frame.conditions += 1;
    this.#conditions += 1;
    if (this.#conditions > sqlLimits.conditions) {
      throw new SqlMistake(
        `more than ${sqlLimits.conditions} conditions are joined by AND and OR: write id IN (1, 2, …) for id = 1 OR id = 2 …`,
        token.at,
      );
    }
    this.#endTerm(this.frame);
  }

  endElement(): void {
    const frame = this.frame;
    this.#endTerm(frame);
    const balanced = 2 * Math.ceil(Math.log2(frame.conditions + 1));
    const depth = frame.deepestTerm + frame.common + balanced;
    if (depth > sqlLimits.depth) throw tooDeep(frame.opened);
    frame.deepest = Math.max(frame.deepest, depth);
    frame.deepestTerm = 0;
    frame.conditions = 0;
    frame.betweens = 0;
    frame.common = 0;
  }

  addWork(token: Token, work: number): void {
    this.#work += work;
    if (this.#work <= sqlLimits.work) return;
    throw new SqlMistake('the expression has too many operators inside of one another', token.at);
  }

  #leaveKeywordCall({ opened }: Frame, index: number): void {
    this.#keywordCalls -= 1;
    if (this.#keywordCalls > 0 || index - this.#keywordCallToken <= sqlLimits.tokensInKeywordCall) return;
    throw new SqlMistake(`${opened.value} holds more than ${sqlLimits.tokensInKeywordCall} words and signs`, opened.at);
  }

  #endTerm(frame: Frame): void {
    const depth = frame.operators + frame.inner;
    frame.mostMultipliers = Math.max(frame.mostMultipliers, frame.multipliers + frame.innerMultipliers);
    if (frame.mostMultipliers > sqlLimits.multipliers) throw tooManyMultipliers(frame.opened);
    frame.multipliers = 0;
    frame.innerMultipliers = 0;
    this.addWork(frame.opened, frame.operators * depth);
    frame.deepestTerm = Math.max(frame.deepestTerm, depth);
    frame.operators = 0;
    frame.inner = 0;
  }
}

const tooManyMultipliers = (token: Token): SqlMistake =>
  new SqlMistake(
    `more than ${sqlLimits.multipliers} functions are inside of one another; BETWEEN, CASE, NOT (…), coalesce, CAST, encode and their like count twice`,
    token.at,
  );

const tooDeep = (token: Token): SqlMistake =>
  new SqlMistake(
    `more than ${sqlLimits.depth} operators, functions and brackets are inside of one another; IN takes a long list`,
    token.at,
  );
