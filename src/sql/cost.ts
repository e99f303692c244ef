/**
 * What an expression costs the engine, summed up while `checkFilter` reads it: how deep it recurses, what is multiplied inside
 * of what, and the work of planning. Each method throws a `SqlMistake` at the token that exceeds `sqlLimits`.
 */
import { keywordCalls, multiplyingFunctions, replaceMultipliers } from './functions.ts';
import { sqlLimits } from './limits.ts';
import { SqlMistake, shown, type Token } from './tokens.ts';

export type FrameKind = 'whole' | 'parentheses' | 'list' | 'call' | 'array' | 'subscript' | 'case';

/** What is open: a bracket, call or CASE around an expression, or around several that commas (in CASE: its words) separate. */
export class Frame {
  readonly kind: FrameKind;
  readonly opened: Token;
  /** How many tokens were taken before its first one. */
  readonly start: number;
  /** The engine balances its ANDs and ORs: nothing but parentheses is around it. */
  readonly isBalanced: boolean;
  /** The function of a call, in lower case. */
  readonly name: string | undefined;
  /** The function of a call with a syntax of its own, in upper case. */
  readonly keyword: string | undefined;
  /** Index of the argument, the token it begins with, and how many tokens were taken before that. */
  argument = 0;
  argumentToken: Token;
  argumentStart: number;
  /** It has, by index, the arguments that must be literals. */
  readonly literals: string[] = [];
  /** How many ANDs that belong to a BETWEEN are still to come. */
  betweens = 0;
  /** Two counts of the term that ANDs and ORs end: its operators, and the deepest of the frames inside. */
  operators = 0;
  inner = 0;
  /** What the same term counts of `sqlLimits.multipliers`, and the most that a frame inside counts. */
  multipliers = 0;
  innerMultipliers = 0;
  /** Three counts of the element that a comma ends: its deepest term, what adds to every term, its ANDs and ORs. */
  deepestTerm = 0;
  common = 0;
  conditions = 0;
  /** Counts over all elements; those of CASE follow one another as the operators of a chain do. */
  deepest = 0;
  mostMultipliers = 0;
  branches = 0;

  /** `first` is the token after `opened`. Of a call `opened` is the name. */
  constructor(kind: FrameKind, opened: Token, start: number, first: Token, isBalanced: boolean) {
    this.kind = kind;
    this.opened = opened;
    this.start = start;
    this.argumentStart = start;
    this.argumentToken = first;
    this.isBalanced = isBalanced;
    this.name = kind === 'call' ? opened.value.toLowerCase() : undefined;
    this.keyword = kind === 'call' && keywordCalls.has(opened.value) ? opened.value : undefined;
  }

  /** How a message names the frame. */
  get shown(): string {
    return this.kind === 'call' ? `the call of ${shown(this.opened.value)}` : this.opened.value;
  }

  get ownMultipliers(): number {
    if (this.kind === 'case' || this.keyword !== undefined) return 2;
    if (this.name === undefined) return 0;
    if (this.name === 'replace') return replaceMultipliers(this.literals[1] ?? '', this.literals[2] ?? '');
    return multiplyingFunctions.has(this.name) ? 2 : 1;
  }

  isClosedBy({ value }: Token): boolean {
    switch (this.kind) {
      case 'whole':
        return false;
      case 'case':
        return value === 'END';
      case 'array':
      case 'subscript':
        return value === ']';
      default:
        return value === ')';
    }
  }
}

export class Cost {
  readonly #whole: Frame;
  /** The open frames inside of the whole, the innermost one last. */
  readonly #frames: Frame[] = [];
  #conditions = 0;
  #work = 0;
  /** Calls with a syntax of their own that are open, and where the first of them starts. */
  #keywordCalls = 0;
  #keywordCallStart = 0;

  constructor(whole: Frame) {
    this.#whole = whole;
  }

  /** The innermost frame that is open. */
  get frame(): Frame {
    return this.#frames.at(-1) ?? this.#whole;
  }

  open(frame: Frame): void {
    this.#frames.push(frame);
    if (this.#frames.length > sqlLimits.depth) throw tooDeep(frame.opened);
    if (frame.keyword === undefined) return;
    if (this.#keywordCalls === 0) this.#keywordCallStart = frame.start;
    this.#keywordCalls += 1;
  }

  /** Closes the innermost frame, whose last element has ended with `token`; `taken` is the number of tokens up to it. */
  close(token: Token, taken: number): void {
    const frame = this.frame;
    if (frame.keyword !== undefined) this.#leaveKeywordCall(frame, taken);
    this.#frames.pop();
    const depth = frame.deepest + frame.branches + 1;
    if (depth > sqlLimits.depth) throw tooDeep(frame.opened);
    const outer = this.frame;
    outer.inner = Math.max(outer.inner, depth);
    const multipliers = frame.mostMultipliers + frame.ownMultipliers;
    if (multipliers > sqlLimits.multipliers) throw tooManyMultipliers(frame.opened);
    outer.innerMultipliers = Math.max(outer.innerMultipliers, multipliers);
    this.addWork(token, depth);
  }

  /** Counts one operator more in the present term. */
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

  #leaveKeywordCall({ opened }: Frame, taken: number): void {
    this.#keywordCalls -= 1;
    if (this.#keywordCalls > 0 || taken - this.#keywordCallStart <= sqlLimits.tokensInKeywordCall) return;
    throw new SqlMistake(`${opened.value} holds more than ${sqlLimits.tokensInKeywordCall} words and signs`, opened.at);
  }

  #endTerm(frame: Frame): void {
    const depth = frame.operators + frame.inner;
    frame.mostMultipliers = Math.max(frame.mostMultipliers, frame.multipliers + frame.innerMultipliers);
    if (frame.mostMultipliers > sqlLimits.multipliers) throw tooManyMultipliers(frame.opened);
    this.addWork(frame.opened, frame.operators * depth);
    frame.deepestTerm = Math.max(frame.deepestTerm, depth);
    frame.multipliers = 0;
    frame.innerMultipliers = 0;
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
