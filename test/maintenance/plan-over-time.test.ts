/** The planner over thousands of commits: how many fragments a table has, and how often its rows are written again. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Schema } from '#src/arrow/schema/schema.ts';
import type { IndexSpec } from '#src/engine/port/index-spec.ts';
import type { FragmentFacts, IndexFacts } from '#src/engine/port/upkeep.ts';
import { fanIn, needsOf, type Plan } from '#src/maintenance/plan.ts';
import { Random } from '#test/model/random.ts';

const spec: IndexSpec = { name: 'v', column: 'v', options: { type: 'IVF_FLAT', vector: { distance: 'l2' } } };
const schema = { fields: [], metadata: new Map() } as unknown as Schema;
const commits = 20_000;

interface Size {
  readonly id: number;
  rows: number;
  deletedRows: number;
}

const live = (all: readonly FragmentFacts[]): number =>
  all.reduce((sum, each) => sum + each.rows - each.deletedRows, 0);

/** A table of which the numbers are known. Its jobs do what they say, in no time. */
class CountedTable {
  fragments: readonly Size[];
  written = 0;
  rewritten = 0;
  indexed = 0;
  builds = 0;
  mostFragments = 0;
  readonly #rowBytes: number;
  readonly #isIndexed: boolean;
  #covered: ReadonlySet<number>;
  #nextId = 1;

  constructor(rows: number, { rowBytes = 24, isIndexed = false } = {}) {
    this.fragments = rows === 0 ? [] : [{ id: 0, rows, deletedRows: 0 }];
    this.#rowBytes = rowBytes;
    this.#isIndexed = isIndexed;
    this.#covered = new Set(this.fragments.map(({ id }) => id));
  }

  append(rows: number): void {
    this.written += rows;
    this.fragments = [...this.fragments, { id: this.#nextId++, rows, deletedRows: 0 }];
  }

  /** Of rows anywhere. */
  delete(rows: number, random: Random): void {
    for (let i = 0; i < rows; i += 1) {
      let at = random.int(live(this.fragments));
      const found = this.fragments.find((each) => {
        at -= each.rows - each.deletedRows;
        return at < 0;
      });
      if (found !== undefined) found.deletedRows += 1;
    }
    this.fragments = this.fragments.filter((each) => each.deletedRows < each.rows);
  }

  /** Until there is nothing to do. */
  maintain(isQuiet: boolean): void {
    for (let plan = this.#plan(isQuiet); plan !== undefined; plan = this.#plan(isQuiet)) this.#carryOut(plan);
    this.mostFragments = Math.max(this.mostFragments, this.fragments.length);
  }

  #plan(isQuiet: boolean): Plan | undefined {
    const rows = live(this.fragments);
    const coveredRows = live(this.fragments.filter(({ id }) => this.#covered.has(id)));
    const index: IndexFacts = {
      ...{ name: 'v', columns: ['v'], spec, isPlain: false },
      ...{ rows: coveredRows, unindexedRows: rows - coveredRows },
    };
    const layout = {
      ...{ committedAtMs: undefined, rows, fragments: this.fragments, bytes: rows * this.#rowBytes },
      indexes: this.#isIndexed ? [index] : [],
    };
    const needs = needsOf({ layout, schema, lastPinned: -1 }, []);
    return needs.find(({ isForQuiet }) => isQuiet || !isForQuiet)?.plan;
  }

  #carryOut(plan: Plan): void {
    if (plan.job === 'index') {
      this.indexed += live(this.fragments);
      this.builds += 1;
      this.#covered = new Set(this.fragments.map(({ id }) => id));
      return;
    }
    assert.ok(plan.job === 'compact' && plan.fragments !== 'all');
    const chosen = new Set(plan.fragments);
    const before = this.fragments.filter(({ id }) => chosen.has(id));
    const rows = live(before);
    this.rewritten += rows;
    const after = { id: this.#nextId++, rows, deletedRows: 0 };
    this.fragments = [...this.fragments.filter(({ id }) => !chosen.has(id)), after];
  }
}

const tiers = (rows: number): number => Math.ceil(Math.log(rows) / Math.log(fanIn));

describe(`over ${commits} commits (P8)`, () => {
  test('single rows are written once more for each tier, and each tier has fewer fragments than make one', () => {
    const table = new CountedTable(0);
    for (let i = 0; i < commits; i += 1) {
      table.append(1);
      table.maintain(false);
    }
    assert.equal(live(table.fragments), commits);
    assert.ok(table.rewritten <= table.written * tiers(commits), `${table.rewritten / table.written}`);
    assert.ok(table.mostFragments <= (fanIn - 1) * tiers(commits), `${table.mostFragments}`);
  });

  test('ten million rows are left where they are by batches of all sizes', () => {
    const random = new Random(7);
    const table = new CountedTable(10_000_000);
    for (let i = 0; i < commits; i += 1) {
      table.append(10 ** random.int(4) * (1 + random.int(9)));
      table.maintain(false);
    }
    assert.deepEqual(table.fragments.find(({ id }) => id === 0)?.rows, 10_000_000);
    assert.ok(table.rewritten <= table.written * tiers(2 ** 20), `${table.rewritten / table.written}`);
    assert.ok(table.mostFragments < 120, `${table.mostFragments}`);
  });

  test('so they are where it is quiet after each, however large the rows', () => {
    const table = new CountedTable(1_000_000, { rowBytes: 3_000 });
    for (let i = 0; i < commits; i += 1) {
      table.append(10);
      table.maintain(true);
    }
    assert.deepEqual(table.fragments[0]?.id, 0);
    assert.ok(table.rewritten <= table.written * 2 * tiers(commits * 10), `${table.rewritten / table.written}`);
    assert.ok(table.mostFragments < 40, `${table.mostFragments}`);
  });

  for (const isQuiet of [true, false]) {
    test(`what updates delete is bounded${isQuiet ? ', and at rest a quarter of the table at most' : ''}`, () => {
      const random = new Random(11);
      const rows = 20_000;
      const table = new CountedTable(rows);
      for (let i = 0; i < commits; i += 1) {
        table.delete(5, random);
        table.append(5);
        table.maintain(isQuiet && i % 100 === 0);
      }
      table.maintain(isQuiet);
      const stored = table.fragments.reduce((sum, each) => sum + each.rows, 0);
      assert.equal(live(table.fragments), rows);
      assert.ok(stored <= (isQuiet ? 4 / 3 : 3) * rows, `${stored / rows}`);
      assert.ok(table.rewritten <= table.written * 12, `${table.rewritten / table.written}`);
      assert.ok(table.mostFragments < 80, `${table.mostFragments}`);
    });

    test(`a table with an index has few fragments too${isQuiet ? ' if it is quiet now and then' : ''}, and the index is built seldom`, () => {
      const table = new CountedTable(10_000, { isIndexed: true });
      for (let i = 0; i < commits; i += 1) {
        table.append(20);
        table.maintain(isQuiet && i % 100 === 0);
      }
      assert.ok(table.mostFragments < 150, `${table.mostFragments}`);
      assert.ok(table.rewritten <= table.written * 2 * tiers(commits * 20), `${table.rewritten / table.written}`);
      if (!isQuiet) assert.ok(table.indexed <= table.written * 8, `${table.indexed / table.written}`);
      if (!isQuiet) assert.ok(table.builds < 30, `${table.builds}`);
    });
  }
});
