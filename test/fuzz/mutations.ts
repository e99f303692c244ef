/** Seeded damage to Arrow IPC streams: what bit rot, broken writers and attackers send. */

export type Random = (below: number) => number;

/** The same numbers for the same seed and run (mulberry32). */
export function randomOf(seed: number, run: number): Random {
  let state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(run + 1, 0x85ebca6b)) | 0;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

export const pick = <Item>(random: Random, items: readonly Item[]): Item => items[random(items.length)]!;

const words32 = [0, 1, -1, 2, 4, 7, 8, 16, 64, 255, 1024, 0x7fffffff, -0x80000000, 0x10000, 100_000];
const words64 = [
  0n,
  1n,
  -1n,
  7n,
  8n,
  16n,
  64n,
  1n << 20n,
  1n << 31n,
  1n << 39n,
  1n << 62n,
  -(1n << 63n),
  (1n << 63n) - 1n,
];

const continuation = Buffer.from([255, 255, 255, 255]);

/** Where messages seem to begin; the last is where the end marker does. Always advances, as streams may be damaged. */
function messageStarts(stream: Buffer): number[] {
  const starts: number[] = [];
  let at = 0;
  while (at + 8 <= stream.length && stream.readInt32LE(at + 4) !== 0) {
    starts.push(at);
    const bodyAt = at + 8 + Math.max(0, stream.readInt32LE(at + 4));
    const next = stream.indexOf(continuation, bodyAt);
    at = next === -1 ? stream.length : next;
  }
  return [...starts, at];
}

function splitMessages(stream: Buffer): Buffer[] {
  const starts = messageStarts(stream);
  return starts.map((start, i) => stream.subarray(start, starts[i + 1] ?? stream.length));
}

interface Mutation {
  readonly name: string;
  readonly apply: (stream: Buffer, random: Random) => Buffer;
}

const inPlace = (name: string, change: (stream: Buffer, random: Random) => void): Mutation => ({
  name,
  apply: (stream, random) => {
    const copy = Buffer.from(stream);
    change(copy, random);
    return copy;
  },
});

const mutations: readonly Mutation[] = [
  inPlace('byte', (bytes, random) => {
    bytes[random(bytes.length)] = pick(random, [0, 255, 1, 128, random(256)]);
  }),
  inPlace('bit', (bytes, random) => {
    bytes[random(bytes.length)]! ^= 1 << random(8);
  }),
  inPlace('word', (bytes, random) => {
    bytes.writeInt32LE(pick(random, words32), 4 * random(Math.floor(bytes.length / 4)));
  }),
  inPlace('long', (bytes, random) => {
    bytes.writeBigInt64LE(pick(random, words64), 8 * random(Math.floor(bytes.length / 8)));
  }),
  inPlace('nudge', (bytes, random) => {
    const at = 4 * random(Math.floor(bytes.length / 4));
    bytes.writeInt32LE((bytes.readInt32LE(at) + pick(random, [-8, -4, -1, 1, 4, 8])) | 0, at);
  }),
  { name: 'truncation', apply: (stream, random) => stream.subarray(0, random(stream.length)) },
  {
    name: 'duplicated message',
    apply: (stream, random) => {
      const messages = splitMessages(stream);
      return Buffer.concat(messages.toSpliced(random(messages.length), 0, pick(random, messages)));
    },
  },
  {
    name: 'removed message',
    apply: (stream, random) => {
      const messages = splitMessages(stream);
      return Buffer.concat(messages.toSpliced(random(messages.length), 1));
    },
  },
  {
    name: 'swapped messages',
    apply: (stream, random) => {
      const messages = splitMessages(stream);
      const [a, b] = [random(messages.length), random(messages.length)];
      return Buffer.concat(messages.with(a, messages[b]!).with(b, messages[a]!));
    },
  },
  inPlace('copied range', (bytes, random) => {
    const length = 1 + random(Math.min(64, bytes.length));
    const from = random(bytes.length - length + 1);
    bytes.copy(bytes, random(bytes.length - length + 1), from, from + length);
  }),
];

interface Mutant {
  readonly bytes: Buffer;
  /** The names of what was done to it. */
  readonly how: string;
}

/** One to three mutations. Single bytes are the most frequent, for they get furthest. */
export function mutate(stream: Buffer, random: Random): Mutant {
  const how: string[] = [];
  let bytes = stream;
  for (let left = 1 + random(3); left > 0 && bytes.length >= 16; left--) {
    const mutation = random(2) === 0 ? mutations[random(5)]! : pick(random, mutations);
    bytes = mutation.apply(bytes, random);
    how.push(mutation.name);
  }
  return { bytes, how: how.join(', ') };
}
