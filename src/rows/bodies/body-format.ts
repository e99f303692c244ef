/** Which formats of rows a body may have besides Arrow, by its type. */
import { invalidInput } from '../../kernel/errors.ts';
import { ndjsonTypes, type RowFormat, type TextFormat, textTypes } from '../answer-form.ts';

const formats = new Map<string, TextFormat>([
  [textTypes.json, 'json'],
  [textTypes.csv, 'csv'],
  ...ndjsonTypes.map((type) => [type, 'ndjson'] as const),
]);

/** Undefined for Arrow, and for bodies that do not say what they are. */
export const textFormatOf = (contentType: string | undefined): TextFormat | undefined =>
  formats.get(contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? '');

/** As `textFormatOf`, by what the type says in its parameters too: RFC 4180 has `header` for CSV. */
export function bodyFormatOf(contentType = ''): RowFormat | undefined {
  const format = textFormatOf(contentType);
  if (format === undefined) return undefined;
  const given = [...contentType.matchAll(/;\s*([\w-]+)\s*=\s*"?([^";]*)/g)];
  const parameters = new Map(
    given.map(([, name = '', value = '']) => [name.toLowerCase(), value.trim().toLowerCase()]),
  );
  const charset = parameters.get('charset') ?? 'utf-8';
  if (!['utf-8', 'utf8', 'us-ascii'].includes(charset)) throw invalidInput('content-type: charset: rows come as UTF-8');
  const header = (format === 'csv' && parameters.get('header')) || 'present';
  if (header === 'absent') return 'csv-without-header';
  if (header !== 'present') throw invalidInput('content-type: header: expected present or absent');
  return format;
}
