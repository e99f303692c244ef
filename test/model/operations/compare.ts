/** What the service answered and now holds, compared with the reference. */
import assert from 'node:assert/strict';
import { errorCatalogue } from '#src/kernel/errors.ts';
import type { Answer } from '#test/fixtures/service.ts';
import { lanceType } from '../columns.ts';
import { conditionSql, holds, quoted } from '../conditions.ts';
import type { Random } from '../random.ts';
import { main } from '../reference.ts';
import { type Row, textOf } from '../values.ts';
import { createdTable, fittingPredicate } from './drawing.ts';
import type { Expected } from './operation.ts';
import type { Step } from './operations.ts';
import type { Described, OperationsSubject } from './subject.ts';
import { withLaterVersions } from './version-operations.ts';
import { type Branch, type Created, headOf, newestOf, type State, type World, withTable } from './world.ts';

/** The world after the step, if the answer is as expected. */
export function settle(world: World, expected: Expected, { status, body, headers }: Answer): World {
  const answered = `${status} ${Buffer.isBuffer(body) ? '' : JSON.stringify(body)}`;
  if ('refused' in expected) {
    const fits = expected.refused.some((name) => {
      const entry = errorCatalogue[name];
      return entry.status === status && entry.code === body.code;
    });
    assert.ok(fits, `expected ${expected.refused.join(' or ')}: ${answered}`);
    return world;
  }
  assert.equal(status, 200, `expected success: ${answered}`);
  const fields = Object.keys(expected.answer).map((name) => [name, body[name]]);
  assert.deepEqual(Object.fromEntries(fields), expected.answer, `the answer: ${answered}`);
  assert.equal(
    headers.get('idempotency-replayed') === 'true',
    expected.isReplay === true,
    `is it a replay? ${answered}`,
  );
  expected.check?.(body);
  return expected.world(body);
}

/** Looks that are taken after each step, beside the one at what it touched. */
const looksPerStep = 3;

/** The branch of the step, and some of all else. Returns the world with the versions that maintenance made. */
export async function compareWorld(
  subject: OperationsSubject,
  world: World,
  step: Step,
  random: Random,
): Promise<World> {
  if (isRead(step)) return world;
  const names = [...world.tables.keys()];
  const touched = step.table ?? (names.length === 0 ? 'a' : random.pick(names));
  const learnt = step.kind === 'maintain' ? await withMaintained(subject, world, touched) : world;
  const table = createdTable(learnt, touched);
  if (table === undefined) assert.equal(await subject.stateOf(touched), world.tables.get(touched)?.state, 'state');
  else await compareHead(subject, touched, table, branchTouched(table, step));
  const looks = [
    () => compareNames(subject, learnt, random),
    () => compareOther(subject, learnt, random),
    ...(table === undefined ? [] : looksAt(subject, touched, table, random)),
  ];
  for (const look of random.sample(looks, looksPerStep)) await look();
  return learnt;
}

const branchTouched = ({ branches }: Created, step: Step): string =>
  'branch' in step && step.branch !== undefined && branches.has(step.branch) ? step.branch : main;

const isRead = ({ kind }: Step): boolean => kind === 'count' || kind === 'query' || kind === 'describe';

/** Whatever was compacted, indexed or pruned: rows are the same, so later versions are those of before. */
async function withMaintained(subject: OperationsSubject, world: World, name: string): Promise<World> {
  const table = createdTable(world, name);
  if (table === undefined) return world;
  const branches = new Map<string, Branch>();
  for (const [of, branch] of table.branches) {
    const newest = (await subject.versions(name, of)).at(-1) ?? 0;
    assert.ok(newest >= newestOf(branch), `version of ${of} after maintenance`);
    branches.set(of, withLaterVersions(branch, newest));
  }
  return withTable(world, name, { ...table, branches });
}

async function compareNames(subject: OperationsSubject, world: World, random: Random): Promise<void> {
  const namespace = random.pick(['', ...world.namespaces.keys()]);
  const inside = (names: Iterable<string>) =>
    [...names].flatMap((name) => {
      const parts = name.split('$');
      return parts.slice(0, -1).join('$') === namespace ? (parts.at(-1) ?? []) : [];
    });
  assert.deepEqual(await subject.list(namespace, 'tables'), inside(world.tables.keys()).sort(), 'tables listed');
  assert.deepEqual(await subject.list(namespace, 'namespaces'), inside(world.namespaces.keys()).sort(), 'namespaces');
}

/** A table that the step was not about. */
async function compareOther(subject: OperationsSubject, world: World, random: Random): Promise<void> {
  if (world.tables.size === 0) return;
  const [name, table] = random.pick([...world.tables]);
  if (table.state === 'created') await compareHead(subject, name, table, random.pick([...table.branches.keys()]));
}

function looksAt(subject: OperationsSubject, name: string, table: Created, random: Random) {
  const [of, branch] = random.pick([...table.branches]);
  return [
    () => compareRefs(subject, name, table),
    () => compareHead(subject, name, table, of),
    () => compareLists(subject, name, of, branch),
    () => comparePast(subject, name, of, branch, random),
    () => compareFiltered(subject, name, of, headOf(branch), random),
  ];
}

async function compareRefs(subject: OperationsSubject, name: string, { branches, tags }: Created): Promise<void> {
  const listed = Object.entries(await subject.branches(name)).map(([of, { parentBranch = main, parentVersion }]) => [
    of,
    { branch: parentBranch, version: parentVersion },
  ]);
  const parents = [...branches].flatMap(([of, { parent }]) => (parent === undefined ? [] : [[of, parent]]));
  assert.deepEqual(Object.fromEntries(listed), Object.fromEntries(parents), `branches of ${name}`);
  const tagged = Object.entries(await subject.tags(name)).map(([tag, { branch = main, version }]) => [
    tag,
    { branch, version },
  ]);
  assert.deepEqual(Object.fromEntries(tagged), Object.fromEntries(tags), `tags of ${name}`);
}

async function compareHead(subject: OperationsSubject, name: string, table: Created, of: string): Promise<void> {
  const branch = table.branches.get(of) as Branch;
  const state = headOf(branch);
  const what = `${name} on ${of}`;
  const described = await subject.describe(name, of);
  assert.equal(described.version, newestOf(branch), `version of ${what} (P5)`);
  compareColumns(described, state, what);
  compareRows(await subject.rows(name, of), state.rows, `rows of ${what}`);
}

async function compareLists(subject: OperationsSubject, name: string, of: string, branch: Branch): Promise<void> {
  const { rows, indexes } = headOf(branch);
  assert.equal(await subject.count(name, of), rows.length, `number of rows of ${name} on ${of}`);
  const kept = [...branch.versions.keys()].sort((a, b) => a - b);
  assert.deepEqual(await subject.versions(name, of), kept, `versions of ${name} on ${of}`);
  const listed = Object.fromEntries(await subject.indexes(name, of));
  const paths = [...indexes].map(([index, path]) => [index, listedPath(path)]);
  assert.deepEqual(listed, Object.fromEntries(paths), `indexes of ${name} on ${of}`);
}

/** As indexes are listed: quoted, unless letters and digits are all that a name has. */
const listedPath = (path: string): string =>
  path
    .split('.')
    .map((name) => (/^[\p{L}\p{N}_]+$/u.test(name) ? name : quoted(name)))
    .join('.');

/** A version keeps what it had. */
async function comparePast(
  subject: OperationsSubject,
  name: string,
  of: string,
  branch: Branch,
  random: Random,
): Promise<void> {
  const [version, state] = random.pick([...branch.versions]);
  const what = `${name} on ${of} at version ${version}`;
  compareColumns(await subject.describe(name, of, version), state, what);
  compareRows(await subject.rows(name, of, version), state.rows, `rows of ${what}`);
}

/** With an index where there is one. */
async function compareFiltered(
  subject: OperationsSubject,
  name: string,
  of: string,
  state: State,
  random: Random,
): Promise<void> {
  const filter = fittingPredicate(random, state);
  const expected = state.rows.filter((row) => holds(filter, { target: row }));
  compareRows(
    await subject.rows(name, of, undefined, filter),
    expected,
    `rows of ${name} on ${of} where ${conditionSql(filter)}`,
  );
}

function compareColumns({ columns, metadata }: Described, state: State, what: string): void {
  const expected = state.columns.map(({ name, type, nullable }) => ({
    ...{ name, nullable },
    type: lanceType(type),
    metadata: state.fieldMetadata.get(name) ?? {},
  }));
  assert.deepEqual(columns, expected, `columns of ${what}`);
  assert.deepEqual(metadata, state.metadata, `metadata of ${what}`);
}

function compareRows(stored: readonly Row[], expected: readonly Row[], what: string): void {
  assert.deepEqual(stored.map(textOf).sort(), expected.map(textOf).sort(), what);
}
