const rounds = 27;

/** The block cipher Speck64/128: a keyed permutation of 64 bits, so two blocks that differ never become the same. */
export class Speck {
  readonly #roundKeys = new Int32Array(rounds);

  /** `key` has four words. */
  constructor(key: Uint32Array) {
    let [roundKey = 0] = key;
    const rest = key.slice(1, 4);
    for (let round = 0; round < rounds; round++) {
      this.#roundKeys[round] = roundKey;
      const word = rest[round % 3]!;
      const mixed = (rotateRight(word, 8) + roundKey) ^ round;
      rest[round % 3] = mixed;
      roundKey = rotateRight(roundKey, 29) ^ mixed;
    }
  }

  /** Encrypts the block of these two words into two words of `into`, from `at` on. */
  encrypt(low: number, high: number, into: Uint32Array, at: number): void {
    let x = high | 0;
    let y = low | 0;
    for (let round = 0; round < rounds; round++) {
      x = (rotateRight(x, 8) + y) ^ this.#roundKeys[round]!;
      y = rotateRight(y, 29) ^ x;
    }
    into[at] = y;
    into[at + 1] = x;
  }
}

const rotateRight = (word: number, bits: number): number => (word >>> bits) | (word << (32 - bits));
