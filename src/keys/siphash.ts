/** "somepseudorandomlygeneratedbytes", as the specification has it. */
const initialState = [
  ...[0x7073_6575, 0x736f_6d65, 0x6e64_6f6d, 0x646f_7261],
  ...[0x6e65_7261, 0x6c79_6765, 0x7974_6573, 0x7465_6462],
];

/** SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein): whoever does not know the key cannot look for a collision. */
export class SipHash {
  /** v0 to v3, each as its lower and its upper half. */
  readonly #initial: Int32Array;
  readonly #state = new Int32Array(8);

  /** `key` has four words. */
  constructor(key: Uint32Array) {
    this.#initial = Int32Array.from(initialState, (word, i) => word ^ key[i % 4]!);
    this.#initial[2]! ^= 0xee;
  }

  /** Hashes the first `bytes` of `message`, little-endian words, into four words of `digest` from `at` on. */
  hash(message: Uint32Array, bytes: number, digest: Uint32Array, at: number): void {
    const state = this.#state;
    state.set(this.#initial);
    const wholeWords = (bytes >>> 3) * 2;
    for (let word = 0; word < wholeWords; word += 2) absorb(state, message[word]!, message[word + 1]!);
    const rest = bytes & 7;
    const low = lowest(message, wholeWords, Math.min(rest, 4));
    absorb(state, low, (bytes << 24) | lowest(message, wholeWords + 1, rest - 4));
    state[4]! ^= 0xee;
    finish(state, digest, at);
    state[2]! ^= 0xdd;
    finish(state, digest, at + 2);
  }
}

/** The lowest bytes of a word; `bytes` below 1 means none. */
function lowest(message: Uint32Array, word: number, bytes: number): number {
  if (bytes <= 0) return 0;
  return bytes >= 4 ? message[word]! : message[word]! & ((1 << (8 * bytes)) - 1);
}

function absorb(state: Int32Array, low: number, high: number): void {
  state[6]! ^= low;
  state[7]! ^= high;
  permute(state, 2);
  state[0]! ^= low;
  state[1]! ^= high;
}

function finish(state: Int32Array, digest: Uint32Array, at: number): void {
  permute(state, 4);
  digest[at] = state[0]! ^ state[2]! ^ state[4]! ^ state[6]!;
  digest[at + 1] = state[1]! ^ state[3]! ^ state[5]! ^ state[7]!;
}

/** Carried from the lower half of `a + b = sum` into the upper one. */
const carry = (a: number, b: number, sum: number): number => ((a & b) | ((a | b) & ~sum)) >>> 31;

/** SipRound: `v0` and `w0` are the lower and the upper half of its v0. */
function permute(state: Int32Array, rounds: number): void {
  let v0 = state[0]!;
  let w0 = state[1]!;
  let v1 = state[2]!;
  let w1 = state[3]!;
  let v2 = state[4]!;
  let w2 = state[5]!;
  let v3 = state[6]!;
  let w3 = state[7]!;
  let next = 0;
  for (let round = 0; round < rounds; round++) {
    next = (v0 + v1) | 0;
    w0 = (w0 + w1 + carry(v0, v1, next)) | 0;
    v0 = next;
    next = (v1 << 13) | (w1 >>> 19);
    w1 = ((w1 << 13) | (v1 >>> 19)) ^ w0;
    v1 = next ^ v0;
    next = (v2 + v3) | 0;
    w2 = (w2 + w3 + carry(v2, v3, next)) | 0;
    v2 = next;
    next = (v3 << 16) | (w3 >>> 16);
    w3 = ((w3 << 16) | (v3 >>> 16)) ^ w2;
    v3 = next ^ v2;
    // v0 was rotated by 32 above: its halves change their names here.
    next = (w0 + v3) | 0;
    w0 = (v0 + w3 + carry(w0, v3, next)) | 0;
    v0 = next;
    next = (v3 << 21) | (w3 >>> 11);
    w3 = ((w3 << 21) | (v3 >>> 11)) ^ w0;
    v3 = next ^ v0;
    next = (v2 + v1) | 0;
    w2 = (w2 + w1 + carry(v2, v1, next)) | 0;
    v2 = next;
    next = (v1 << 17) | (w1 >>> 15);
    w1 = ((w1 << 17) | (v1 >>> 15)) ^ w2;
    v1 = next ^ v2;
    next = v2;
    v2 = w2;
    w2 = next;
  }
  state[0] = v0;
  state[1] = w0;
  state[2] = v1;
  state[3] = w1;
  state[4] = v2;
  state[5] = w2;
  state[6] = v3;
  state[7] = w3;
}
