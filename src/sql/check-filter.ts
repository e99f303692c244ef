/**
 * The one place that reads clients' SQL: conditions over rows. It knows the grammar of expressions well enough to say which
 * token is an operator, and of what: so it bounds how deep the engine will recurse (`limits.ts`), lets no function or type
 * pass that is not on the list, and finds most mistakes, with their place. It is not the engine's parser: what it accepts may
 * still be refused there. No recursion, and each token is looked at once.
 */
import type { CheckedSql } from '../kernel/checked-sql.ts';
import { closes, type Frame, type FrameKind, frameOf, multipliersOf, nameOf } from './frame.ts';
import { argumentRules, keywordCalls } from './functions.ts';
import { sqlLimits } from './limits.ts';
import { refusalOf, SqlMistake, shown } from './sql-mistake.ts';
import { readTokens, type Token } from './tokens.ts';
import { byteTypes, literalTypes, sqlTypes, typeParametersRule } from './types.ts';

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
  readonly #tokens: readonly Token[];
  readonly #allowed: ReadonlySet<string>;
  readonly #frames: Frame[];
  #next = 0;
  #conditions = 0;
  #work = 0;
  #keywordCalls = 0;
  #keywordCallToken = 0;

  constructor(tokens: readonly Token[], allowed: ReadonlySet<string>) {
    this.#tokens = tokens;
    this.#allowed = allowed;
    this.#frames = [frameOf('whole', this.#peek(), 0, true)];
  }

  read(): void {
    if (this.#peek().kind === 'end') throw new SqlMistake('the expression is empty', 0);
    let wantsOperand = true;
    while (this.#peek().kind !== 'end') wantsOperand = wantsOperand ? this.#operand() : this.#operator();
    const open = this.#frame();
    if (open.kind !== 'whole') throw new SqlMistake(`${nameOf(open)} is not closed`, open.opened.at);
    if (wantsOperand) throw new SqlMistake('the expression ends where a value should come', this.#peek().at);
    this.#endElement(open);
  }

  /** Each of these answers whether an operand comes next. */
  #operand(): boolean {
    const token = this.#take();
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
    const before = this.#tokens[this.#next - 2];
    const isFirst = before === undefined || !(before.kind === 'symbol' && '+-'.includes(before.value));
    if (this.#peek().kind !== 'number' || !isFirst) this.#count(token);
    return true;
  }

  #operandWord(token: Token): boolean {
    const follows = this.#peek();
    if (token.value === 'NOT') {
      if (this.#isSign('(')) this.#frame().multipliers += 2;
      return this.#count(token);
    }
    if (token.value === 'CASE') return this.#open('case', token);
    if (this.#frame().kind === 'case' && caseWords.has(token.value)) return this.#caseWord(token);
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
    this.#take();
    const unit = this.#peek();
    if (token.value === 'INTERVAL' && unit.kind === 'word' && intervalUnits.test(unit.value)) this.#take();
    return false;
  }

  #isTrimSide({ value }: Token): boolean {
    return this.#frame().keyword === 'TRIM' && ['BOTH', 'LEADING', 'TRAILING'].includes(value);
  }

  /** A column, a field inside one, or the name of a function. */
  #path(first: Token): boolean {
    let segments = 1;
    while (this.#isSign('.')) {
      this.#take();
      const segment = this.#take();
      if (segment.kind !== 'word' && segment.kind !== 'name') {
        throw new SqlMistake('the name of a field should come after the dot', segment.at);
      }
      segments += 1;
      if (segments > sqlLimits.pathSegments) {
        throw new SqlMistake(`a path has at most ${sqlLimits.pathSegments} segments`, first.at);
      }
    }
    if (!this.#isSign('(')) return false;
    if (segments > 1) throw new SqlMistake('the name of a function has no dots', first.at);
    return this.#call(first);
  }

  #call(token: Token): boolean {
    const name = token.value.toLowerCase();
    const keyword = keywordCalls.has(token.value) ? token.value : undefined;
    if (keyword !== 'CAST' && keyword !== 'TRY_CAST' && !this.#allowed.has(name)) {
      throw new SqlMistake(`the function ${shown(name)} is not one that filters may call`, token.at);
    }
    const bracket = this.#take();
    if (keyword !== undefined) {
      if (this.#keywordCalls === 0) this.#keywordCallToken = this.#next;
      this.#keywordCalls += 1;
    }
    const frame = frameOf('call', token, this.#next, false, keyword, name);
    return this.#push(frame, bracket);
  }

  #leaveKeywordCall({ opened }: Frame): void {
    this.#keywordCalls -= 1;
    if (this.#keywordCalls > 0 || this.#next - this.#keywordCallToken <= sqlLimits.tokensInKeywordCall) return;
    throw new SqlMistake(`${opened.value} holds more than ${sqlLimits.tokensInKeywordCall} words and signs`, opened.at);
  }

  #operator(): boolean {
    const token = this.#take();
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
        if (this.#frame().kind === 'subscript') return this.#nextElement();
        throw unexpected(token);
      default:
        throw unexpected(token);
    }
  }

  #field(token: Token): boolean {
    this.#count(token);
    const name = this.#take();
    if (name.kind === 'word' || name.kind === 'name') return false;
    throw new SqlMistake('the name of a field should come after the dot', name.at);
  }

  #operatorWord(token: Token): boolean {
    const frame = this.#frame();
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
        if (this.#peek().kind !== 'word' || !matches.has(this.#peek().value)) throw unexpected(this.#peek());
        return this.#operatorWord(this.#take());
      case 'LIKE':
      case 'ILIKE':
        this.#count(token);
        return this.#pattern();
      case 'ESCAPE':
        if (this.#take().kind !== 'text') throw new SqlMistake('ESCAPE takes a text of one character', token.at);
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
    const pattern = this.#take();
    if (pattern.kind === 'text') this.#wildcards(pattern);
    const isColumn = pattern.kind === 'name' || (pattern.kind === 'word' && !noOperands.has(pattern.value));
    const isAlone = (pattern.kind === 'text' || (isColumn && !this.#path(pattern))) && !this.#isOneOf(tighterThanLike);
    if (isAlone) return false;
    throw new SqlMistake('LIKE takes a text, written out, or a column', pattern.at);
  }

  #wildcards(pattern: Token): void {
    const count = pattern.value.replaceAll(/[^%_]/g, '').length;
    if (count > sqlLimits.wildcards) {
      throw new SqlMistake(`the pattern has more than ${sqlLimits.wildcards} wildcards`, pattern.at);
    }
    this.#addWork(pattern, count);
  }

  #condition(frame: Frame, token: Token): boolean {
    if (token.value === 'AND' && frame.betweens > 0) {
      frame.betweens -= 1;
      return true;
    }
    if (!frame.isBalanced) return this.#count(token);
    frame.conditions += 1;
    this.#conditions += 1;
    if (this.#conditions > sqlLimits.conditions) {
      throw new SqlMistake(
        `more than ${sqlLimits.conditions} conditions are joined by AND and OR: write id IN (1, 2, …) for id = 1 OR id = 2 …`,
        token.at,
      );
    }
    this.#endTerm(frame);
    return true;
  }

  #is(frame: Frame, token: Token): boolean {
    this.#count(token);
    if (this.#isWord('NOT')) this.#take();
    const what = this.#take();
    if (what.kind === 'word' && truths.has(what.value)) return false;
    if (what.kind !== 'word' || what.value !== 'DISTINCT' || !this.#isWord('FROM')) {
      throw new SqlMistake('IS takes NULL, TRUE, FALSE or DISTINCT FROM, each also after NOT', token.at);
    }
    this.#take();
    // Its right side reaches over the ANDs and ORs that follow.
    frame.common += 1;
    return true;
  }

  #in(token: Token): boolean {
    this.#count(token);
    if (!this.#isSign('(')) throw new SqlMistake('a list in parentheses should come after IN', this.#peek().at);
    return this.#open('list', this.#take());
  }

  #atTimeZone(token: Token): boolean {
    if (!this.#isWord('TIME')) throw unexpected(token);
    this.#take();
    if (!this.#isWord('ZONE')) throw unexpected(token);
    this.#take();
    return this.#count(token);
  }

  #caseWord(token: Token): boolean {
    const frame = this.#frame();
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
    const { kind, keyword } = this.#frame();
    if (kind === 'whole') throw new SqlMistake('a comma stands outside of brackets', token.at);
    if (kind === 'case' || keyword === 'CAST' || keyword === 'TRY_CAST') throw unexpected(token);
    return this.#nextElement();
  }

  #nextElement(): boolean {
    const frame = this.#frame();
    this.#endElement(frame);
    frame.argument += 1;
    frame.argumentToken = this.#next;
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
    const token = this.#take();
    if (token.kind !== 'word' || !sqlTypes.has(token.value)) {
      throw new SqlMistake(`a type should come here, one of ${[...sqlTypes].join(', ').toLowerCase()}`, token.at);
    }
    if (byteTypes.has(token.value)) this.#frame().multipliers += 2;
    if (this.#isSign('(')) this.#typeParameters(token);
    if (this.#isWord('UNSIGNED') || this.#isWord('PRECISION')) this.#take();
    return false;
  }

  #typeParameters(type: Token): void {
    const parameters: number[] = [];
    do {
      this.#take();
      const parameter = this.#take();
      if (parameter.kind !== 'number') throw new SqlMistake('a number should come here', parameter.at);
      parameters.push(Number(parameter.value));
    } while (this.#isSign(','));
    if (!this.#isSign(')')) throw unexpected(this.#peek());
    this.#take();
    const wrong = typeParametersRule(type.value, parameters);
    if (wrong !== undefined) throw new SqlMistake(`${type.value.toLowerCase()} ${wrong}`, type.at);
  }

  #open(kind: FrameKind, token: Token): boolean {
    const isBalanced = kind === 'parentheses' && this.#frame().isBalanced;
    return this.#push(frameOf(kind, token, this.#next, isBalanced), token);
  }

  #push(frame: Frame, token: Token): boolean {
    this.#frames.push(frame);
    if (this.#frames.length - 1 > sqlLimits.depth) throw tooDeep(token);
    return true;
  }

  /** A bracket closes where an operand could still come: right after it was opened. */
  #closeEmpty(token: Token): boolean {
    const frame = this.#frame();
    const isEmpty = this.#next - 1 === frame.firstToken && (frame.kind === 'call' || frame.kind === 'array');
    if (!isEmpty && closes(frame, token)) throw new SqlMistake('a value should come here', token.at);
    return this.#close(token);
  }

  #close(token: Token): boolean {
    const frame = this.#frame();
    if (!closes(frame, token)) {
      throw new SqlMistake(`${token.value} closes what was not opened`, token.at);
    }
    this.#endElement(frame);
    if (frame.keyword !== undefined) this.#leaveKeywordCall(frame);
    this.#frames.pop();
    const depth = frame.deepest + frame.branches + 1;
    if (depth > sqlLimits.depth) throw tooDeep(frame.opened);
    const outer = this.#frame();
    outer.inner = Math.max(outer.inner, depth);
    const multipliers = frame.mostMultipliers + multipliersOf(frame);
    if (multipliers > sqlLimits.multipliers) throw tooManyMultipliers(frame.opened);
    outer.innerMultipliers = Math.max(outer.innerMultipliers, multipliers);
    this.#addWork(token, depth);
    return false;
  }

  /** One operator more in the present term. */
  #count(token: Token): boolean {
    const frame = this.#frame();
    frame.operators += 1;
    if (frame.operators > sqlLimits.depth) throw tooDeep(token);
    return true;
  }

  #endTerm(frame: Frame): void {
    const depth = frame.operators + frame.inner;
    frame.mostMultipliers = Math.max(frame.mostMultipliers, frame.multipliers + frame.innerMultipliers);
    if (frame.mostMultipliers > sqlLimits.multipliers) throw tooManyMultipliers(frame.opened);
    frame.multipliers = 0;
    frame.innerMultipliers = 0;
    this.#addWork(frame.opened, frame.operators * depth);
    frame.deepestTerm = Math.max(frame.deepestTerm, depth);
    frame.operators = 0;
    frame.inner = 0;
  }

  #endElement(frame: Frame): void {
    this.#checkArgument(frame);
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

  #addWork(token: Token, work: number): void {
    this.#work += work;
    if (this.#work <= sqlLimits.work) return;
    throw new SqlMistake('the expression has too many operators inside of one another', token.at);
  }

  #checkArgument(frame: Frame): void {
    const rule = frame.name === undefined ? undefined : argumentRules.get(frame.name)?.get(frame.argument);
    if (rule === undefined) return;
    const literal = this.#tokens[frame.argumentToken];
    const isAlone = this.#next - frame.argumentToken === 2;
    if (literal === undefined || literal.kind !== 'text' || !isAlone) {
      throw new SqlMistake(
        `argument ${frame.argument + 1} of ${frame.name} must be a text, written out`,
        literal?.at ?? frame.opened.at,
      );
    }
    const answer = rule(literal.value);
    if (typeof answer === 'string') throw new SqlMistake(`'${shown(literal.value)}' ${answer}`, literal.at);
    this.#addWork(literal, answer);
  }

  #frame(): Frame {
    const frame = this.#frames.at(-1);
    if (frame === undefined) throw new Error('there is always a frame');
    return frame;
  }

  #peek(): Token {
    const token = this.#tokens[this.#next];
    if (token === undefined) throw new Error('the last token is never passed');
    return token;
  }

  #take(): Token {
    const token = this.#peek();
    if (token.kind === 'end') throw new SqlMistake('the expression ends too early', token.at);
    this.#next += 1;
    return token;
  }

  #isOneOf(signs: ReadonlySet<string>): boolean {
    const { kind, value } = this.#peek();
    return kind === 'symbol' && signs.has(value);
  }

  #isSign(sign: string): boolean {
    const { kind, value } = this.#peek();
    return kind === 'symbol' && value === sign;
  }

  #isWord(word: string): boolean {
    const { kind, value } = this.#peek();
    return kind === 'word' && value === word;
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

const unexpected = (token: Token): SqlMistake =>
  new SqlMistake(
    token.kind === 'end'
      ? 'the expression ends too early'
      : `${shown(token.written)} stands where an operator should come, such as = or AND`,
    token.at,
  );
