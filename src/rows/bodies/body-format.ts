/** Which formats of rows a body may have besides Arrow, by its type. */
import type { TextFormat } from '../answer-form.ts';

const formats: Readonly<Record<string, TextFormat>> = {
  'application/json': 'json',
  'application/x-ndjson': 'ndjson',
  'application/ndjson': 'ndjson',
  'application/jsonl': 'ndjson',
  'application/x-jsonlines': 'ndjson',
  'text/csv': 'csv',
};

/** Undefined for Arrow, and for bodies that do not say what they are. */
export function textFormatOf(contentType: string | undefined): TextFormat | undefined {
  const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return Object.hasOwn(formats, mediaType) ? formats[mediaType] : undefined;
}
