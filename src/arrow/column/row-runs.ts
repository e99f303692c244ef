/** Some rows of a batch, or some values of a column: runs of neighbours, in order. Run `i` ends before `ends[i]`. */
export interface RowRuns {
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  /** How many rows there are in all runs. */
  readonly rows: number;
}

function runsBetween(starts: Uint32Array, ends: Uint32Array): RowRuns {
  let rows = 0;
  for (let i = 0; i < starts.length; i++) rows += ends[i]! - starts[i]!;
  return { starts, ends, rows };
}

export const allRows = (count: number): RowRuns => runsBetween(Uint32Array.of(0), Uint32Array.of(count));

/** The rows for which `keep` holds 1. */
export function keptRows(keep: Uint8Array): RowRuns {
  const starts: number[] = [];
  const ends: number[] = [];
  for (let start = keep.indexOf(1); start !== -1; ) {
    const gap = keep.indexOf(0, start);
    const end = gap === -1 ? keep.length : gap;
    starts.push(start);
    ends.push(end);
    start = keep.indexOf(1, end);
  }
  return runsBetween(Uint32Array.from(starts), Uint32Array.from(ends));
}

/** The elements of those lists whose elements `offsets` delimits. */
export const elementsOf = ({ starts, ends }: RowRuns, offsets: Uint32Array): RowRuns =>
  runsBetween(
    starts.map((row) => offsets[row]!),
    ends.map((row) => offsets[row]!),
  );

/** The elements of lists that all have `listSize`. */
export const elementsOfFixed = ({ starts, ends }: RowRuns, listSize: number): RowRuns =>
  runsBetween(
    starts.map((row) => row * listSize),
    ends.map((row) => row * listSize),
  );
