/**
 * What a JSON text may be made of, counted before it is parsed: the event loop belongs to all clients, and a megabyte of nothing but
 * keys or brackets keeps it busy fifty times as long as one of numbers or text.
 */
import { invalidInput } from './errors.ts';

/** More than any request needs: `updates` may have 10,000 pairs, and `columns` as many texts by name. */
const limits = { depth: 64, brackets: 20_000, keys: 20_000, texts: 65_536 } as const;

const [quote, backslash, colon] = [0x22, 0x5c, 0x3a];
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d];

/** An object of JSON is no list, and not null. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export const areTexts = (fields: Readonly<Record<string, unknown>>): fields is Readonly<Record<string, string>> =>
  Object.values(fields).every((field) => typeof field === 'string');

/** `InvalidInput` where `what` has too much of something. Whether it is JSON is not asked. */
export function requireBoundedJson(text: string, what: string): void {
  const most = (count: number, limit: number, of: string): void => {
    if (count > limit) throw invalidInput(`${what} has more than ${limit} ${of}`);
  };
  let [depth, brackets, keys, texts] = [0, 0, 0, 0];
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote:
        at = endOfText(text, at);
        most(++texts, limits.texts, 'texts');
        break;
      case openArray:
      case openObject:
        if (++depth > limits.depth) throw invalidInput(`${what} is nested more than ${limits.depth} deep`);
        most(++brackets, limits.brackets, 'arrays and objects');
        break;
      case closeArray:
      case closeObject:
        depth -= 1;
        break;
      case colon:
        most(++keys, limits.keys, 'fields');
        break;
    }
  }
}

/** Returns the index of the quote that ends the text, or of the last character. */
function endOfText(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === backslash) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
  return text.length - 1;
}
