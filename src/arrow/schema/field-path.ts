/**
 * Clients write field paths in `on` and in filters so: segments joined by dots; a segment that holds a dot or a
 * backtick stands in backticks, with its own backticks doubled. The grammar is Lance's (`parse_field_path`).
 */
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import type { Field, Schema } from './schema.ts';

/** The segments go from the top-level column inwards. There is one at least, and none is empty. */
export interface FieldPath {
  readonly segments: readonly string[];
}

/** Longer texts of clients are cut in error messages: a path comes from a query string and may be as long as one. */
export const shownCharacters = 80;

/** No column lies deeper, and none has a longer name. */
const mostSegments = 128;
const mostCharacters = 64 * 1024;

/** The path is from a parameter. */
interface WrittenPath {
  readonly text: string;
  readonly parameter: string;
}

const malformed = ({ text, parameter }: WrittenPath, why: string) => {
  const shown = text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
  return invalidInput(`${parameter}: malformed field path ${JSON.stringify(shown)}: ${why}`);
};

interface Segment {
  readonly name: string;
  /** The character after the segment is there: a dot, or the end. */
  readonly end: number;
}

function readQuoted(written: WrittenPath, start: number): Segment {
  const { text } = written;
  let name = '';
  let from = start + 1;
  for (;;) {
    const close = text.indexOf('`', from);
    if (close === -1) throw malformed(written, 'a backtick is not closed');
    name += text.slice(from, close);
    if (text[close + 1] !== '`') return { name, end: close + 1 };
    name += '`';
    from = close + 2;
  }
}

function readPlain(written: WrittenPath, start: number): Segment {
  const { text } = written;
  const dot = text.indexOf('.', start);
  const end = dot === -1 ? text.length : dot;
  const name = text.slice(start, end);
  if (name.includes('`')) throw malformed(written, 'a backtick may only stand around a whole segment');
  return { name, end };
}

/** Throws `InvalidInput`, naming the parameter, the text and what is wrong with it. */
export function parseFieldPath(text: string, parameter = 'on'): FieldPath {
  const written = { text, parameter };
  if (text === '') throw malformed(written, 'it is empty');
  if (text.length > mostCharacters) throw malformed(written, `it has more than ${mostCharacters} characters`);
  const segments: string[] = [];
  let at = 0;
  for (;;) {
    const segment = text[at] === '`' ? readQuoted(written, at) : readPlain(written, at);
    if (segments.length === mostSegments) throw malformed(written, `it has more than ${mostSegments} segments`);
    if (segment.name === '') throw malformed(written, `segment ${segments.length + 1} is empty`);
    segments.push(segment.name);
    if (segment.end === text.length) return { segments };
    if (text[segment.end] !== '.') throw malformed(written, 'after a closing backtick only a dot may follow');
    at = segment.end + 1;
  }
}

const needsQuotes = (segment: string): boolean => segment.includes('.') || segment.includes('`');

export const quoteSegment = (segment: string): string => `\`${segment.replaceAll('`', '``')}\``;

/** Makes the canonical text, for display: `parseFieldPath` reads it back. */
export const formatFieldPath = (path: FieldPath): string =>
  path.segments.map((segment) => (needsQuotes(segment) ? quoteSegment(segment) : segment)).join('.');

/** `why` completes the sentence that begins with the column. */
export const refuseColumn = (segments: readonly string[], why: string): LancegateError =>
  new LancegateError('TableSchemaValidationError', `column ${formatFieldPath({ segments })} ${why}`);

export const sameFieldPath = (a: FieldPath, b: FieldPath): boolean =>
  a.segments.length === b.segments.length && a.segments.every((segment, i) => segment === b.segments[i]);

/** `InvalidInput`. `parameter` names what the paths are from. */
export function requireOnce(paths: readonly FieldPath[], parameter: string): void {
  const twice = paths.find((path, index) => paths.findIndex((other) => sameFieldPath(other, path)) < index);
  if (twice !== undefined) throw invalidInput(`${parameter}: ${formatFieldPath(twice)} is given twice`);
}

/** Finds the fields from the top-level column to the named one. It is case-sensitive, and enters structs only. */
export function resolveFieldChain(schema: Schema, path: FieldPath): readonly Field[] | undefined {
  const chain: Field[] = [];
  let siblings = schema.fields;
  for (const name of path.segments) {
    const field = siblings.find((candidate) => candidate.name === name);
    if (field === undefined) return undefined;
    chain.push(field);
    siblings = field.type.kind === 'struct' && field.dictionary === undefined ? field.children : [];
  }
  return chain;
}

export const resolveField = (schema: Schema, path: FieldPath): Field | undefined =>
  resolveFieldChain(schema, path)?.at(-1);
