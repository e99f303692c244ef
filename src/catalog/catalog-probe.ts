import type { Clock } from '../kernel/clock.ts';
import type { NamespaceCatalog } from './port.ts';

/** How long an answer stands: the catalog is asked no more often, however many probes there are. */
const believedForMs = 1_000;

/** Whether the catalog answers, for readiness checks, which come without a credential. */
export class CatalogProbe {
  readonly #catalog: Pick<NamespaceCatalog, 'findNamespace'>;
  readonly #clock: Clock;
  #asked: { readonly answer: Promise<unknown>; readonly atMs: number } | undefined;

  constructor(catalog: Pick<NamespaceCatalog, 'findNamespace'>, clock: Clock) {
    this.#catalog = catalog;
    this.#clock = clock;
  }

  /** Throws what the catalog throws, such as `CatalogUnavailable`. */
  async requireAnswer(): Promise<void> {
    const nowMs = this.#clock.nowMs();
    const known = this.#asked;
    const asked = known === undefined || known.atMs + believedForMs <= nowMs ? this.#ask(nowMs) : known;
    await asked.answer;
  }

  #ask(atMs: number) {
    const answer = this.#catalog.findNamespace([]);
    this.#asked = { answer, atMs };
    return this.#asked;
  }
}
