/** A generator of random numbers that a seed determines: the same seed, the same sequence, on every machine. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 to `below`, which is left out. Mulberry32: 32 bits of state are plenty for some hundred choices. */
  int(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let bits = this.#state;
    bits = Math.imul(bits ^ (bits >>> 15), bits | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return Math.floor((((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32) * below);
  }

  chance(percent: number): boolean {
    return this.int(100) < percent;
  }

  pick<Item>(items: readonly Item[]): Item {
    if (items.length === 0) throw new Error('nothing to pick from');
    return items[this.int(items.length)] as Item;
  }

  /** `count` different items, in random order. */
  sample<Item>(items: readonly Item[], count: number): Item[] {
    const left = [...items];
    return Array.from({ length: Math.min(count, left.length) }, () => left.splice(this.int(left.length), 1)[0] as Item);
  }

  /** A choice whose probability is its weight's share of the sum. */
  weighted<Item>(choices: readonly (readonly [weight: number, item: Item])[]): Item {
    let at = this.int(choices.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, item] of choices) {
      if (at < weight) return item;
      at -= weight;
    }
    throw new Error('no choices');
  }
}
