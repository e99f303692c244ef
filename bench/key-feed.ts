/**
 * The keys of requests: half of each are in the table already, half are new. One request in ten repeats the new keys of
 * the one before it, as every queue with at-least-once delivery does now and then: what writers without a lock
 * make duplicates of.
 */
export class KeyFeed {
  readonly #targetRows: number;
  readonly #rows: number;
  #requests = 0;
  #nextNew: number;
  #state = 12_345;

  constructor(targetRows: number, rowsPerRequest: number) {
    this.#targetRows = targetRows;
    this.#rows = rowsPerRequest;
    this.#nextNew = targetRows;
  }

  /** Every key below this is in the table once all requests are answered. */
  get end(): number {
    return this.#nextNew;
  }

  next(): number[] {
    const newRows = Math.floor(this.#rows / 2);
    const isRepeated = this.#requests++ % 10 === 9;
    const firstNew = isRepeated ? this.#nextNew - newRows : this.#nextNew;
    this.#nextNew = firstNew + newRows;
    const known = new Set<number>();
    while (known.size < this.#rows - newRows) known.add(this.#random() % this.#targetRows);
    const keys = [...known];
    for (let i = 0; i < newRows; i++) keys.push(firstNew + i);
    return keys;
  }

  #random(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#state >>> 4;
  }
}
