/** Commands print rows as a table on a terminal, as newline-delimited JSON in a pipe, or as what is asked for. */
import { withDefault } from '../../config/options.ts';
import { boolean } from '../../config/value-types.ts';
import { paired, pairedInEach } from '../../kernel/paired.ts';
import { type CliContext, type Output, UsageError, write } from '../command.ts';

export type PrintedRow = Readonly<Record<string, unknown>>;
export type Form = 'table' | 'ndjson' | 'json' | 'csv';

export const formOptions = {
  json: withDefault(boolean, { flag: 'json', default: 'false', doc: 'Print one JSON document.' }),
  csv: withDefault(boolean, { flag: 'csv', default: 'false', doc: 'Print CSV with a line of names.' }),
};

export function formOf({ json, csv }: { readonly json: boolean; readonly csv: boolean }, { stdout }: CliContext): Form {
  if (json && csv) throw new UsageError(['--json and --csv exclude each other']);
  if (json) return 'json';
  if (csv) return 'csv';
  return stdout.isTTY ? 'table' : 'ndjson';
}

/** `rows` have the same names in the same order; `columns` are for where there are none. */
export async function printRows(
  rows: readonly PrintedRow[],
  columns: readonly string[],
  form: Form,
  stdout: Output,
): Promise<void> {
  switch (form) {
    case 'json':
      return write(stdout, `${JSON.stringify(rows, undefined, 2)}\n`);
    case 'ndjson':
      return write(stdout, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    case 'csv':
      return write(stdout, csvLines([columns, ...rows.map((row) => columns.map((name) => row[name]))]));
    case 'table':
      return write(stdout, tableLines(rows, columns, stdout.columns ?? 100));
  }
}

const gap = '  ';

/** Aligns the cells of rows. No line is wider than the terminal: the last columns give way. */
export function tableLines(rows: readonly PrintedRow[], columns: readonly string[], width: number): string {
  const header = columns.map(printable);
  const cells = rows.map((row) => columns.map((name) => cellText(row[name])));
  const layout = pairedInEach(columns, [header, ...cells]).map(([name, texts]) => ({
    most: Math.min(60, Math.max(...texts.map(({ length }) => length))),
    isNumber: rows.length > 0 && rows.every((row) => isNumberOrNone(row[name])),
  }));
  const line = (texts: readonly string[]): string => {
    const padded = paired(layout, texts).map(([{ most, isNumber }, text]) => {
      const fitting = cut(text, most);
      return isNumber ? fitting.padStart(most) : fitting.padEnd(most);
    });
    return `${cut(padded.join(gap).trimEnd(), width)}\n`;
  };
  const rule = layout.map(({ most }) => '-'.repeat(most));
  return [header, rule, ...cells].map(line).join('');
}

const isNumberOrNone = (value: unknown): boolean => value === null || value === undefined || typeof value === 'number';

function cellText(value: unknown): string {
  if (value === null || value === undefined) return '';
  return printable(typeof value === 'string' ? value : JSON.stringify(value));
}

/** What a table holds must not move the cursor of who looks at it, nor turn text around: control characters and those of direction. */
export const printable = (text: string): string =>
  text.replaceAll(
    /[\p{Cc}\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

const cut = (text: string, width: number): string => (text.length <= width ? text : `${text.slice(0, width - 1)}…`);

const csvLines = (lines: readonly (readonly unknown[])[]): string =>
  lines.map((line) => `${line.map(csvCell).join(',')}\n`).join('');

/** A text that is empty is quoted, which keeps it apart from none (RFC 4180). */
function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
