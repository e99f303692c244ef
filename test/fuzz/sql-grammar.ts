/** Writes SQL conditions at random: mostly well formed, of every operator, function, literal and type, near the limits and beyond. */
import { allowedFunctions, keywordCalls } from '#src/sql/functions.ts';
import { sqlLimits } from '#src/sql/limits.ts';
import { sqlTypes } from '#src/sql/types.ts';

/** A whole number below `bound`. */
type Random = (bound: number) => number;

const columns = [
  'id',
  'i',
  'pay',
  'f',
  'v',
  's',
  'b',
  'd',
  'ts',
  'dec',
  'bin',
  'a',
  'st',
  'st.x',
  'st.y',
  '`v`',
  '"id"',
];
const literals = [
  '0',
  '1',
  '-1',
  '7',
  '1.5',
  '-0.0',
  '1e308',
  '9223372036854775807',
  '-9223372036854775808',
  '99999999999999999999',
  "''",
  "'a'",
  "'it''s'",
  "'2026-01-01'",
  "'S%'",
  "'%_%_'",
  "'('",
  "'\\'",
  "'1'",
  "'true'",
  "'$.a'",
  "'day'",
  "'hex'",
  "'UTC'",
  "X'00ff'",
  'true',
  'false',
  'NULL',
  '[1, 2]',
  '[]',
  "['a']",
  "DATE '2026-01-01'",
  "TIMESTAMP '2026-01-01 00:00:00'",
  "INTERVAL '1 day'",
  "INTERVAL '99999 years'",
  "INTERVAL '0' DAY",
];
const operators = '+ - * / % || = == <> != < <= > >= << >> & | ^ AND OR'.split(' ');
const tails = [
  ' IS NULL',
  ' IS NOT NULL',
  ' IS TRUE',
  ' IS NOT FALSE',
  ' IS UNKNOWN',
  '[1]',
  "['x']",
  '[1:2]',
  '.x',
  '::int',
  '::double',
  '::string',
  '::decimal(10, 2)',
  '::timestamp(6)',
  " AT TIME ZONE 'UTC'",
  " LIKE '%a_'",
  " NOT ILIKE 'S%' ESCAPE '\\'",
  ' IN (1, 2, NULL)',
  " NOT IN ('a')",
  ' BETWEEN 1 AND 2',
  ' NOT BETWEEN id AND 9',
  ' IS DISTINCT FROM 1',
  ' IS NOT DISTINCT FROM v',
];
const refused = [
  'repeat(v, 2000000000)',
  'range(0, 3e9)',
  '(SELECT 1)',
  '$1',
  '?',
  "E'a'",
  "v ~ 'a'",
  'x -> x',
  '/* /* */',
  ';',
  ')',
  '(',
  "'",
  'CASE',
  'NOT',
];
const functions = [...allowedFunctions];
const types = [...sqlTypes].map((type) => type.toLowerCase());
const arrowTypes = [
  'Int8',
  'UInt64',
  'Float16',
  'Utf8View',
  'LargeBinary',
  'Date64',
  'Timestamp(Nanosecond, Some("UTC"))',
  'Decimal256(76, 3)',
  'Time32(Second)',
  'Duration(Millisecond)',
  'FixedSizeBinary(8)',
  'Dictionary(Int8, Utf8)',
  'Interval(DayTime)',
];

const pick = <Item>(random: Random, items: readonly Item[]): Item => items[random(items.length)] as Item;
const many = (count: number, make: () => string, separator: string): string =>
  Array.from({ length: count }, make).join(separator);

export class SqlWriter {
  readonly #random: Random;
  readonly #prefix: string;

  /** `prefix` stands before every column, such as `target.`. */
  constructor(random: Random, prefix = '') {
    this.#random = random;
    this.#prefix = prefix;
  }

  condition(): string {
    const kind = this.#random(24);
    if (kind === 0) return this.#chain(this.#near(sqlLimits.depth));
    if (kind === 1) return many(1 + this.#random(200), () => this.#value(1), pick(this.#random, [' OR ', ' AND ']));
    if (kind === 2) return this.#nest(this.#near(sqlLimits.depth));
    if (kind === 3) return this.#nest(this.#near(sqlLimits.multipliers / 2));
    if (kind === 4)
      return `${this.#column()} IN (${many(1 + this.#random(2_000), () => pick(this.#random, literals), ', ')})`;
    if (kind === 5) return this.#broken();
    if (kind < 15) return this.#truth(1 + this.#random(4));
    const comparison = pick(this.#random, [' = ', ' > ', ' <> ', ' IS DISTINCT FROM ', ' LIKE ']);
    return `${this.#value(1 + this.#random(4))}${comparison}${this.#value(this.#random(3))}`;
  }

  #near(limit: number): number {
    return Math.max(1, pick(this.#random, [limit >> 1, limit - 3, limit - 1, limit, limit + 1, limit * 4]));
  }

  #column(): string {
    return this.#prefix + pick(this.#random, columns);
  }

  #value(depth: number): string {
    const kind = this.#random(depth <= 0 ? 2 : 12);
    const inner = () => this.#value(depth - 1);
    switch (kind) {
      case 0:
        return this.#column();
      case 1:
        return pick(this.#random, literals);
      case 2:
      case 3:
        return `${inner()} ${pick(this.#random, operators)} ${inner()}`;
      case 4:
        return `${inner()}${pick(this.#random, tails)}`;
      case 5:
        return `(${inner()})`;
      case 6:
        return `${pick(this.#random, ['NOT ', '-', '+', '- -'])}${inner()}`;
      case 7:
        return `CASE ${pick(this.#random, ['', inner()])} WHEN ${inner()} THEN ${inner()} ELSE ${inner()} END`;
      case 8:
        return this.#keywordCall(inner);
      default:
        return this.#call(inner);
    }
  }

  /** What has a type that fits is evaluated, and not refused as soon as it is planned. */
  #truth(depth: number): string {
    const [truth, number, text] = [
      () => this.#truth(depth - 1),
      () => this.#number(depth - 1),
      () => this.#text(depth - 1),
    ];
    const column = this.#prefix + pick(this.#random, ['id', 'v', 's', 'b', 'ts', 'a', 'st']);
    if (depth <= 0) return `${column} IS ${pick(this.#random, ['', 'NOT '])}NULL`;
    switch (this.#random(10)) {
      case 0:
        return `(${truth()} ${pick(this.#random, ['AND', 'OR'])} ${truth()})`;
      case 1:
        return `NOT (${truth()})`;
      case 2:
        return `${number()} ${pick(this.#random, ['', 'NOT '])}BETWEEN ${number()} AND ${number()}`;
      case 3:
        return `${number()} IN (${many(1 + this.#random(9), number, ', ')})`;
      case 4:
        return `${text()} ${pick(this.#random, ['LIKE', 'NOT ILIKE'])} '${pick(this.#random, ['S%', '%_%9', 'a\\_b'])}'`;
      case 5:
        return `${text()} ${pick(this.#random, ['=', '<', '>=', '<>'])} ${text()}`;
      case 6:
        return `${pick(this.#random, ['starts_with', 'contains'])}(${text()}, ${text()})`;
      case 7:
        return `${truth()} IS NOT ${pick(this.#random, ['TRUE', 'FALSE', 'NULL'])}`;
      default:
        return `${number()} ${pick(this.#random, ['=', '<', '>', '<>', '>='])} ${number()}`;
    }
  }

  #number(depth: number): string {
    const number = () => this.#number(depth - 1);
    if (depth <= 0)
      return pick(this.#random, [...['id', 'i', 'pay'].map((name) => this.#prefix + name), '1', '-2', '7']);
    switch (this.#random(7)) {
      case 0:
        return `abs(${number()})`;
      case 1:
        return `coalesce(${number()}, ${number()})`;
      case 2:
        return `length(${this.#text(depth - 1)})`;
      case 3:
        return `CAST(${pick(this.#random, [number, () => this.#text(depth - 1)])()} AS bigint)`;
      case 4:
        return `nullif(${number()}, ${number()})`;
      default:
        return `(${number()} ${pick(this.#random, ['+', '-', '*', '/', '%'])} ${number()})`;
    }
  }

  #text(depth: number): string {
    const text = () => this.#text(depth - 1);
    if (depth <= 0) return pick(this.#random, [...['v', 's', 'st.y'].map((name) => this.#prefix + name), "'S'", "''"]);
    const name = pick(this.#random, ['lower', 'upper', 'reverse', 'btrim', 'initcap', 'md5']);
    return pick(this.#random, [
      () => `${name}(${text()})`,
      () => `(${text()} || ${text()})`,
      () => `concat(${text()}, ${text()})`,
    ])();
  }

  #call(inner: () => string): string {
    const name = pick(this.#random, functions);
    if (name.startsWith('arrow_') && name.endsWith('cast'))
      return `${name}(${inner()}, '${pick(this.#random, arrowTypes)}')`;
    if (name.startsWith('regexp_'))
      return `${name}(${inner()}, '${pick(this.#random, ['S', '(', 'a{50}', '(a|b)*', '\\w{90}'])}')`;
    if (name.startsWith('json_')) return `${name}(${inner()}, '${pick(this.#random, ['$.a', 'a', '$[*]', '$..a'])}')`;
    return `${pick(this.#random, [name, name.toUpperCase(), `"${name}"`])}(${many(this.#random(4), inner, ', ')})`;
  }

  #keywordCall(inner: () => string): string {
    const keyword = pick(this.#random, [...keywordCalls.keys()]);
    if (keyword.endsWith('CAST')) return `${keyword}(${inner()} AS ${pick(this.#random, types)})`;
    const separators = keywordCalls.get(keyword) ?? [];
    return `${keyword}(${[inner(), ...separators.map((word) => `${word} ${inner()}`)].join(' ')})`;
  }

  #chain(length: number): string {
    const link = pick(this.#random, [...tails, ...operators.map((operator) => ` ${operator} ${this.#value(0)}`)]);
    const text = this.#column() + link.repeat(length);
    return pick(this.#random, [text, `coalesce(${text})`, `(${text}) IS NULL`]);
  }

  #nest(depth: number): string {
    const name = pick(this.#random, functions);
    const [open, close] = pick(this.#random, [
      ['(', ')'],
      ['NOT ', ''],
      ['NOT (', ')'],
      ['- ', ''],
      ['[', ']'],
      ['CASE WHEN ', ' THEN b ELSE b END'],
      ['CAST(', ' AS int)'],
      ['coalesce(', ', b)'],
      [`${name}(`, ')'],
      [`${name}(${this.#column()}, `, ')'],
      ['1 IN (', ')'],
      ["POSITION('a' IN ", ')'],
      ['a[', ']'],
    ]);
    return open.repeat(depth) + this.#value(1) + close.repeat(depth);
  }

  /** Cut, or with something in it that does not belong there. */
  #broken(): string {
    const text = `${this.#value(3)} = ${this.#value(2)}`;
    const at = this.#random(text.length);
    return pick(this.#random, [
      text.slice(0, at),
      `${text.slice(0, at)} ${pick(this.#random, refused)} ${text.slice(at)}`,
    ]);
  }
}
