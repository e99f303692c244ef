/** What `checkFilter` knows of each bracket, call and CASE that is open while it reads, innermost last. */
import { multiplyingFunctions } from './functions.ts';
import { shown } from './sql-mistake.ts';
import type { Token } from './tokens.ts';

export type FrameKind = 'whole' | 'parentheses' | 'list' | 'call' | 'array' | 'subscript' | 'case';

/** What is open: an expression, or several that commas (in CASE: its words) separate. */
export interface Frame {
  readonly kind: FrameKind;
  /** In upper case, of a call with a syntax of its own. */
  readonly keyword: string | undefined;
  /** Of a call, in lower case. */
  readonly name: string | undefined;
  readonly opened: Token;
  readonly firstToken: number;
  /** The engine balances its ANDs and ORs: nothing but parentheses is around it. */
  readonly isBalanced: boolean;
  /** Index of the argument, and of the token it begins with. */
  argument: number;
  argumentToken: number;
  /** ANDs that belong to a BETWEEN and are still to come. */
  betweens: number;
  /** Of the term that ANDs and ORs end: its operators, and the deepest of the frames inside. */
  operators: number;
  inner: number;
  /** Its `sqlLimits.multipliers`, and the most of the frames inside. */
  multipliers: number;
  innerMultipliers: number;
  /** Of the element that a comma ends: its deepest term, what adds to every term, its ANDs and ORs. */
  deepestTerm: number;
  common: number;
  conditions: number;
  /** Of all elements; those of CASE follow one another as the operators of a chain do. */
  deepest: number;
  mostMultipliers: number;
  branches: number;
}

export const frameOf = (
  kind: FrameKind,
  opened: Token,
  firstToken: number,
  isBalanced: boolean,
  { keyword, name }: { readonly keyword?: string | undefined; readonly name?: string | undefined } = {},
): Frame => ({
  kind,
  keyword,
  name,
  opened,
  firstToken,
  isBalanced,
  argument: 0,
  argumentToken: firstToken,
  betweens: 0,
  operators: 0,
  inner: 0,
  multipliers: 0,
  innerMultipliers: 0,
  deepestTerm: 0,
  common: 0,
  conditions: 0,
  deepest: 0,
  mostMultipliers: 0,
  branches: 0,
});

export function closes({ kind }: Frame, { value }: Token): boolean {
  switch (kind) {
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

export function multipliersOf({ kind, keyword, name }: Frame): number {
  if (kind === 'case' || keyword !== undefined) return 2;
  if (name === undefined) return 0;
  return multiplyingFunctions.has(name) ? 2 : 1;
}

export const nameOf = ({ kind, opened }: Frame): string =>
  kind === 'call' ? `the call of ${shown(opened.value)}` : opened.value;
