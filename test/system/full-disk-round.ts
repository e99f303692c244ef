/** One time that a disk fills and gets free again, amid loads of several subjects; then what there is. */
import assert from 'node:assert/strict';
import { orphansIn } from '#test/fixtures/unnamed-files.ts';
import type { Random } from '#test/model/random.ts';
import { maintain, Upserts } from './crash-round.ts';
import type { Sequence, Tally } from './crash-sequence.ts';
import type { CrashService } from './crash-service.ts';
import type { SmallDisk } from './small-disk.ts';

interface Round {
  readonly sequences: readonly Sequence[];
  readonly disks: readonly SmallDisk[];
  readonly random: Random;
  readonly tally: Tally;
  /** The storage root. */
  readonly root: string;
}

/** How often the disk fills in a round. */
const dips = 4;
const mostLeftBytes = 2 ** 18;
const mostLeftFiles = 40;

export class FullDiskRound {
  readonly #round: Round;
  readonly #upserts: readonly Upserts[];
  #answers = 0;
  #awaited: { readonly atAnswers: number; readonly resolve: () => void } | undefined;

  constructor(round: Round) {
    this.#round = round;
    this.#upserts = round.sequences
      .filter(({ takesUpserts }) => takesUpserts)
      .map(({ table }) => new Upserts(table, table.startsWith('index-')));
  }

  async run(service: CrashService): Promise<void> {
    const { sequences, disks } = this.#round;
    for (const sequence of sequences) await sequence.start(service);
    let isOver = false;
    const over = () => isOver;
    const answered = () => this.#answered();
    const tables = sequences.map(({ table }) => table);
    const loads = Promise.all([
      ...sequences.map((sequence) => sequence.run(service, over, answered)),
      ...this.#upserts.map((upserts) => upserts.run(service, over, answered)),
      // Several steps, of which a later one may find the disk full: that nothing was written would be wrong then.
      maintain(service, tables, over, new Set(), [200, 503, 500]),
    ]);
    try {
      await Promise.race([this.#fillAndEmpty(), loads]);
    } finally {
      isOver = true;
      for (const disk of disks) disk.empty();
    }
    await loads;
  }

  async #fillAndEmpty(): Promise<void> {
    const { sequences, random, disks, tally } = this.#round;
    for (let dip = 0; dip < dips; dip += 1) {
      await this.#afterAnswers(sequences.length * (1 + random.int(4)));
      const disk = random.pick(disks);
      if (random.chance(15)) disk.fillFiles(random.int(mostLeftFiles));
      else disk.fillBytes(Math.floor(mostLeftBytes / 2 ** random.int(9)) - 2 ** 10);
      await this.#afterAnswers(sequences.length * (4 + random.int(8)));
      disk.empty();
      tally.count('times that a disk was full');
    }
  }

  async check(service: CrashService): Promise<void> {
    const { sequences, tally, root } = this.#round;
    for (const upserts of this.#upserts) await upserts.check(service);
    for (const sequence of sequences) await sequence.check(service);
    for (const upserts of this.#upserts) await upserts.check(service);
    const orphans = orphansIn(root).filter((path) => sequences.some(({ table }) => path.startsWith(`${table}.lance/`)));
    for (const path of orphans) tally.count(`orphan files in ${path.split('/')[1]}`);
    assert.deepEqual(orphans, [], 'no file stays that nothing names');
  }

  #answered(): void {
    this.#answers += 1;
    if (this.#awaited !== undefined && this.#answers >= this.#awaited.atAnswers) this.#awaited.resolve();
  }

  /** Resolves once so many more requests were answered. */
  async #afterAnswers(more: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#awaited = { atAnswers: this.#answers + more, resolve };
    await promise;
  }
}
