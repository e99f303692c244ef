/** The full-text query in the body of a query is words, or has the structured form, which nests. */
import Type, { type Static, type TObject } from 'typebox';
import { Check } from 'typebox/value';
import { formatFieldPath, parseFieldPath } from '../arrow/schema/field-path.ts';
import type { MatchText, TextQuery, TextSearch } from '../engine/port/query-spec.ts';
import { invalidInput } from '../kernel/errors.ts';
import { isObject } from '../kernel/json-bounds.ts';
import { type NameCheck, namesOf } from './known-names.ts';

/** The engine's time grows with all of these, and it recurses into parts. */
const limits = { depth: 8, parts: 256, characters: 64 * 1024, columns: 1_000 } as const;

const Text = Type.String({ maxLength: limits.characters });
const Column = Type.Optional(Type.String());
const Boost = Type.Optional(Type.Number({ minimum: 0, maximum: 1e6 }));
const Operator = Type.Optional(Type.Enum(['OR', 'AND', 'Or', 'And', 'or', 'and']));

const Words = Type.Object({
  query: Text,
  columns: Type.Optional(Type.Array(Type.String(), { maxItems: limits.columns })),
});
const Match = Type.Object({
  terms: Text,
  column: Column,
  boost: Boost,
  fuzziness: Type.Optional(Type.Integer({ minimum: 0, maximum: 2 })),
  max_expansions: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
  operator: Operator,
  prefix_length: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000 })),
});
const Phrase = Type.Object({
  terms: Text,
  column: Column,
  slop: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000 })),
});
const BoostParts = Type.Object({
  positive: Type.Unknown(),
  negative: Type.Unknown(),
  negative_boost: Type.Optional(Type.Number({ minimum: 0, maximum: 1e6 })),
});
const MultiMatch = Type.Object({
  query: Text,
  columns: Type.Array(Type.String(), { minItems: 1, maxItems: limits.parts }),
  boost: Type.Optional(Type.Array(Type.Number({ minimum: 0, maximum: 1e6 }))),
  operator: Operator,
});
const MatchQueries = Type.Object({
  match_queries: Type.Array(Type.Unknown(), { minItems: 1, maxItems: limits.parts }),
});
const Clauses = Type.Optional(Type.Array(Type.Unknown(), { maxItems: limits.parts }));
const BooleanParts = Type.Object({ should: Clauses, must: Clauses, must_not: Clauses });

const field = 'full_text_query';

const forms = { string_query: true, structured_query: true };
const structure = { query: true };

/** `InvalidInput` names the part at fault. */
export function readTextSearch(value: unknown, check: NameCheck): TextSearch | undefined {
  const given = objectOf(value, field);
  const form = (['string_query', 'structured_query'] as const).find((name) => (given[name] ?? null) !== null);
  if (form === undefined) return readSearch(given, field, check);
  check(namesOf(given), forms, field);
  if (namesOf(given).includes('structured_query') && form === 'string_query') {
    throw invalidInput(`${field}: string_query and structured_query exclude each other`);
  }
  return readSearch(objectOf(given[form], field), `${field}.${form}`, check);
}

function readSearch(value: Readonly<Record<string, unknown>>, at: string, check: NameCheck): TextSearch {
  if (typeof value.query === 'object') {
    check(namesOf(value), structure, at);
    return { kind: 'structured', query: new TextQueryReader(check).read(value.query, 1) };
  }
  const { query: words, columns = [] } = shaped(Words, value, at, check);
  return { kind: 'words', words, columns: columns.length === 0 ? undefined : columns.map(readColumn) };
}

class TextQueryReader {
  readonly #check: NameCheck;
  #parts = 0;

  constructor(check: NameCheck) {
    this.#check = check;
  }

  read(value: unknown, depth: number): TextQuery {
    this.#parts += 1;
    if (depth > limits.depth) throw invalidInput(`${field}: it is nested more than ${limits.depth} deep`);
    if (this.#parts > limits.parts) throw invalidInput(`${field}: it has more than ${limits.parts} parts`);
    const entries = Object.entries(objectOf(value, field)).filter(([, part]) => part !== null);
    const [entry] = entries;
    if (entry === undefined || entries.length > 1) {
      throw invalidInput(`${field}: a query is one of match, phrase, boost, multi_match and boolean`);
    }
    return this.#readKind(entry[0], entry[1], depth);
  }

  #readKind(kind: string, value: unknown, depth: number): TextQuery {
    switch (kind) {
      case 'match':
        return readMatch(value, this.#check);
      case 'phrase': {
        const { terms, column, slop = 0 } = shaped(Phrase, value, 'phrase', this.#check);
        return { kind: 'phrase', terms, column: optionalColumn(column), slop };
      }
      case 'boost': {
        const {
          positive,
          negative,
          negative_boost: negativeBoost = 0.5,
        } = shaped(BoostParts, value, 'boost', this.#check);
        const [first, second] = [this.read(positive, depth + 1), this.read(negative, depth + 1)];
        return { kind: 'boost', positive: first, negative: second, negativeBoost };
      }
      case 'multi_match':
        return readMultiMatch(value, this.#check);
      case 'boolean':
        return this.#readBoolean(value, depth);
      default:
        throw invalidInput(`${field}: this service does not know ${JSON.stringify(kind.slice(0, 40))}`);
    }
  }

  #readBoolean(value: unknown, depth: number): TextQuery {
    const { should = [], must = [], must_not: mustNot = [] } = shaped(BooleanParts, value, 'boolean', this.#check);
    const clauses = (parts: readonly unknown[], occur: 'SHOULD' | 'MUST' | 'MUST_NOT') =>
      parts.map((part) => ({ occur, query: this.read(part, depth + 1) }));
    return {
      kind: 'boolean',
      clauses: [...clauses(should, 'SHOULD'), ...clauses(must, 'MUST'), ...clauses(mustNot, 'MUST_NOT')],
    };
  }
}

function readMatch(value: unknown, check: NameCheck): MatchText {
  const match = shaped(Match, value, 'match', check);
  // Absent is exact, and null is by the length of each term.
  const isAutomatic = objectOf(value, 'match').fuzziness === null;
  return {
    kind: 'match',
    column: optionalColumn(match.column),
    terms: match.terms,
    boost: match.boost ?? 1,
    fuzziness: isAutomatic ? undefined : (match.fuzziness ?? 0),
    maxExpansions: match.max_expansions ?? 50,
    operator: readOperator(match.operator),
    prefixLength: match.prefix_length ?? 0,
  };
}

function readMultiMatch(value: unknown, check: NameCheck): TextQuery {
  if (Array.isArray(objectOf(value, 'multi_match').match_queries)) return readMatchQueries(value, check);
  const { query: terms, columns, boost: boosts, operator } = shaped(MultiMatch, value, 'multi_match', check);
  if (boosts !== undefined && boosts.length !== columns.length) {
    throw invalidInput(`${field}: multi_match has one boost for each of its columns`);
  }
  return { kind: 'multi match', terms, columns: columns.map(readColumn), boosts, operator: readOperator(operator) };
}

/** The binding looks for the same terms in every column. */
function readMatchQueries(value: unknown, check: NameCheck): TextQuery {
  const parts = shaped(MatchQueries, value, 'multi_match', check).match_queries.map((part) => readMatch(part, check));
  const [first] = parts;
  const columns = parts.flatMap(({ column }) => column ?? []);
  const same = ({ column: _, boost: __, ...rest }: MatchText): string => JSON.stringify(rest);
  const isPlain = ({ fuzziness, maxExpansions, prefixLength }: MatchText): boolean =>
    fuzziness === 0 && maxExpansions === 50 && prefixLength === 0;
  if (first === undefined || columns.length < parts.length || !parts.every(isPlain)) {
    throw invalidInput(
      `${field}: each part of multi_match has a column and terms, and a boost and an operator at most`,
    );
  }
  if (new Set(parts.map(same)).size > 1) {
    throw invalidInput(
      `${field}: the parts of multi_match must have the same terms and operator; use boolean otherwise`,
    );
  }
  const { terms, operator } = first;
  return { kind: 'multi match', terms, columns, boosts: parts.map(({ boost }) => boost), operator };
}

const readOperator = (text: string | undefined): 'OR' | 'AND' => (text?.toUpperCase() === 'AND' ? 'AND' : 'OR');

const readColumn = (text: string): string => formatFieldPath(parseFieldPath(text, field));
const optionalColumn = (text: string | undefined): string | undefined =>
  text === undefined || text === '' ? undefined : readColumn(text);

function objectOf(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (isObject(value)) return value;
  throw invalidInput(`${field}: ${what} must be an object`);
}

/** A field that is null is absent. */
function shaped<Schema extends TObject>(
  schema: Schema,
  value: unknown,
  what: string,
  check: NameCheck,
): Static<Schema> {
  check(namesOf(objectOf(value, what)), schema.properties, what);
  const fields = Object.entries(objectOf(value, what)).filter(([, part]) => part !== null);
  const given: unknown = Object.fromEntries(fields);
  if (Check(schema, given)) return given;
  const isWrong = (name: string, part: unknown): boolean => {
    const known = schema.properties[name];
    return known !== undefined && !Check(known, part);
  };
  const wrong = fields.find(([name, part]) => isWrong(name, part))?.[0];
  throw invalidInput(`${field}: ${what}: ${wrong === undefined ? 'a field is missing' : `${wrong} is not valid`}`);
}
