/**
 * Reads clients' SQL: conditions over rows. It knows the grammar of expressions well enough to say which token is an operator,
 * and of what: so it bounds how deep the engine will recurse (`limits.ts`), lets no function or type pass that is not on the
 * list, and finds most mistakes, with their position. It is not the engine's parser: what it accepts may still be refused
 * there. No recursion, and each token is looked at once.
 */
import { type CheckedSql, ownSql } from '../kernel/checked-sql.ts';
import { invalidInput } from '../kernel/errors.ts';
import { Cost, Frame, type FrameKind } from './cost.ts';
import { type ArgumentRule, argumentRules, keywordCalls } from './functions.ts';
import { sqlLimits } from './limits.ts';
import { type DoubleQuotes, SqlMistake, shown, type Token, TokenReader, unexpected } from './tokens.ts';
import { literalTypes, takeType } from './types.ts';

/** `allowed` has the names of functions in lower case. `InvalidInput` names the parameter, what is wrong, and where. */
export function checkFilter(
  text: string,
  parameter: string,
  allowed: ReadonlySet<string>,
  doubleQuotes: DoubleQuotes = 'names',
): CheckedSql {
  try {
    const sql = new TokenReader(text, sqlLimits, doubleQuotes);
    new FilterReader(sql, allowed).read();
    // In parentheses the engine cannot pass over what follows an expression that ended early.
    return ownSql(`(${sql.forEngine()})`);
  } catch (error) {
    if (!(error instanceof SqlMistake)) throw error;
    throw invalidInput(`${parameter}: ${error.message} (${positionOf(error.at, text)})`, error);
  }
}

/** Lines and columns count from one; of a single line the column is enough. */
function positionOf(at: number, text: string): string {
  const before = text.slice(0, at);
  const lineStart = before.lastIndexOf('\n') + 1;
  const column = `column ${[...before.slice(lineStart)].length + 1}`;
  return text.includes('\n') ? `line ${before.split('\n').length}, ${column}` : column;
}

const binaryOperators: ReadonlySet<string> = new Set('+ - * / % || = == <> != < <= > >= << >> & | ^'.split(' '));
const tighterThanLike: ReadonlySet<string> = new Set('+ - * / % || << >> & | ^ :: [ .'.split(' '));
const truths: ReadonlySet<string> = new Set(['NULL', 'TRUE', 'FALSE', 'UNKNOWN']);
const negatable: ReadonlySet<string> = new Set(['LIKE', 'ILIKE', 'IN', 'BETWEEN']);
const caseWords: ReadonlySet<string> = new Set(['WHEN', 'THEN', 'ELSE']);
/** These words end an operand, or begin what is no operand. None of them can be a column without quotes. */
const noOperands: ReadonlySet<string> = new Set('AND OR IS IN LIKE ILIKE BETWEEN ESCAPE WHEN THEN ELSE'.split(' '));
/** A cast looks like a call and calls no function. */
const castCalls: ReadonlySet<string> = new Set(['CAST', 'TRY_CAST']);
const subqueryWords: ReadonlySet<string> = new Set(['SELECT', 'WITH', 'EXISTS']);
const intervalUnits = /^(?:YEAR|QUARTER|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND|NANOSECOND)S?$/;

class FilterReader {
  readonly #sql: TokenReader;
  readonly #allowed: ReadonlySet<string>;
  readonly #cost: Cost;

  constructor(sql: TokenReader, allowed: ReadonlySet<string>) {
    this.#sql = sql;
    this.#allowed = allowed;
    this.#cost = new Cost(new Frame('whole', sql.peek(), 0, sql.peek(), true));
  }

  read(): void {
    if (this.#sql.peek().kind === 'end') throw new SqlMistake('the expression is empty', 0);
    let wantsOperand = true;
    while (this.#sql.peek().kind !== 'end') wantsOperand = wantsOperand ? this.#operand() : this.#operator();
    const open = this.#cost.frame;
    if (open.kind !== 'whole') throw new SqlMistake(`${open.shown} is not closed`, open.opened.at);
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
    const before = this.#sql.takenBefore;
    const isFirst = !(before?.kind === 'symbol' && '+-'.includes(before.value));
    if (this.#sql.peek().kind !== 'number' || !isFirst) this.#count(token);
    return true;
  }

  #operandWord(token: Token): boolean {
    if (token.value === 'NOT') {
      if (this.#sql.isSign('(')) this.#cost.frame.multipliers += 2;
      return this.#count(token);
    }
    if (token.value === 'CASE') return this.#open('case', token);
    if (this.#cost.frame.kind === 'case' && caseWords.has(token.value)) return this.#caseWord(token);
    if (subqueryWords.has(token.value)) throw new SqlMistake(`${token.value}: a filter has no subqueries`, token.at);
    if (this.#sql.peek().kind === 'text' && literalTypes.has(token.value)) return this.#typedText(token);
    if (token.value === 'INTERVAL') throw new SqlMistake("INTERVAL takes a text, such as INTERVAL '1 day'", token.at);
    if (this.#isTrimSide(token)) return true;
    if (noOperands.has(token.value))
      throw new SqlMistake(`${shown(token.written)} stands where a value should come`, token.at);
    if (token.value === 'ARRAY' && this.#sql.isSign('[')) {
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
    while (this.#sql.takeSign('.')) {
      this.#fieldName();
      segments += 1;
      if (segments > sqlLimits.pathSegments) {
        throw new SqlMistake(`a path has at most ${sqlLimits.pathSegments} segments`, first.at);
      }
    }
    if (!this.#sql.takeSign('(')) return false;
    if (segments > 1) throw new SqlMistake('the name of a function has no dots', first.at);
    return this.#call(first);
  }

  /** The bracket is taken. */
  #call(token: Token): boolean {
    const name = token.value.toLowerCase();
    if (!castCalls.has(token.value) && !this.#allowed.has(name)) {
      throw new SqlMistake(`the function ${shown(name)} is not one that filters may call`, token.at);
    }
    return this.#open('call', token);
  }

  #fieldName(): void {
    const { kind, at } = this.#sql.take();
    if (kind !== 'word' && kind !== 'name') throw new SqlMistake('the name of a field should come after the dot', at);
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
        this.#count(token);
        this.#fieldName();
        return false;
      case ':':
        if (this.#cost.frame.kind === 'subscript') return this.#nextElement();
        throw unexpected(token);
      default:
        throw unexpected(token);
    }
  }

  #operatorWord(token: Token): boolean {
    const { frame } = this.#cost;
    const next = this.#sql.peek();
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
        if (next.kind !== 'word' || !negatable.has(next.value)) throw unexpected(next);
        return this.#operatorWord(this.#sql.take());
      case 'LIKE':
      case 'ILIKE':
        this.#count(token);
        return this.#pattern();
      case 'ESCAPE':
        return this.#escape(token);
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

  /** The engine makes an automaton of a pattern. So the pattern is a literal that is known here, or it is a cell. */
  #pattern(): boolean {
    const pattern = this.#sql.take();
    if (pattern.kind === 'text') this.#wildcards(pattern);
    const isColumn = pattern.kind === 'name' || (pattern.kind === 'word' && !noOperands.has(pattern.value));
    const isValue = pattern.kind === 'text' || (isColumn && !this.#path(pattern));
    const next = this.#sql.peek();
    if (isValue && !(next.kind === 'symbol' && tighterThanLike.has(next.value))) return false;
    throw new SqlMistake('LIKE takes a text, written out, or a column', pattern.at);
  }

  /** The engine knows one alone. */
  #escape(token: Token): boolean {
    const { kind, value } = this.#sql.take();
    if (kind !== 'text' || value !== '\\') throw new SqlMistake("ESCAPE takes '\\', written out", token.at);
    this.#count(token);
    return false;
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
    this.#sql.takeWord('NOT');
    const what = this.#sql.take();
    if (what.kind === 'word' && truths.has(what.value)) return false;
    if (what.kind !== 'word' || what.value !== 'DISTINCT' || !this.#sql.takeWord('FROM')) {
      throw new SqlMistake('IS takes NULL, TRUE, FALSE or DISTINCT FROM, each also after NOT', token.at);
    }
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
    if (!this.#sql.takeWord('TIME') || !this.#sql.takeWord('ZONE')) throw unexpected(token);
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
    if (kind === 'case' || (keyword !== undefined && castCalls.has(keyword))) throw unexpected(token);
    return this.#nextElement();
  }

  #nextElement(): boolean {
    const frame = this.#cost.frame;
    this.#endElement(frame);
    frame.argument += 1;
    frame.argumentToken = this.#sql.peek();
    frame.argumentStart = this.#sql.count;
    const most = frame.kind === 'call' ? sqlLimits.arguments : sqlLimits.elements;
    if (frame.kind === 'list' || frame.argument < most) return true;
    throw new SqlMistake(`${frame.shown} holds more than ${most} values; IN takes a longer list`, frame.opened.at);
  }

  #type(): boolean {
    this.#cost.frame.multipliers += takeType(this.#sql);
    return false;
  }

  #open(kind: FrameKind, opened: Token): boolean {
    const isBalanced = kind === 'parentheses' && this.#cost.frame.isBalanced;
    this.#cost.open(new Frame(kind, opened, this.#sql.count, this.#sql.peek(), isBalanced));
    return true;
  }

  /** A bracket closes where an operand could still come: right after it was opened. */
  #closeEmpty(token: Token): boolean {
    const frame = this.#cost.frame;
    const isEmpty = this.#sql.count - 1 === frame.start && (frame.kind === 'call' || frame.kind === 'array');
    if (!isEmpty && frame.isClosedBy(token)) throw new SqlMistake('a value should come here', token.at);
    return this.#close(token);
  }

  #close(token: Token): boolean {
    const frame = this.#cost.frame;
    if (!frame.isClosedBy(token)) throw new SqlMistake(`${token.value} closes what was not opened`, token.at);
    this.#endElement(frame);
    this.#cost.close(token, this.#sql.count);
    return false;
  }

  #count(token: Token): boolean {
    this.#cost.addOperator(token);
    return true;
  }

  #endElement(frame: Frame): void {
    const rule = frame.name === undefined ? undefined : argumentRules.get(frame.name)?.get(frame.argument);
    if (rule !== undefined) this.#checkArgument(frame, rule);
    this.#cost.endElement();
  }

  #checkArgument({ name, argument, argumentToken: literal, argumentStart, literals }: Frame, rule: ArgumentRule): void {
    // It is one token, and the one that ended it.
    const isAlone = this.#sql.count - argumentStart === 2;
    if (literal.kind !== 'text' || !isAlone) {
      throw new SqlMistake(`argument ${argument + 1} of ${name} must be a text, written out`, literal.at);
    }
    const answer = rule(literal.value, literals[argument - 1] ?? '');
    literals[argument] = literal.value;
    if (typeof answer === 'string') throw new SqlMistake(`'${shown(literal.value)}' ${answer}`, literal.at);
    this.#cost.addWork(literal, answer);
  }
}
