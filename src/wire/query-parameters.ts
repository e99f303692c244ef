/**
 * The query string as clients send it, and the parameters that several operations have. Spaces come as `+` or `%20` and a plus as
 * `%2B` (form rules), a parameter may stand bare, and one may be repeated. A value is decoded only when a reader asks for it.
 */
import Type from 'typebox';
import { invalidInput } from '../kernel/errors.ts';

interface RawParameter {
  readonly name: string;
  /** It is still encoded; undefined for a bare name. */
  readonly value: string | undefined;
}

/** What a reader asks the query string for: the parameters of these names, which a route that uses the reader must declare. */
export interface QueryOf<Name extends string> {
  readonly has: (name: Name) => boolean;
  readonly all: (name: Name) => readonly string[];
  readonly one: <Value>(name: Name, parse: (text: string | undefined) => Value) => Value | undefined;
  readonly text: (name: Name) => string | undefined;
}

export class QueryParameters implements QueryOf<string> {
  readonly #raw: readonly RawParameter[];

  /** `queryString` is what follows the first `?`, without it. */
  constructor(queryString: string) {
    this.#raw = queryString.split('&').filter(Boolean).map(readParameter);
  }

  names(): readonly string[] {
    return this.#raw.map(({ name }) => name);
  }

  has(name: string): boolean {
    return this.#raw.some((parameter) => parameter.name === name);
  }

  /** Returns every value of a repeated parameter, in order; a bare one is the empty text. `InvalidInput` for a bad escape. */
  all(name: string): readonly string[] {
    return this.#valuesOf(name).map((value) => value ?? '');
  }

  /**
   * Returns the one value of a parameter, or undefined where it is absent; `parse` gets undefined for a bare one. Repeating it
   * with the same meaning is harmless; with another, `InvalidInput`.
   */
  one<Value>(name: string, parse: (text: string | undefined) => Value): Value | undefined {
    const [first, ...others] = this.#valuesOf(name).map(parse);
    const meaning = JSON.stringify(first);
    if (others.every((other) => JSON.stringify(other) === meaning)) return first;
    throw invalidInput(`${name}: given more than once, with different values`);
  }

  /** Returns the text of a parameter; a bare one is the empty text. */
  text(name: string): string | undefined {
    return this.one(name, (text) => text ?? '');
  }

  #valuesOf(name: string): readonly (string | undefined)[] {
    return this.#raw
      .filter((parameter) => parameter.name === name)
      .map(({ value }) => (value === undefined ? undefined : decodeValue(name, value)));
  }
}

function readParameter(text: string): RawParameter {
  const equals = text.indexOf('=');
  const rawName = equals === -1 ? text : text.slice(0, equals);
  return { name: decodeForm(rawName) ?? rawName, value: equals === -1 ? undefined : text.slice(equals + 1) };
}

function decodeValue(name: string, raw: string): string {
  const value = decodeForm(raw);
  if (value === undefined) throw invalidInput(`${name}: its percent-encoding is broken`);
  return value;
}

/** Undefined where an escape is cut off, or the bytes are not UTF-8. */
function decodeForm(raw: string): string | undefined {
  try {
    return decodeURIComponent(raw.replaceAll('+', ' '));
  } catch {
    return undefined; // translated: the caller knows whether it matters
  }
}

/** What `readFlag` reads, as documents say it. */
export const flag = (description: string) => Type.Optional(Type.Boolean({ description }));

/** The service reads such a parameter only to refuse what it asks for: documents do not have it. */
export const Refused = Type.Optional(Type.Never());

/** `true` or `false` in any case, `1` or `0`, or a bare name for true; undefined where it is absent. */
export const readFlag = <Name extends string>(query: QueryOf<Name>, name: Name): boolean | undefined =>
  query.one(name, (text) => parseFlag(text, name));

/** As `readFlag`, of one text. */
export function parseFlag(text: string | undefined, name: string): boolean {
  switch (text?.toLowerCase()) {
    case undefined:
    case 'true':
    case '1':
      return true;
    case 'false':
    case '0':
      return false;
    default:
      throw invalidInput(`${name}: expected true or false`);
  }
}

/** `limit` is an upper bound, so a page may hold fewer; clients follow the token. */
const maxPageItems = 1000;

/** `page_token` and `limit`, of the query and else of the body; an empty token starts at the beginning. */
export function readPage(
  query: QueryOf<'page_token' | 'limit'>,
  body: { page_token?: string; limit?: number } = {},
): Page {
  const after = query.text('page_token') ?? body.page_token;
  const limit = query.one('limit', (text) => parseLimit(text ?? '')) ?? body.limit;
  return { after: after === '' ? undefined : after, limit: Math.min(limit ?? maxPageItems, maxPageItems) };
}

function parseLimit(text: string): number {
  if (/^\d+$/.test(text) && Number(text) > 0) return Number(text);
  throw invalidInput('limit: expected a whole number above zero');
}

export const timeoutHeader = 'x-request-timeout-ms';

const units = [
  { unit: 'h', ms: 3_600_000 },
  { unit: 'm', ms: 60_000 },
  { unit: 's', ms: 1_000 },
  { unit: 'ms', ms: 1 },
] as const;
const number = String.raw`\d{1,12}(?:\.\d{1,9})?`;
const parts = units.map(({ unit }) => `(?:(${number})${unit})?`).join('');
/**
 * It matches at least one part, or a bare number, which is the first group, in the words of regular expressions that all
 * languages have.
 */
export const durationPattern = String.raw`^(?=\d)(?:(${number})|${parts})$`;
const durationGrammar = new RegExp(durationPattern);

/** Every route has it. */
export const timeoutParameter = {
  timeout: Type.Optional(
    Type.String({
      pattern: durationPattern,
      description:
        'How long the request allows itself, such as 500ms, 30s, 5m or 1h30m, or a number of seconds; never more than the service allows.',
      examples: ['30s'],
    }),
  ),
};

interface TimeoutLimits {
  readonly defaultTimeoutMs: number;
  readonly maxTimeoutMs: number;
}

export interface Timeout {
  readonly timeoutMs: number;
  /** The latest time to which the deadline may move while the service waits for the body. */
  readonly withBodyMs: number;
}

/**
 * How long a request allows itself: the smaller of the `timeout` parameter and the header that the LanceDB SDKs send,
 * and never more than the service allows.
 */
export function readTimeout(query: QueryOf<'timeout'>, header: string | undefined, limits: TimeoutLimits): Timeout {
  const asked = [query.one('timeout', (text) => parseDurationMs(text ?? '', 'timeout')), parseHeader(header)];
  const given = asked.filter((timeoutMs) => timeoutMs !== undefined);
  const timeoutMs = Math.min(...given, limits.maxTimeoutMs);
  if (given.length > 0) return { timeoutMs, withBodyMs: timeoutMs };
  return { timeoutMs: Math.min(limits.defaultTimeoutMs, limits.maxTimeoutMs), withBodyMs: limits.maxTimeoutMs };
}

function parseHeader(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw invalidInput(`${timeoutHeader}: expected a whole number of milliseconds`);
}

/** `500ms`, `30s`, `1.5m`, `1h30m`: units from large to small, each once; a bare number counts seconds. In ms. */
export function parseDurationMs(text: string, field: string): number {
  const match = durationGrammar.exec(text);
  if (match === null) throw invalidInput(`${field}: expected a duration, such as 500ms, 30s, 5m or 1h30m`);
  const [, seconds = '0', ...counts] = match;
  return units.reduce((sum, { ms }, i) => sum + Number(counts[i] ?? 0) * ms, Number(seconds) * 1_000);
}

export interface Page {
  readonly after: string | undefined;
  readonly limit: number;
}
