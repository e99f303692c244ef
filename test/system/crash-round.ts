/** One death: loads of several subjects, each among upserts, until a process is killed; then what there is. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { growOld, orphansIn, stagedIn } from '#test/fixtures/unnamed-files.ts';
import type { Random } from '#test/model/random.ts';
import { rowsOf } from './crash-rows.ts';
import type { Sequence, Tally } from './crash-sequence.ts';
import type { CrashService } from './crash-service.ts';

export type Victim = 'service' | 'reader' | 'index builder';

/** Two rows of its own, and one that every upsert of the table writes. */
const firstId = 1_000_000;
const sharedId = 999_999;

/** Upserts into one table, one after the other. */
export class Upserts {
  readonly #table: string;
  readonly #isWide: boolean;
  readonly #sent: number[] = [];
  readonly #acknowledged = new Set<number>();
  readonly #refused = new Set<number>();

  constructor(table: string, isWide: boolean) {
    this.#table = table;
    this.#isWide = isWide;
  }

  async run(service: CrashService, isOver: () => boolean, answered: () => void): Promise<void> {
    while (!isOver()) {
      const request = this.#sent.length + 1;
      this.#sent.push(request);
      const body = rowsOf([firstId + 2 * request, firstId + 2 * request + 1, sharedId], request, this.#isWide);
      const answer = await service.ask({ path: `/v1/table/${this.#table}/merge_insert?on=id`, body });
      if (answer === undefined) {
        assert.ok(isOver(), 'an upsert got no answer');
        return;
      }
      if (answer.status === 200) this.#acknowledged.add(request);
      else {
        // Two deaths of readers may meet both attempts of one write, which then counts as what ended them.
        const isTriedTwice = answer.status === 400 && JSON.stringify(answer.body).includes('the write was tried twice');
        assert.ok(answer.status === 503 || isTriedTwice, `an upsert of ${this.#table}: ${JSON.stringify(answer.body)}`);
        this.#refused.add(request);
      }
      answered();
    }
  }

  async check(service: CrashService): Promise<void> {
    const rows = await service.query(this.#table, { columns: ['id', 'request'], filter: 'request > 0' });
    const found = [...rows].map((row) => ({ id: Number(row.id), request: Number(row.request) }));
    assert.equal(new Set(found.map(({ id }) => id)).size, found.length, `${this.#table}: a key is there twice`);
    const own = Map.groupBy(
      found.filter(({ id }) => id !== sharedId),
      ({ request }) => request,
    );
    for (const request of this.#sent) {
      const count = own.get(request)?.length ?? 0;
      const what = `${this.#table}: of upsert ${request} there are ${count} rows`;
      const isRight = this.#acknowledged.has(request) ? count === 2 : count === 0 || count === 2;
      assert.ok(this.#refused.has(request) ? count === 0 : isRight, what);
    }
    const shared = found.find(({ id }) => id === sharedId)?.request;
    if (this.#acknowledged.size > 0) assert.ok(own.has(shared ?? 0), `${this.#table}: the shared row is of ${shared}`);
  }
}

/** Asks for maintenance of one table after the other, and notes which builds were seen under way. */
export async function maintain(
  service: CrashService,
  tables: readonly string[],
  isOver: () => boolean,
  jobs: Set<string>,
  expected: readonly number[] = [200, 503],
): Promise<void> {
  for (let at = 0; !isOver(); at += 1) {
    const answer = await service.ask({ path: `/v1/table/${tables[at % tables.length]}/maintain` });
    if (answer !== undefined) assert.ok(expected.includes(answer.status), `maintain: ${JSON.stringify(answer.body)}`);
    const listed = await service.ask({ path: '/v1/jobs/list' });
    for (const { job_id: id } of (listed?.body.jobs ?? []) as readonly { job_id: string }[]) jobs.add(id);
  }
}

interface Round {
  readonly sequences: readonly Sequence[];
  readonly victim: Victim;
  readonly random: Random;
  readonly tally: Tally;
  /** The storage root. */
  readonly root: string;
}

export class CrashRound {
  readonly #round: Round;
  readonly #upserts: readonly Upserts[];
  readonly #jobs = new Set<string>();

  constructor(round: Round) {
    this.#round = round;
    this.#upserts = round.sequences
      .filter(({ takesUpserts }) => takesUpserts)
      .map(({ table }) => new Upserts(table, table.startsWith('index-')));
  }

  /** Until the victim is dead and each client has seen it. */
  async run(service: CrashService): Promise<void> {
    const { sequences, random, victim } = this.#round;
    for (const sequence of sequences) await sequence.start(service);
    const least = sequences.length * 2 + random.int(sequences.length * 10);
    const extraMs = random.int(60);
    const enough = Promise.withResolvers<void>();
    let answers = 0;
    let isOver = false;
    const answered = (): void => {
      answers += 1;
      if (answers === least) enough.resolve();
    };
    const over = () => isOver;
    const loads = Promise.all([
      ...sequences.map((sequence) => sequence.run(service, over, answered)),
      ...this.#upserts.map((upserts) => upserts.run(service, over, answered)),
      maintain(
        service,
        sequences.map(({ table }) => table),
        over,
        this.#jobs,
      ),
    ]);
    await Promise.race([enough.promise, loads]).catch((error: unknown) => {
      isOver = true;
      throw error;
    });
    if (victim === 'service') {
      await pause(extraMs); // so that it dies anywhere, and not where an answer was just sent
      isOver = true;
      await service.kill();
    } else {
      for (let left = 1 + random.int(4); left > 0; left -= 1) {
        await pause(random.int(60));
        this.#round.tally.count(service.killOne(victim) ? `${victim} killed` : `no ${victim} to kill`);
      }
      isOver = true;
    }
    await loads;
  }

  /** Of the service after the victim died: the same one, or the next. */
  async check(service: CrashService): Promise<void> {
    const { sequences, victim, root } = this.#round;
    if (victim === 'service') {
      assert.deepEqual(stagedIn(root), [], 'nothing is left of what was being made');
      assert.deepEqual((await service.get({ path: '/v1/jobs/list' })).jobs, [], 'no job runs that nobody runs');
      for (const id of this.#jobs) {
        assert.equal((await service.ask({ path: '/v1/jobs/describe', body: { job_id: id } }))?.status, 404);
      }
    }
    for (const upserts of this.#upserts) await upserts.check(service);
    for (const sequence of sequences) await sequence.check(service);
    for (const upserts of this.#upserts) await upserts.check(service);
    const listed = (await service.get({ path: '/v1/jobs/list' })).jobs as readonly { state: string; table: string }[];
    const running = listed.filter(
      ({ state, table }) => state === 'running' && sequences.some((each) => each.table === table),
    );
    assert.deepEqual(running, [], 'no job of a request that was answered runs on');
    for (const { table } of sequences) await this.#requireOrphansGo(service, table);
  }

  /** What no version names goes with the next removal of versions, once it is so old that it is of no commit under way. */
  async #requireOrphansGo(service: CrashService, table: string): Promise<void> {
    const { root, tally } = this.#round;
    const ofTable = () => orphansIn(root).filter((path) => path.startsWith(`${table}.lance/`));
    const orphans = ofTable();
    for (const path of orphans) tally.count(`orphan files in ${path.split('/')[1]}`);
    if (orphans.length === 0) return;
    growOld(root, orphans);
    const { branches } = await service.get({ path: `/v1/table/${table}/branches/list` });
    const body = rowsOf([firstId - 2], 0, table.startsWith('index-'));
    for (const branch of [undefined, ...Object.keys(branches as object)]) {
      const at = branch === undefined ? '' : `?branch=${branch}`;
      await service.get({ path: `/v1/table/${table}/insert${at}`, body }); // so that there is an older version
      const ranges = [{ start_version: 0, end_version: -1 }];
      await service.get({ path: `/v1/table/${table}/version/delete`, body: { ranges, branch } });
    }
    const left = ofTable().filter((path) => orphans.includes(path));
    assert.deepEqual(left, [], `${table} keeps orphan files`);
  }
}
