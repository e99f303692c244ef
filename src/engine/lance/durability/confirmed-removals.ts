import { LancegateError, notTheFirstStepIf } from '../../../kernel/errors.ts';

/** Throws where this process must not remove anything. */
export type Confirm = (() => Promise<void>) | undefined;

/** After so many a process asks again whether the table is still its own. */
export const removalsAtOnce = 32;
/** Less than what is left of a lease that was renewed in time (docs/design/ownership.md). */
const confirmedForMs = 2_000;

/**
 * Removals of a process that may lose the table meanwhile. No version stops them, as one stops a commit. So it confirms again and
 * again that the table is its own: one that stood still, and goes on with a list from before, removes what it had begun and no more.
 */
export class ConfirmedRemovals {
  readonly #confirm: Confirm;
  #hasBegun = false;

  /** Without `confirm` no other process can own the table. */
  constructor(confirm: Confirm) {
    this.#confirm = confirm;
  }

  /** To be awaited directly before each removal. Throws what `confirm` throws; `CatalogUnavailable` where that took too long. */
  async next(): Promise<void> {
    if (this.#confirm === undefined) return;
    const refuse = notTheFirstStepIf(this.#hasBegun);
    this.#hasBegun = true;
    // The time before the question counts: the answer may have waited for this process.
    const askedAtMs = performance.now();
    await this.#confirm().catch(refuse);
    if (performance.now() - askedAtMs >= confirmedForMs) refuse(tooLate());
  }

  /** As `next`, before each so many. */
  async forEach<Item>(items: readonly Item[], remove: (some: readonly Item[]) => Promise<void>): Promise<void> {
    for (let start = 0; start < items.length; start += removalsAtOnce) {
      await this.next();
      await remove(items.slice(start, start + removalsAtOnce));
    }
  }
}

const tooLate = (): LancegateError =>
  new LancegateError('CatalogUnavailable', 'the catalog did not confirm in time that this replica owns the table', {
    retryAfterSeconds: 1,
  });
