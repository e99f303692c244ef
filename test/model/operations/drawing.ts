/** What random steps are drawn from: names, targets, columns and rows. */
import { type Column, randomRow, scalarPaths } from '../columns.ts';
import type { Condition } from '../conditions.ts';
import type { Random } from '../random.ts';
import { randomCondition } from '../random-condition.ts';
import { main } from '../reference.ts';
import type { Source } from '../steps.ts';
import type { Target } from './operation.ts';
import {
  type Branch,
  type Created,
  hasNamespace,
  headOf,
  newState,
  parentOf,
  type State,
  type World,
} from './world.ts';

export const tableNames = ['a', 'b', 'x$a', 'x$b', 'y$z$a'];
export const namespaceNames = ['x', 'y', 'y$z'];
export const branchNames = ['dev', 'team/x', 'r-1.2'];
export const newColumnNames = ['added', 'c1', 'New Name', 'select', 'größer'];

const column = (name: string, type: Column['type'], fields: readonly Column[] = []): Column => ({
  name,
  type,
  nullable: true,
  fields,
});

const payload: readonly Column[] = [
  column('n', 'int64'),
  column('m', 'int64'),
  column('t', 'utf8'),
  column('s', 'utf8'),
  column('the key', 'int32'),
  column('größe', 'utf8'),
  column('flag', 'bool'),
  column('x', 'float64'),
  column('f', 'float32'),
  column('items', 'list'),
  column('day', 'date'),
  column('cat', 'category'),
  column('long', 'large_utf8'),
  column('meta', 'struct', [column('k', 'utf8'), column('v', 'int64')]),
];

export function randomTableColumns(random: Random): readonly Column[] {
  const id = {
    ...column('id', random.pick(['int64', 'int64', 'int32', 'utf8'] as const)),
    nullable: random.chance(60),
  };
  const columns = [id, ...random.sample(payload, 2 + random.int(6))];
  return columns.map((each) => (random.chance(7) && each.fields.length === 0 ? { ...each, nullable: false } : each));
}

export function randomSource(random: Random, columns: readonly Column[], mostRows: number): Source {
  const rows = Array.from({ length: random.int(mostRows + 1) }, () => randomRow(random, columns));
  return { columns, rows, batches: 1 + random.int(3), codec: random.pick(['none', 'lz4', 'zstd'] as const) };
}

export const randomTexts = (random: Random): Readonly<Record<string, string>> =>
  Object.fromEntries(random.sample(['unit', 'owner', 'größe'], random.int(3)).map((key) => [key, `v${random.int(9)}`]));

const createdIn = (world: World): readonly string[] =>
  [...world.tables].filter(([, { state }]) => state === 'created').map(([name]) => name);

/** Mostly one that has rows. */
export function randomTable(random: Random, world: World): string {
  const created = createdIn(world);
  return created.length > 0 && random.chance(96) ? random.pick(created) : random.pick(tableNames);
}

export const createdTable = (world: World, name: string): Created | undefined => {
  const table = world.tables.get(name);
  return table?.state === 'created' ? table : undefined;
};

/** Mostly a branch that is there. */
export function randomTarget(random: Random, world: World): Target {
  const table = randomTable(random, world);
  const created = createdTable(world, table);
  if (created === undefined || random.chance(45)) return { table };
  return { table, branch: random.chance(4) ? random.pick(branchNames) : random.pick([...created.branches.keys()]) };
}

export function branchAt(world: World, { table, branch = main }: Target): Branch | undefined {
  const created = createdTable(world, table);
  return created?.branches.get(branch) ?? created?.branches.get(main);
}

/** What the target has now, or what a table might have. */
export function stateAt(random: Random, world: World, target: Target): State {
  const branch = branchAt(world, target);
  return branch === undefined ? newState(randomTableColumns(random), []) : headOf(branch);
}

/** Of columns by bare name, often of one that has an index. */
export function fittingPredicate(random: Random, { columns, indexes }: State): Condition {
  const indexed = columns.filter(({ name }) => [...indexes.values()].includes(name));
  const target = indexed.length > 0 && random.chance(40) ? indexed : columns;
  if (scalarPaths(target).length === 0) return { op: 'is null', of: { literal: 1n } };
  return randomCondition(random, { target, source: undefined });
}

const ofNothing: Condition = {
  op: 'is null',
  of: { column: { side: undefined, segments: ['nothing'], isQuoted: false } },
};

/** Sometimes of a column that is not there. */
export const randomPredicate = (random: Random, state: State): Condition =>
  random.chance(3) ? ofNothing : fittingPredicate(random, state);

/** A version that the branch has, mostly. */
export function randomVersion(random: Random, branch: Branch | undefined): number {
  return branch === undefined || random.chance(6) ? random.pick([0, 999]) : random.pick([...branch.versions.keys()]);
}

/** Mostly one that a table can get. */
export function randomNewName(random: Random, world: World): string {
  const free = tableNames.filter((name) => !world.tables.has(name) && hasNamespace(world, parentOf(name)));
  return random.pick(free.length > 0 && random.chance(75) ? free : tableNames);
}
