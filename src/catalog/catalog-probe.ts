import type { Clock } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import type { NamespaceCatalog } from './port.ts';

/** Asks whether the catalog answers, for readiness checks, which come without a credential. */
export class CatalogProbe {
  readonly #catalog: Pick<NamespaceCatalog, 'findNamespace'>;
  readonly #clock: Clock;
  #asked: { readonly answer: Promise<unknown>; readonly atMs: number } | undefined;
  #unanswered = 0;

  constructor(catalog: Pick<NamespaceCatalog, 'findNamespace'>, clock: Clock) {
    this.#catalog = catalog;
    this.#clock = clock;
  }

  /** Throws what the catalog throws, such as `CatalogUnavailable`, and that also where it does not answer in time. */
  async requireAnswer(): Promise<void> {
    const nowMs = this.#clock.nowMs();
    const known = this.#asked;
    // An answer counts for a second: the probe asks the catalog no more often, however many clients ask the probe.
    const isCurrent = known !== undefined && nowMs < known.atMs + 1_000;
    // Three at most wait for a catalog that does not answer: they take connections from requests.
    const asked = known !== undefined && (isCurrent || this.#unanswered >= 3) ? known : this.#ask(nowMs);
    await asked.answer;
  }

  #ask(atMs: number) {
    this.#asked = { answer: this.#inTime(), atMs };
    return this.#asked;
  }

  async #inTime(): Promise<void> {
    const late = Promise.withResolvers<never>();
    // Probes of balancers wait for a few seconds at most. A replica whose catalog takes longer cannot keep its lease
    // either.
    const cancel = this.#clock.schedule(2_000, () =>
      late.reject(
        new LancegateError('CatalogUnavailable', 'the catalog does not answer; nothing was written', {
          retryAfterSeconds: 2,
        }),
      ),
    );
    this.#unanswered += 1;
    const answer = this.#catalog.findNamespace([]).finally(() => {
      this.#unanswered -= 1;
    });
    await Promise.race([answer, late.promise]).finally(cancel);
  }
}
