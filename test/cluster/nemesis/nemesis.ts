/** Breaks the parts of a cluster, one after the other and several at once, as a seed draws it, and mends each again. */
import { setTimeout as pause } from 'node:timers/promises';
import { randomFaults } from '#test/fixtures/store-proxy.ts';
import type { Random } from '#test/model/random.ts';
import type { Cluster, Member } from './cluster.ts';
import type { LinkState } from './link.ts';
import type { Way } from './namespace.ts';

interface Harm {
  readonly name: string;
  readonly weight: number;
  readonly longestMs: number;
  /** Undefined where there is nothing of the kind to break. Resolves to what mends it. */
  begin(member: Member, random: Random): Promise<() => void | Promise<void>> | undefined;
}

/** Between two harms so many writes get through, or as many as do in the time: the machine may be slow. */
const mostWritesBetween = 12;
const mostRestMs = 10_000;
const maxClockOffsetMs = 120_000;

const mostStarts = 60;

/**
 * Starts it with a clock that is up to two minutes ahead or behind, again and again as an orchestrator does: without its catalog or
 * its store, which may be broken too, it does not start.
 */
const startAgain = (member: Member, random: Random) => async (): Promise<void> => {
  const clockOffsetMs = random.int(2 * maxClockOffsetMs) - maxClockOffsetMs;
  for (let starts = 1; ; starts++) {
    try {
      return await member.replica.start(clockOffsetMs);
    } catch (error) {
      if (starts === mostStarts) throw error;
      await pause(500);
    }
  }
};

const killed: Harm = {
  name: 'killed',
  weight: 3,
  longestMs: 2_000,
  begin: async (member, random) => {
    await member.replica.kill();
    return startAgain(member, random);
  },
};

const stopped: Harm = {
  name: 'stopped in order',
  weight: 1,
  longestMs: 1_000,
  begin: async (member, random) => {
    await member.replica.stop();
    return startAgain(member, random);
  },
};

const frozen = (longestMs: number): Harm => ({
  name: 'frozen',
  weight: 3,
  longestMs,
  begin: async ({ replica }) => {
    replica.freeze();
    return () => replica.thaw();
  },
});

const brokenLink = (name: string, way: 'toCatalog' | 'fromPeers', state: LinkState): Harm => ({
  name: `${name} ${state}`,
  weight: 1,
  longestMs: 6_000,
  begin: (member) => {
    const link = member[way];
    if (link === undefined) return undefined;
    link.state = state;
    return Promise.resolve(() => {
      link.state = 'open';
    });
  },
});

const lostPackets = (way: Way): Harm => ({
  name: `packets lost: ${way}`,
  weight: 1,
  longestMs: 10_000,
  begin: ({ namespace }) => {
    if (namespace === undefined) return undefined;
    namespace.setLosing(way, true);
    return Promise.resolve(() => namespace.setLosing(way, false));
  },
});

const noStore = (kind: 'cut before' | 'late' | 'stalled'): Harm => ({
  name: `store ${kind}`,
  weight: 1,
  longestMs: 6_000,
  begin: ({ toStore }) => {
    if (toStore === undefined) return undefined;
    const mended = Promise.withResolvers<void>();
    toStore.faults = () => (kind === 'cut before' ? { kind } : { kind, until: mended.promise });
    return Promise.resolve(() => {
      toStore.faults = () => undefined;
      mended.resolve();
    });
  },
});

const failingStore: Harm = {
  name: 'failing store',
  weight: 3,
  longestMs: 4_000,
  begin: ({ toStore }, random) => {
    if (toStore === undefined) return undefined;
    toStore.faults = randomFaults(random, {
      percent: 25,
      weights: [
        [3, 'lost answer'],
        [2, 'error after'],
        [1, 'slow down'],
        [1, 'cut amid upload'],
        [1, 'cut amid answer'],
        [2, 'late'],
        [1, 'stalled'],
      ],
      longestMs: 3_000,
    });
    return Promise.resolve(() => {
      toStore.faults = () => undefined;
    });
  },
};

export interface NemesisPlan {
  /** How many writes were acknowledged so far. */
  readonly acknowledged: () => number;
  readonly random: Random;
  /** How many parts are broken at a time, at most. */
  readonly atOnce: number;
  /** The longest that a process stands still: well beyond its lease. */
  readonly longestFreezeMs: number;
}

export class Nemesis {
  readonly #cluster: Cluster;
  readonly #plan: NemesisPlan;
  readonly #harms: readonly Harm[];
  readonly #busy = new Set<Member>();
  readonly #done: string[] = [];
  readonly #begun: string[] = [];

  constructor(cluster: Cluster, plan: NemesisPlan) {
    this.#cluster = cluster;
    this.#plan = plan;
    const states = ['cut', 'stalled', 'deaf'] as const;
    this.#harms = [
      killed,
      stopped,
      frozen(plan.longestFreezeMs),
      failingStore,
      ...(['cut before', 'late', 'stalled'] as const).map(noStore),
      ...states.map((state) => brokenLink('catalog', 'toCatalog', state)),
      ...states.map((state) => brokenLink('peers', 'fromPeers', state)),
      ...(['store', 'catalog', 'peers'] as const).map(lostPackets),
    ];
  }

  /** The names of those that began. */
  get harms(): readonly string[] {
    return this.#begun;
  }

  /** What it did, in order, with the moments. */
  get done(): readonly string[] {
    return this.#done;
  }

  /** Ends with everything mended, soon after `isOver` says so. */
  async run(isOver: () => boolean): Promise<void> {
    await Promise.all(Array.from({ length: this.#plan.atOnce }, () => this.#runOne(isOver)));
  }

  async #runOne(isOver: () => boolean): Promise<void> {
    const { random } = this.#plan;
    while (!isOver()) {
      await this.#rest(isOver);
      if (this.#cluster.restartCatalog !== undefined && random.chance(5)) {
        this.#note('the catalog is restarted');
        this.#begun.push('catalog restarted');
        await this.#cluster.restartCatalog();
        continue;
      }
      const member = this.#cluster.members.find((each) => !this.#busy.has(each) && random.chance(50));
      if (member !== undefined) await this.#harm(member, isOver);
    }
  }

  async #rest(isOver: () => boolean): Promise<void> {
    const { acknowledged, random } = this.#plan;
    const enough = acknowledged() + random.int(mostWritesBetween);
    const endMs = performance.now() + mostRestMs;
    while (acknowledged() < enough && performance.now() < endMs && !isOver()) await pause(50);
  }

  async #harm(member: Member, isOver: () => boolean): Promise<void> {
    const { random } = this.#plan;
    const harm = random.weighted(this.#harms.map((each) => [each.weight, each] as const));
    this.#busy.add(member);
    const begun = await harm.begin(member, random);
    if (begun !== undefined) {
      this.#note(`${member.replica.name}: ${harm.name}`);
      this.#begun.push(harm.name);
      for (let leftMs = random.int(harm.longestMs); leftMs > 0 && !isOver(); leftMs -= 100) await pause(100);
      await begun();
      this.#note(`${member.replica.name}: no longer ${harm.name}`);
    }
    this.#busy.delete(member);
  }

  #note(what: string): void {
    this.#done.push(`${performance.now().toFixed(0)} ${what}`);
  }
}
