/**
 * The one file that reads clients' SQL: conditions over rows. It knows the grammar of expressions well enough to say which
 * token is an operator, and of what: so it bounds how deep the engine will recurse (`limits.ts`), lets no function or type
 * pass that is not on the list, and finds most mistakes, with their position. It is not the engine's parser: what it
 * accepts may still be refused there. No recursion, and each token is looked at once.
 */
import type { CheckedSql } from '../kernel/checked-sql.ts';
import { Cost } from './cost.ts';
import { closes, type Frame, type FrameKind, frameOf, nameOf } from './frame.ts';
import { argumentRules, keywordCalls } from './functions.ts';
import { sqlLimits } from './limits.ts';
import { readType } from './read-type.ts';
import { refusalOf, SqlMistake, shown } from './sql-mistake.ts';
import { TokenCursor, unexpected } from './token-cursor.ts';
import { readTokens, type Token } from './tokens.ts';
import { literalTypes } from './types.ts';

/** `allowed` has the names of functions in lower case. `InvalidInput` names the parameter, what is wrong, and where. */
export function checkFilter(text: string, parameter: string, allowed: ReadonlySet<string>): CheckedSql {
  try {
    const sql = readTokens(text);
    new FilterReader(sql.tokens, allowed).read();
    // In parentheses the engine cannot pass over what follows an expression that ended early.
    return `(${sql.text})` as CheckedSql;
  } catch (error) {
    if (error instanceof SqlMistake) throw refusalOf(error, parameter, text);
    throw error;
  }
}

const binaryOperators: ReadonlySet<string> = new Set('+ - * / % || = == <> != < <= > >= << >> & | ^'.split(' '));
const tighterThanLike: ReadonlySet<string> = new Set('+ - * / % || << >> & | ^ :: [ .'.split(' '));
const truths: ReadonlySet<string> = new Set(['NULL', 'TRUE', 'FALSE', 'UNKNOWN']);
const matches: ReadonlySet<string> = new Set(['LIKE', 'ILIKE', 'IN', 'BETWEEN']);
const caseWords: ReadonlySet<string> = new Set(['WHEN', 'THEN', 'ELSE']);
/** They end an operand, or begin what is no operand: none of them can be a column without quotes. */
const noOperands: ReadonlySet<string> = new Set('AND OR IS IN LIKE ILIKE BETWEEN ESCAPE WHEN THEN ELSE'.split(' '));
const subqueryWords: ReadonlySet<string> = new Set(['SELECT', 'WITH', 'EXISTS']);
const intervalUnits = /^(?:YEAR|QUARTER|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND|NANOSECOND)S?$/;

class FilterReader {
  readonly #sql: TokenCursor;
  readonly #allowed: ReadonlySet<string>;
  readonly #cost: Cost;

  constructor(tokens: readonly Token[], allowed: ReadonlySet<string>) {
    this.#sql = new TokenCursor(tokens);
    this.#allowed = allowed;
    this.#cost = new Cost(frameOf('whole', this.#sql.peek(), 0, true));
  }

  read(): void {
    if (this.#sql.peek().kind === 'end') throw new SqlMistake('the expression is empty', 0);
    let wantsOperand = true;
    while (this.#sql.peek().kind !== 'end') wantsOperand = wantsOperand ? this.#operand() : this.#operator();
    const open = this.#cost.frame;
    if (open.kind !== 'whole') throw new SqlMistake(`${nameOf(open)} is not closed`, open.opened.at);
    if (wantsOperand) throw new SqlMistake('the expression ends where a value should come', this.#sql.peek().at);
    this.#endElement(open);
  }

  /** Each of these answers whether an operand comes next. */
  #operand(): boolean {
    const token = this.#sql.take();
    switch (token.kind) {
      case 'text':
      case 'bytes':
      case 'number':
        return false;
      case 'name':
        return this.#path(token);
      case 'word':
        return this.#operandWord(token);
      default:
        return this.#operandSign(token);
    }
  }

  #operandSign(token: Token): boolean {
    switch (token.value) {
      case '+':
      case '-':
        return this.#sign(token);
      case '(':
        return this.#open('parentheses', token);
      case '[':
        return this.#open('array', token);
      case ')':
      case ']':
        return this.#closeEmpty(token);
      default:
        throw new SqlMistake(`${shown(token.written)} stands where a value should come`, token.at);
    }
  }

  /** The sign of a number is a part of it, as the first of several. */
  #sign(token: Token): boolean {
    const before = this.#sql.at(this.#sql.index - 2);
    const isFirst = before === undefined || !(before.kind === 'symbol' && '+-'.includes(before.value));
    if (this.#sql.peek().kind !== 'number' || !isFirst) this.#count(token);
    return true;
  }

  #operandWord(token: Token): boolean {
    const follows = this.#sql.peek();
    if (token.value === 'NOT') {
      if (this.#sql.isSign('(')) this.#cost.frame.multipliers += 2;
      return this.#count(token);
    }
    if (token.value === 'CASE') return this.#open('case', token);
    if (this.#cost.frame.kind === 'case' && caseWords.has(token.value)) return this.#caseWord(token);
    if (subqueryWords.has(token.value)) throw new SqlMistake(`${token.value}: a filter has no subqueries`, token.at);
    if (follows.kind === 'text' && literalTypes.has(token.value)) return this.#typedText(token);
    if (token.value === 'INTERVAL') throw new SqlMistake("INTERVAL takes a text, such as INTERVAL '1 day'", token.at);
    if (this.#isTrimSide(token)) return true;
    if (noOperands.has(token.value))
      throw new SqlMistake(`${shown(token.written)} stands where a value should come`, token.at);
    if (token.value === 'ARRAY' && follows.value === '[' && follows.kind === 'symbol') {
      throw new SqlMistake('write an array as [1, 2]', token.at);
    }
    return this.#path(token);
  }

  #typedText(token: Token): boolean {
    this.#sql.take();
    const unit = this.#sql.peek();
    if (token.value === 'INTERVAL' && unit.kind === 'word' && intervalUnits.test(unit.value)) this.#sql.take();
    return false;
  }

  #isTrimSide({ value }: Token): boolean {
    return this.#cost.frame.keyword === 'TRIM' && ['BOTH', 'LEADING', 'TRAILING'].includes(value);
  }

  /** A column, a field inside one, or the name of a function. */
  #path(first: Token): boolean {
    let segments = 1;
    while (this.#sql.isSign('.')) {
      this.#sql.take();
      const segment = this.#sql.take();
      if (segment.kind !== 'word' && segment.kind !== 'name') {
        throw new SqlMistake('the name of a field should come after the dot', segment.at);
      }
      segments += 1;
      if (segments > sqlLimits.pathSegments) {
        throw new SqlMistake(`a path has at most ${sqlLimits.pathSegments} segments`, first.at);
      }
    }
    if (!this.#sql.isSign('(')) return false;
    if (segments > 1) throw new SqlMistake('the name of a function has no dots', first.at);
    return this.#call(first);
  }

  #call(token: Token): boolean {
    const name = token.value.toLowerCase();
    const keyword = keywordCalls.has(token.value) ? token.value : undefined;
    if (keyword !== 'CAST' && keyword !== 'TRY_CAST' && !this.#allowed.has(name)) {
      throw new SqlMistake(`the function ${shown(name)} is not one that filters may call`, token.at);
    }
    const bracket = this.#sql.take();
    return this.#push(frameOf('call', token, this.#sql.index, false, { keyword, name }), bracket);
  }

  #operator(): boolean {
    const token = this.#sql.take();
    if (token.kind === 'word') return this.#operatorWord(token);
    if (token.kind !== 'symbol') throw unexpected(token);
    if (binaryOperators.has(token.value)) return this.#count(token);
    switch (token.value) {
      case '::':
        this.#count(token);
        return this.#type();
      case ',':
        return this.#comma(token);
      case ')':
      case ']':
        return this.#close(token);
      case '[':
        this.#count(token);
        return this.#open('subscript', token);
      case '.':
        return this.#field(token);
      case ':':
        if (this.#cost.frame.kind === 'subscript') return this.#nextElement();
        throw unexpected(token);
      default:
        throw unexpected(token);
    }
  }

  #field(token: Token): boolean {
    this.#count(token);
    const name = this.#sql.take();
    if (name.kind === 'word' || name.kind === 'name') return false;
    throw new SqlMistake('the name of a field should come after the dot', name.at);
  }

  #operatorWord(token: Token): boolean {
    const frame = this.#cost.frame;
    if (frame.keyword !== undefined && keywordCalls.get(frame.keyword)?.includes(token.value) === true) {
      return this.#separator(frame, token);
    }
    switch (token.value) {
      case 'AND':
      case 'OR':
        return this.#condition(frame, token);
      case 'IS':
        return this.#is(frame, token);
      case 'NOT':
        if (this.#sql.peek().kind !== 'word' || !matches.has(this.#sql.peek().value))
          throw unexpected(this.#sql.peek());
        return this.#operatorWord(this.#sql.take());
      case 'LIKE':
      case 'ILIKE':
        this.#count(token);
        return this.#pattern();
      case 'ESCAPE':
        if (this.#sql.take().kind !== 'text') throw new SqlMistake('ESCAPE takes a text of one character', token.at);
        this.#count(token);
        return false;
      case 'BETWEEN':
        frame.betweens += 1;
        frame.multipliers += 2;
        return this.#count(token);
      case 'IN':
        return this.#in(token);
      case 'AT':
        return this.#atTimeZone(token);
      case 'WHEN':
      case 'THEN':
      case 'ELSE':
        return this.#caseWord(token);
      case 'END':
        return this.#close(token);
      default:
        throw unexpected(token);
    }
  }

  /** It becomes an automaton: so it is known here, or it is a cell. */
  #pattern(): boolean {
    const pattern = this.#sql.take();
    if (pattern.kind === 'text') this.#wildcards(pattern);
    const isColumn = pattern.kind === 'name' || (pattern.kind === 'word' && !noOperands.has(pattern.value));
    const isAlone =
      (pattern.kind === 'text' || (isColumn && !this.#path(pattern))) && !this.#sql.isOneOf(tighterThanLike);
    if (isAlone) return false;
    throw new SqlMistake('LIKE takes a text, written out, or a column', pattern.at);
  }

  #wildcards(pattern: Token): void {
    const count = pattern.value.replaceAll(/[^%_]/g, '').length;
    if (count > sqlLimits.wildcards) {
      throw new SqlMistake(`the pattern has more than ${sqlLimits.wildcards} wildcards`, pattern.at);
    }
    this.#cost.addWork(pattern, count);
  }

  #condition(frame: Frame, token: Token): boolean {
    if (token.value === 'AND' && frame.betweens > 0) {
      frame.betweens -= 1;
      return true;
    }
    if (!frame.isBalanced) return this.#count(token);
    this.#cost.addCondition(token);
    return true;
  }

  #is(frame: Frame, token: Token): boolean {
    this.#count(token);
    if (this.#sql.isWord('NOT')) this.#sql.take();
    const what = this.#sql.take();
    if (what.kind === 'word' && truths.has(what.value)) return false;
    if (what.kind !== 'word' || what.value !== 'DISTINCT' || !this.#sql.isWord('FROM')) {
      throw new SqlMistake('IS takes NULL, TRUE, FALSE or DISTINCT FROM, each also after NOT', token.at);
    }
    this.#sql.take();
    // Its right side reaches over the ANDs and ORs that follow.
    frame.common += 1;
    return true;
  }

  #in(token: Token): boolean {
    this.#count(token);
    if (!this.#sql.isSign('(')) throw new SqlMistake('a list in parentheses should come after IN', this.#sql.peek().at);
    return this.#open('list', this.#sql.take());
  }

  #atTimeZone(token: Token): boolean {
    if (!this.#sql.isWord('TIME')) throw unexpected(token);
    this.#sql.take();
    if (!this.#sql.isWord('ZONE')) throw unexpected(token);
    this.#sql.take();
    return this.#count(token);
  }

  #caseWord(token: Token): boolean {
    const frame = this.#cost.frame;
    if (frame.kind !== 'case') throw unexpected(token);
    this.#nextElement();
    if (token.value === 'WHEN') frame.branches += 1;
    return true;
  }

  #separator(frame: Frame, token: Token): boolean {
    if (token.value === 'AS') return this.#type();
    if (token.value === 'IN') return this.#nextElement();
    this.#endElement(frame);
    return true;
  }

  #comma(token: Token): boolean {
    const { kind, keyword } = this.#cost.frame;
    if (kind === 'whole') throw new SqlMistake('a comma stands outside of brackets', token.at);
    if (kind === 'case' || keyword === 'CAST' || keyword === 'TRY_CAST') throw unexpected(token);
    return this.#nextElement();
  }

  #nextElement(): boolean {
    const frame = this.#cost.frame;
    this.#endElement(frame);
    frame.argument += 1;
    frame.argumentToken = this.#sql.index;
    this.#requireFew(frame);
    return true;
  }

  #requireFew(frame: Frame): void {
    if (frame.kind === 'list') return;
    const most = frame.kind === 'call' ? sqlLimits.arguments : sqlLimits.elements;
    if (frame.argument < most) return;
    throw new SqlMistake(`${nameOf(frame)} holds more than ${most} values; IN takes a longer list`, frame.opened.at);
  }

  #type(): boolean {
    readType(this.#sql, this.#cost.frame);
    return false;
  }

  #open(kind: FrameKind, token: Token): boolean {
    const isBalanced = kind === 'parentheses' && this.#cost.frame.isBalanced;
    return this.#push(frameOf(kind, token, this.#sql.index, isBalanced), token);
  }

  #push(frame: Frame, token: Token): boolean {
    this.#cost.open(frame, token);
    return true;
  }

  /** A bracket closes where an operand could still come: right after it was opened. */
  #closeEmpty(token: Token): boolean {
    const frame = this.#cost.frame;
    const isEmpty = this.#sql.index - 1 === frame.firstToken && (frame.kind === 'call' || frame.kind === 'array');
    if (!isEmpty && closes(frame, token)) throw new SqlMistake('a value should come here', token.at);
    return this.#close(token);
  }

  #close(token: Token): boolean {
    const frame = this.#cost.frame;
    if (!closes(frame, token)) {
      throw new SqlMistake(`${token.value} closes what was not opened`, token.at);
    }
    this.#endElement(frame);
    this.#cost.close(token, this.#sql.index);
    return false;
  }

  #count(token: Token): boolean {
    this.#cost.addOperator(token);
    return true;
  }

  #endElement(frame: Frame): void {
    this.#checkArgument(frame);
    this.#cost.endElement();
  }

  #checkArgument(frame: Frame): void {
    const rule = frame.name === undefined ? undefined : argumentRules.get(frame.name)?.get(frame.argument);
    if (rule === undefined) return;
    const literal = this.#sql.at(frame.argumentToken);
    const isAlone = this.#sql.index - frame.argumentToken === 2;
    if (literal === undefined || literal.kind !== 'text' || !isAlone) {
      throw new SqlMistake(
        `argument ${frame.argument + 1} of ${frame.name} must be a text, written out`,
        literal?.at ?? frame.opened.at,
      );
    }
    const answer = rule(literal.value);
    if (typeof answer === 'string') throw new SqlMistake(`'${shown(literal.value)}' ${answer}`, literal.at);
    this.#cost.addWork(literal, answer);
  }
}
