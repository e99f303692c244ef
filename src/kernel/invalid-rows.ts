/** Counts the rows of a source that are left out because they break a rule, and lists the first of them with the reason. */
export interface InvalidRow {
  /** The rows of a source are counted from 1. */
  readonly row: number;
  readonly reason: string;
}

export interface InvalidReport {
  readonly count: number;
  /** They stand in the order of the source, and none before the last of them is missing. */
  readonly listed: readonly InvalidRow[];
}

const mostListed = 100;
/** The limit of one reason: the answer and its record keep all that are listed, and the name of one column may be longer. */
const mostCharacters = 300;

export class InvalidRows {
  #count = 0;
  #listed: InvalidRow[] = [];

  static of(report: InvalidReport): InvalidRows {
    const rows = new InvalidRows();
    rows.take(report);
    return rows;
  }

  get count(): number {
    return this.#count;
  }

  add(row: number, reason: string): void {
    this.#count += 1;
    const after = this.#listed.findLastIndex((other) => other.row < row) + 1;
    if (after >= mostListed) return;
    this.#listed.splice(after, 0, { row, reason: clipped(reason) });
    this.#listed.length = Math.min(this.#listed.length, mostListed);
  }

  /** Takes a report of rows that other code counted, from the first row on. */
  take({ count, listed }: InvalidReport): void {
    this.#count = count;
    this.#listed = [...listed];
  }

  report(): InvalidReport {
    return { count: this.#count, listed: [...this.#listed] };
  }

  /**
   * Gives the row of the source that an index stands for among those that are left now. It is exact for each row that can still
   * be listed: where rows before it were left out that are not listed, so many are listed that it is not.
   */
  rowsLeft(): (index: number) => number {
    const out = this.#listed.map(({ row }) => row);
    return (index) => {
      let row = index + 1;
      for (const each of out) {
        if (each > row) break;
        row += 1;
      }
      return row;
    };
  }
}

const clipped = (reason: string): string =>
  reason.length <= mostCharacters ? reason : `${reason.slice(0, mostCharacters - 1).toWellFormed()}…`;
