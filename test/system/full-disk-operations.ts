/**
 * To be run by `full-disk.test.ts`, which gives the folder of temporary files three small disks: `both`, or `tables` and `catalog`.
 * By hand:
 *   LANCEGATE_TEST_FULL_DISKS=100 LANCEGATE_TEST_FULL_DISK_SEED=7 node --test test/system/full-disk.test.ts
 * A seed determines what is sent and when the disk fills, by the answers; the moment itself is the machine's.
 * LANCEGATE_TEST_FULL_DISK_ONLY names subjects, with commas between them.
 */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { type Given, mintToken } from '#test/fixtures/service-process.ts';
import { stagedIn } from '#test/fixtures/unnamed-files.ts';
import { Random } from '#test/model/random.ts';
import { Sequence, type Subject, Tally } from './crash-sequence.ts';
import { CrashService } from './crash-service.ts';
import { allSubjects } from './crash-subjects.ts';
import { FullDiskRound } from './full-disk-round.ts';
import { SmallDisk } from './small-disk.ts';

const rounds = Number(process.env.LANCEGATE_TEST_FULL_DISKS ?? 1);
const seed = Number(process.env.LANCEGATE_TEST_FULL_DISK_SEED ?? 1);
const only = process.env.LANCEGATE_TEST_FULL_DISK_ONLY?.split(',');
const subjectsPerRound = 4;
/** A service has so many rounds, after which its disks are those of the next. */
const roundsPerService = 8;

interface Layout {
  readonly data: string;
  readonly root: string;
  readonly disks: readonly SmallDisk[];
}

const onOneDisk = (name: string): Layout => {
  const folder = join(tmpdir(), 'both');
  const data = join(folder, name);
  return { data, root: join(data, 'tables'), disks: [new SmallDisk(folder)] };
};

const onTwoDisks = (name: string): Layout => {
  const [tables, catalog] = [join(tmpdir(), 'tables'), join(tmpdir(), 'catalog')];
  return {
    data: join(catalog, name),
    root: join(tables, name),
    disks: [new SmallDisk(tables), new SmallDisk(catalog)],
  };
};

/** Inserts of some thousand rows are several chunks; no version of a round is past its retention. */
const givenOf = ({ root }: Layout): readonly Given[] => [
  { chunkBytes: 16 * 2 ** 10, indexFromRows: 300 },
  ...['--storage-root', root, '--version-retention', '10m', '--drop-retention', '0s'],
];

class Load {
  readonly #random = new Random(seed);
  readonly #tally: Tally;
  #waiting: Subject<unknown>[] = [];

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  async onDisks(t: TestContext, layout: Layout, first: number, last: number): Promise<void> {
    const later = lastFirst((clean) => t.after(clean));
    this.#waiting = []; // they know the storage root
    for (const folder of [layout.data, layout.root]) mkdirSync(folder, { recursive: true });
    const service = await CrashService.start(layout.data, await mintToken(layout.data), givenOf(layout));
    later(() => service.kill());
    try {
      for (let round = first; round <= last; round += 1) await this.#round(service, layout, round);
    } catch (error) {
      t.diagnostic(service.log);
      throw error;
    }
    assert.equal(await service.stop(), 0);
    assert.deepEqual(stagedIn(layout.root), [], 'nothing is left of what was being made');
  }

  async #round(service: CrashService, { root, disks }: Layout, n: number): Promise<void> {
    const [random, tally] = [this.#random, this.#tally];
    if (this.#waiting.length < subjectsPerRound) {
      const subjects = allSubjects(root).filter(({ name }) => only?.includes(name) ?? true);
      this.#waiting = [...this.#waiting, ...random.sample(subjects, subjects.length)];
    }
    const sequences = this.#waiting
      .splice(0, subjectsPerRound)
      .map(
        (subject, at) =>
          new Sequence({ subject, table: `${subject.name}-${n}-${at}`, random, tally, doubtsRefusals: true }),
      );
    const round = new FullDiskRound({ sequences, disks, random, tally, root });
    await round.run(service);
    await round.check(service);
    for (const { table } of sequences) await service.get({ path: `/v1/table/${table}/drop` });
  }
}

test(`${rounds} rounds of disks that fill amid all that writes (P1, P3, P6, P8)`, async (t) => {
  t.diagnostic(`LANCEGATE_TEST_FULL_DISKS=${rounds} LANCEGATE_TEST_FULL_DISK_SEED=${seed}`);
  const tally = new Tally();
  const load = new Load(tally);
  try {
    for (let first = 1, at = 0; first <= rounds; first += roundsPerService, at += 1) {
      const layout = at % 2 === 0 ? onOneDisk(`data${at}`) : onTwoDisks(`data${at}`);
      await load.onDisks(t, layout, first, Math.min(rounds, first + roundsPerService - 1));
    }
  } finally {
    for (const line of tally.lines()) t.diagnostic(line);
  }
});
