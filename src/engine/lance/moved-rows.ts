/**
 * The ids of transactions that moved rows and did nothing else (`rewrite-fragments.ts`). They say that rows were updated, as
 * those of anybody do, so only who made them knows. What is forgotten is taken for a change: writers then read the keys of
 * their table again.
 */
export class MovedRows {
  readonly #ids = new Set<string>();

  remember(transactionId: string): void {
    this.#ids.add(transactionId);
    const [oldest] = this.#ids;
    if (this.#ids.size > mostIds && oldest !== undefined) this.#ids.delete(oldest);
  }

  has(transactionId: string): boolean {
    return this.#ids.has(transactionId);
  }
}

/** Writers look back over the commits since their own last one, beside which there is one such at the most. */
const mostIds = 4_096;
