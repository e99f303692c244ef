import type { Properties } from '../../../kernel/ids.ts';

/** The engine's options of a store, by their names without the vendor's prefix and without regard to case. */
export class StoreOptions {
  readonly #values: ReadonlyMap<string, string>;

  /** `prefix` is what may stand before each name. */
  constructor(options: Properties, prefix: RegExp) {
    const named = Object.entries(options).map(
      ([name, value]) => [name.toLowerCase().replace(prefix, ''), value] as const,
    );
    this.#values = new Map(named);
  }

  /** The first of these that there is. */
  of(...names: readonly string[]): string | undefined {
    return names.map((name) => this.#values.get(name)).find((value) => value !== undefined);
  }
}
