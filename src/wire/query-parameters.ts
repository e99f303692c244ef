/**
 * The query string as clients send it. Spaces come as `+` or `%20` and a plus as `%2B` (form rules), a parameter may
 * stand bare, and one may be repeated. A value is decoded only when a reader asks for it, so unknown parameters do no harm.
 */
import { invalidInput } from '../kernel/errors.ts';
import type { Page } from '../operations/visible-page.ts';

interface RawParameter {
  readonly name: string;
  /** Still encoded; undefined for a bare name. */
  readonly value: string | undefined;
}

export class QueryParameters {
  readonly #raw: readonly RawParameter[];

  /** `queryString` is what follows the first `?`, without it. */
  constructor(queryString: string) {
    this.#raw = queryString.split('&').filter(Boolean).map(readParameter);
  }

  has(name: string): boolean {
    return this.#raw.some((parameter) => parameter.name === name);
  }

  /** Every value of a repeated parameter, in order; a bare one is the empty text. `InvalidInput` for a bad escape. */
  all(name: string): readonly string[] {
    return this.#valuesOf(name).map((value) => value ?? '');
  }

  /**
   * The one value of a parameter, or undefined where it is absent; `parse` gets undefined for a bare one. Repeating it
   * with the same meaning is harmless; with another, `InvalidInput`.
   */
  one<Value>(name: string, parse: (text: string | undefined) => Value): Value | undefined {
    const [first, ...others] = this.#valuesOf(name).map(parse);
    const meaning = JSON.stringify(first);
    if (others.every((other) => JSON.stringify(other) === meaning)) return first;
    throw invalidInput(`${name}: given more than once, with different values`);
  }

  /** The text of a parameter; a bare one is the empty text. */
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

/** `true` or `false` in any case, `1` or `0`, or a bare name for true; undefined where it is absent. */
export const readFlag = (query: QueryParameters, name: string): boolean | undefined =>
  query.one(name, (text) => parseFlag(text, name));

function parseFlag(text: string | undefined, name: string): boolean {
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

/** `page_token` and `limit`; an empty token starts at the beginning. */
export function readPage(query: QueryParameters): Page {
  const after = query.text('page_token');
  const limit = query.one('limit', (text) => parseLimit(text ?? ''));
  return { after: after === '' ? undefined : after, limit: Math.min(limit ?? maxPageItems, maxPageItems) };
}

function parseLimit(text: string): number {
  if (/^\d{1,10}$/.test(text) && Number(text) > 0) return Number(text);
  throw invalidInput('limit: expected a whole number above zero');
}
