/**
 * Random inserts, updates, deletes and merges of one table, each compared with a list of rows in memory: counts, versions, rows.
 *   LANCEGATE_MIXED_SEED=7 LANCEGATE_MIXED_STEPS=5000 node --test test/http/mixed-writes.test.ts
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Int32, Utf8, vectorFromArray } from 'apache-arrow';
import { startTestService } from '#test/fixtures/service.ts';
import { Random } from '#test/model/random.ts';
import { storedRows, stream } from './rows.ts';

const { LANCEGATE_MIXED_SEED, LANCEGATE_MIXED_STEPS } = process.env;
const seed = Number(LANCEGATE_MIXED_SEED ?? 1);
const steps = Number(LANCEGATE_MIXED_STEPS ?? 120);
const stepsBetweenLooks = 20;
const keys = 40;

interface Stored {
  readonly id: number;
  readonly n: number;
  readonly name: string;
}

interface Predicate {
  readonly sql: string;
  readonly holds: (row: Stored) => boolean;
}

interface Update {
  readonly updates: readonly (readonly [column: string, value: string])[];
  readonly apply: (row: Stored) => Stored;
}

/** What a request asks, what the table has afterwards, and which counts the answer has. */
interface Step {
  readonly path: string;
  readonly body: Buffer | object;
  readonly rows: readonly Stored[];
  readonly counts: Readonly<Record<string, number>>;
  readonly makesVersion: boolean;
}

const bodyOf = (rows: readonly Stored[]): Buffer =>
  stream({
    id: vectorFromArray(
      rows.map(({ id }) => id),
      new Int32(),
    ),
    n: vectorFromArray(
      rows.map(({ n }) => n),
      new Int32(),
    ),
    name: vectorFromArray(
      rows.map(({ name }) => name),
      new Utf8(),
    ),
  });

const updates: readonly Update[] = [
  { updates: [['n', 'n + 1']], apply: (row) => ({ ...row, n: row.n + 1 }) },
  {
    updates: [
      ['id', `(id + 7) % ${keys}`],
      ['n', 'id'],
    ],
    apply: (row) => ({ ...row, id: (row.id + 7) % keys, n: row.id }),
  },
  {
    updates: [
      ['id', `n % ${keys}`],
      ['n', 'n * 2 % 1000'],
      ['name', 'CAST(id AS string)'],
    ],
    apply: ({ id, n }) => ({ id: n % keys, n: (n * 2) % 1_000, name: String(id) }),
  },
];

const drawRow = (random: Random, id = random.int(keys)): Stored => ({
  id,
  n: random.int(1_000),
  name: random.pick(['ann', 'bob', "o'hara"]),
});
const drawRows = (random: Random, count: number): Stored[] => Array.from({ length: count }, () => drawRow(random));

function drawPredicate(random: Random): Predicate {
  const value = random.int(keys);
  return random.pick<Predicate>([
    { sql: `id = ${value}`, holds: ({ id }) => id === value },
    { sql: `id > ${value}`, holds: ({ id }) => id > value },
    { sql: `n % 5 = ${value % 5}`, holds: ({ n }) => n % 5 === value % 5 },
    { sql: "name = 'o''hara'", holds: ({ name }) => name === "o'hara" },
  ]);
}

function insertStep(random: Random, before: readonly Stored[], mode: 'append' | 'overwrite'): Step {
  const added = drawRows(random, random.chance(10) ? 900 : random.int(7));
  return {
    path: `insert?mode=${mode}`,
    body: bodyOf(added),
    rows: mode === 'append' ? [...before, ...added] : added,
    counts: { num_inserted_rows: added.length },
    makesVersion: mode === 'overwrite' || added.length > 0,
  };
}

function updateStep(random: Random, before: readonly Stored[]): Step {
  const { sql: predicate, holds } = drawPredicate(random);
  const update = random.pick(updates);
  const updated = before.filter(holds).length;
  return {
    path: 'update',
    body: { predicate, updates: random.sample(update.updates, update.updates.length) },
    rows: before.map((row) => (holds(row) ? update.apply(row) : row)),
    counts: { updated_rows: updated },
    makesVersion: updated > 0,
  };
}

function deleteStep(random: Random, before: readonly Stored[]): Step {
  const { sql: predicate, holds } = drawPredicate(random);
  const rows = before.filter((row) => !holds(row));
  const deleted = before.length - rows.length;
  return {
    path: 'delete',
    body: { predicate },
    rows,
    counts: { num_deleted_rows: deleted },
    makesVersion: deleted > 0,
  };
}

/** Of whole rows: afterwards each key of the source has one row, however many it had (P2). */
function upsertStep(random: Random, before: readonly Stored[]): Step {
  const ids = random.sample(
    Array.from({ length: keys }, (_, id) => id),
    1 + random.int(6),
  );
  const source = ids.map((id) => drawRow(random, id));
  const matching = ids.map((id) => before.filter((row) => row.id === id).length);
  return {
    path: 'merge_insert?on=id',
    body: bodyOf(source),
    rows: [...before.filter(({ id }) => !ids.includes(id)), ...source],
    counts: {
      num_inserted_rows: matching.filter((count) => count === 0).length,
      num_updated_rows: matching.filter((count) => count > 0).length,
      num_deleted_rows: matching.reduce((sum, count) => sum + Math.max(0, count - 1), 0),
    },
    makesVersion: true,
  };
}

const drawStep = (random: Random, before: readonly Stored[]): Step =>
  random.weighted<() => Step>([
    [30, () => insertStep(random, before, 'append')],
    [3, () => insertStep(random, before, 'overwrite')],
    [25, () => updateStep(random, before)],
    [12, () => deleteStep(random, before)],
    [30, () => upsertStep(random, before)],
  ])();

const inOrder = (rows: readonly object[]): readonly string[] =>
  rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();

test('inserts, updates, deletes and merges leave what a list of rows would have (P2, P4, P5)', async (t) => {
  t.diagnostic(`LANCEGATE_MIXED_SEED=${seed} LANCEGATE_MIXED_STEPS=${steps}`);
  const service = await startTestService((clean) => t.after(clean), { chunkBytes: 4 * 2 ** 10 });
  const random = new Random(seed);
  let rows: readonly Stored[] = drawRows(random, 20);
  let version = 1;
  assert.equal((await service.post('/v1/table/t/create', bodyOf(rows))).status, 200);
  for (let number = 1; number <= steps; number += 1) {
    const step = drawStep(random, rows);
    const what = `step ${number}: ${step.path} ${step.body instanceof Buffer ? '' : JSON.stringify(step.body)}`;
    const sent = await service.post(`/v1/table/t/${step.path}`, step.body);
    assert.equal(sent.status, 200, `${what} ${JSON.stringify(sent.body)}`);
    const answer = sent.body;
    rows = step.rows;
    const counted = Object.fromEntries(Object.keys(step.counts).map((name) => [name, answer[name]]));
    assert.deepEqual(counted, step.counts, what);
    // Maintenance makes versions too.
    assert.ok(Number(answer.version) >= version + (step.makesVersion ? 1 : 0), what);
    version = Number(answer.version);
    if (number % stepsBetweenLooks !== 0 && number !== steps) continue;
    assert.deepEqual(inOrder(await storedRows(service, 't')), inOrder(rows), what);
  }
});
