/**
 * Random merges of all kinds, maintenance and external commits, against what SQL says of them in turn. By hand:
 *   LANCEGATE_GROUP_SEED=7 node --test test/table/row-address-random.test.ts
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { directCommits, sendTogether } from './direct-commits.ts';
import { full, type Row } from './rows.ts';
import { byAppending, byMerging, countsOf, type Interruptions, type Spec, Stage, upsert } from './stage.ts';

interface Stored {
  readonly id: number | null;
  v: string;
}

function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const firstId = 8;
const onlyUpdating = { ...upsert, whenNotMatchedInsertAll: false };
const isEven = ({ v }: Stored): boolean => /[02468]$/.test(v);
const evenIn = (column: string): string => [0, 2, 4, 6, 8].map((digit) => `${column} LIKE '%${digit}'`).join(' OR ');
const kinds: readonly { readonly spec: Spec; readonly shares: boolean }[] = [
  { spec: { ...upsert, whenMatchedUpdateAll: false }, shares: true },
  { spec: onlyUpdating, shares: true },
  { spec: { ...upsert, whenMatchedUpdateAll: { filter: ownSql(evenIn('target.v')) } }, shares: false },
  { spec: { ...upsert, whenNotMatchedBySourceDelete: { filter: ownSql(evenIn('v')) } }, shares: false },
];

/** Changes `rows`; returns how many were inserted and updated. */
function apply(rows: Stored[], source: readonly Row[], spec: Spec): [number, number] {
  let [inserted, updated] = [0, 0];
  const before = [...rows];
  for (const [id, v] of source) {
    const found = before.filter((row) => id !== null && row.id === id);
    for (const row of found) {
      if (spec.whenMatchedUpdateAll === false || (spec.whenMatchedUpdateAll !== true && !isEven(row))) continue;
      row.v = v;
      updated += 1;
    }
    if (found.length > 0 || !spec.whenNotMatchedInsertAll) continue;
    rows.push({ id, v });
    inserted += 1;
  }
  if (spec.whenNotMatchedBySourceDelete !== false) {
    const ids = new Set(source.map(([id]) => id));
    const isGone = (row: Stored) => before.includes(row) && (row.id === null || !ids.has(row.id)) && isEven(row);
    rows.splice(0, rows.length, ...rows.filter((row) => !isGone(row)));
  }
  return [inserted, updated];
}

/** One table, and what it should hold. */
class Scene {
  readonly rows: Stored[] = Array.from({ length: firstId }, (_, id) => ({ id, v: 'old1' }));
  readonly interruptions: Interruptions = {};
  readonly stage: Stage;
  readonly #pick: (below: number) => number;
  #count = 0;

  private constructor(stage: Stage, pick: (below: number) => number, interruptions: Interruptions) {
    this.stage = stage;
    this.#pick = pick;
    this.interruptions = interruptions;
  }

  static async open(t: Parameters<typeof Stage.open>[0], pick: (below: number) => number): Promise<Scene> {
    const interruptions: Interruptions = {};
    const rows = Array.from({ length: firstId }, (_, id): Row => [id, 'old1']);
    return new Scene(await Stage.open(t, full(...rows), { interruptions, hasKeyIndex: true }), pick, interruptions);
  }

  #source(mayHaveNull = true): Row[] {
    const ids = new Set<number | null>(Array.from({ length: 1 + this.#pick(5) }, () => this.#pick(20)));
    if (mayHaveNull && this.#pick(4) === 0) ids.add(null);
    this.#count += 1;
    return [...ids].map((id) => [id, `${this.#count}`]);
  }

  async merge({ spec, shares }: { readonly spec: Spec; readonly shares: boolean }): Promise<string> {
    const sources = Array.from({ length: shares ? 1 + this.#pick(4) : 1 }, () => this.#source());
    const expected = sources.map((source) => apply(this.rows, source, spec));
    const answers = await sendTogether(
      this.stage,
      sources.map((source) => this.stage.request(full(...source), spec)),
    );
    assert.deepEqual(countsOf(answers), expected, JSON.stringify({ spec, sources }));
    return JSON.stringify({ spec, sources });
  }

  /** Prepares what changes the model at once, and the table when it is called. */
  outside(mayDelete: boolean): () => Promise<unknown> {
    const kind = this.#pick(mayDelete ? 7 : 5);
    // The engine loses rows of theirs without a key where it merges through an index.
    const source = this.#source(false);
    if (kind === 0) return () => this.stage.compact();
    if (kind === 1) return () => this.stage.buildIndex('id');
    if (kind === 2) {
      const fresh = source.filter(([id]) => !this.rows.some((row) => row.id === id));
      const rows: Row[] = fresh.length === 0 ? [[null, source[0]![1]]] : fresh;
      apply(this.rows, rows, upsert);
      return byAppending(this.stage, full(...rows));
    }
    if (kind <= 4) {
      apply(this.rows, source, upsert);
      return byMerging(this.stage, full(...source));
    }
    if (kind === 5) return () => this.stage.moveRows();
    const ids = new Set(source.map(([id]) => id));
    this.rows.splice(0, this.rows.length, ...this.rows.filter(({ id }) => !ids.has(id)));
    return async () => (await this.stage.externalWriter()).delete(`id IN (${[...ids].join(', ')})`);
  }

  async step(): Promise<string> {
    const kind = this.#pick(12);
    if (kind < 2) return this.merge(kinds[this.#pick(kinds.length)]!);
    if (kind < 5) {
      await this.outside(true)();
      return 'outside';
    }
    if (kind === 5) {
      const does = this.outside(false);
      this.interruptions.merge = async () => {
        this.interruptions.merge = undefined;
        await does();
      };
    }
    return this.merge({ spec: upsert, shares: true });
  }
}

test('rows and counts are as if all had come one after the other, by row address or not (P2, P4)', async (t) => {
  const seed = Number(process.env.LANCEGATE_GROUP_SEED ?? 1);
  const pick = random(seed);
  let [direct, upserts, overtaken] = [0, 0, 0];
  for (let round = 0; round < 8; round++) {
    const scene = await Scene.open(t, pick);
    const steps: string[] = [];
    for (let step = 0; step < 24; step++) {
      const what = `seed ${seed}, round ${round}, step ${step}`;
      try {
        steps.push(await scene.step());
      } catch (error) {
        throw new Error(`${what}: ${steps.join('\n')}`, { cause: error });
      }
      const rows = scene.rows.map(({ id, v }) => `${id}:${v}`).sort();
      assert.deepEqual(await scene.stage.rows(), rows, `${what}: ${steps.join('\n')}`);
    }
    direct += directCommits(scene.stage);
    overtaken += scene.stage.replacements.filter((each) => each === 'overtaken').length;
    upserts += scene.stage.commits.length;
  }
  t.diagnostic(`${direct} of ${upserts} commits were direct, ${overtaken} were overtaken`);
  assert.ok(direct * 3 > upserts, `only ${direct} of ${upserts} commits were direct`);
  assert.ok(overtaken > 0);
});
