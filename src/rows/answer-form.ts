export const arrowFileType = 'application/vnd.apache.arrow.file';
export const arrowStreamType = 'application/vnd.apache.arrow.stream';

export type TextFormat = 'json' | 'ndjson' | 'csv';
/** CSV has a line with the names of its columns or not (RFC 4180). */
export type RowFormat = TextFormat | 'csv-without-header';

/** It says what is written of vectors: no column of them, their first values, or all. */
export type VectorText = 'omit' | 'preview' | 'full';

export type AnswerForm =
  | { readonly kind: 'arrow file' }
  | { readonly kind: 'arrow stream' }
  | { readonly kind: 'text'; readonly format: RowFormat; readonly vectors: VectorText };

/** Programs have these names for newline-delimited JSON. */
export const ndjsonTypes = [
  'application/x-ndjson',
  'application/ndjson',
  'application/jsonl',
  'application/x-jsonl',
  'application/jsonlines',
  'application/x-jsonlines',
];

export const textTypes: Readonly<Record<TextFormat, string>> = {
  json: 'application/json',
  ndjson: 'application/x-ndjson',
  csv: 'text/csv',
};
