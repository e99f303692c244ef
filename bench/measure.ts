/** Runs `run` and returns its milliseconds. */
export async function timeMs(run: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await run();
  return performance.now() - start;
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

export const median = (values: readonly number[]): number => percentile(values, 0.5);

export interface Row {
  readonly what: string;
  readonly lancegate: string;
  readonly bareEngine: string;
  readonly ratio: string;
  readonly goal: string;
}

const columns: readonly (keyof Row)[] = ['what', 'lancegate', 'bareEngine', 'ratio', 'goal'];
const defaultTitles: Row = {
  what: '',
  lancegate: 'lancegate',
  bareEngine: 'bare engine',
  ratio: 'ratio',
  goal: 'goal',
};

/** One table a person can read, in Markdown so that documents can show it as it is. */
export function table(rows: readonly Row[], titles: Row = defaultTitles): string {
  const width = (column: keyof Row) => Math.max(...[titles, ...rows].map((row) => row[column].length));
  const line = (row: Row) => `| ${columns.map((column) => row[column].padEnd(width(column))).join(' | ')} |`;
  const rule = `|${columns.map((column) => '-'.repeat(width(column) + 2)).join('|')}|`;
  return [line(titles), rule, ...rows.map(line)].join('\n');
}
