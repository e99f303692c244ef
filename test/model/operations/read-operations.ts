/** Reads: they change nothing, and see one whole version (P11). */
import assert from 'node:assert/strict';
import type { ErrorName } from '#src/kernel/errors.ts';
import { type Column, columnAt } from '../columns.ts';
import { type Condition, conditionSql, holds, references } from '../conditions.ts';
import type { Random } from '../random.ts';
import { main } from '../reference.ts';
import { rowsOfFile } from '../subject.ts';
import { type Row, textOf, type Value } from '../values.ts';
import { findBranch } from './branch-change.ts';
import { branchAt, createdTable, randomPredicate, randomTarget, randomVersion, stateAt } from './drawing.ts';
import { branchOf, type Expected, type Operation, refused, type Target, tableRequest } from './operation.ts';
import { type Created, newestOf, type State, type World } from './world.ts';

interface ReadStep extends Target {
  readonly version?: number | undefined;
  readonly filter?: Condition | undefined;
}

/** The rows that are asked for, and the columns. */
function found(world: World, step: ReadStep): State | { readonly refused: readonly ErrorName[] } {
  const { filter, version } = step;
  const at = findBranch(world, step);
  if ('refused' in at) return at;
  const state = at.branch.versions.get(version ?? newestOf(at.branch));
  if (state === undefined) return { refused: ['TableVersionNotFound'] };
  const { columns, rows } = state;
  if (filter === undefined) return state;
  if (references(filter).some(({ segments }) => columnAt(columns, segments) === undefined)) {
    return { refused: ['TableColumnNotFound'] };
  }
  return { ...state, rows: rows.filter((row) => holds(filter, { target: row })) };
}

function randomRead(random: Random, world: World): ReadStep {
  const target = randomTarget(random, world);
  const branch = branchAt(world, target);
  const version = random.chance(40) ? randomVersion(random, branch) : undefined;
  const state = branch?.versions.get(version ?? newestOf(branch)) ?? stateAt(random, world, target);
  return { ...target, version, filter: random.chance(70) ? randomPredicate(random, state) : undefined };
}

interface CountStep extends ReadStep {
  readonly kind: 'count';
}

const count: Operation<CountStep> = {
  expect(world, step) {
    const state = found(world, step);
    if ('refused' in state) return state;
    const check = (body: unknown) => assert.equal(body, state.rows.length, 'number of rows');
    return { answer: {}, check, world: () => world };
  },
  request: (_, { table, branch, version, filter }) =>
    tableRequest(table, 'count_rows', { branch, version, predicate: filter && conditionSql(filter) }),
  draw: (random, world) => ({ kind: 'count', ...randomRead(random, world) }),
};

interface Ordering {
  readonly column: string;
  readonly ascending: boolean;
  readonly nullsFirst: boolean;
}

interface QueryStep extends ReadStep {
  readonly kind: 'query';
  readonly columns?: readonly string[] | undefined;
  readonly limit?: number | undefined;
  readonly offset?: number | undefined;
  readonly orderBy?: Ordering | undefined;
}

/** Types whose values JavaScript puts in the same order. */
const ordered: readonly Column['type'][] = ['int32', 'int64', 'utf8', 'bool', 'date'];

function comparator({ column, ascending, nullsFirst }: Ordering): (a: Row, b: Row) => number {
  const compare = (a: Value, b: Value): number => {
    if (a === null || b === null) return (Number(b === null) - Number(a === null)) * (nullsFirst ? 1 : -1);
    return (Number(a > b) - Number(a < b)) * (ascending ? 1 : -1);
  };
  return (a, b) => compare(a[column] ?? null, b[column] ?? null);
}

/** Which of the rows a limit leaves is the service's to say, where no order tells them apart. */
function checkRows({ rows: all, columns }: State, step: QueryStep, answered: readonly Row[]): void {
  const { limit = Number.POSITIVE_INFINITY, offset = 0, orderBy } = step;
  const shown = step.columns ?? columns.map(({ name }) => name);
  const rows = all.map((row) => Object.fromEntries(shown.map((name) => [name, row[name] ?? null])));
  const expected = (orderBy === undefined ? rows : rows.toSorted(comparator(orderBy))).slice(offset, offset + limit);
  if (orderBy !== undefined) {
    const inOrder = (of: readonly Row[]) => of.map((row) => textOf(row[orderBy.column]));
    assert.deepEqual(inOrder(answered), inOrder(expected), 'the order of the rows');
  }
  assert.equal(answered.length, expected.length, 'number of rows');
  const left = rows.map(textOf);
  for (const row of answered.map(textOf)) {
    const at = left.indexOf(row);
    assert.ok(at >= 0, `a row that should not be there: ${row}`);
    left.splice(at, 1);
  }
}

const query: Operation<QueryStep> = {
  expect(world, step): Expected {
    const state = found(world, step);
    if ('refused' in state) return state;
    const names = [...(step.columns ?? []), ...(step.orderBy === undefined ? [] : [step.orderBy.column])];
    if (names.some((name) => columnAt(state.columns, [name]) === undefined)) return refused('TableColumnNotFound');
    return {
      answer: {},
      check: (body) => checkRows(state, step, rowsOfFile(body as Buffer)),
      world: () => world,
    };
  },
  request: (_, { table, branch, version, filter, columns, limit, offset, orderBy }) =>
    tableRequest(table, 'query', {
      ...{ branch, version, offset, k: limit, columns },
      filter: filter && conditionSql(filter),
      order_by: orderBy && [
        { column_name: orderBy.column, ascending: orderBy.ascending, nulls_first: orderBy.nullsFirst },
      ],
    }),
  draw(random, world) {
    const read = randomRead(random, world);
    const { columns } = stateAt(random, world, read);
    const orderable = columns.filter(({ type }) => ordered.includes(type));
    const orderBy =
      orderable.length > 0 && random.chance(40)
        ? { column: random.pick(orderable).name, ascending: random.chance(50), nullsFirst: random.chance(50) }
        : undefined;
    const picked = random.sample(columns, 1 + random.int(3)).map(({ name }) => name);
    const withOrder = orderBy === undefined ? picked : [...new Set([...picked, orderBy.column])];
    return {
      kind: 'query',
      ...read,
      orderBy,
      columns: random.chance(30) ? (random.chance(5) ? ['nothing'] : withOrder) : undefined,
      limit: random.chance(40) ? random.int(8) : undefined,
      offset: random.chance(25) ? random.int(6) : undefined,
    };
  },
};

interface DescribeStep extends Target {
  readonly kind: 'describe';
  readonly tag?: string | undefined;
  readonly version?: number | undefined;
}

type Fields =
  | { readonly refused: readonly ErrorName[] }
  | { readonly is_only_declared: true }
  | { readonly version: number };

function describeDeclared({ branch = main, tag, version }: DescribeStep): Fields {
  if (tag !== undefined) return refused('InvalidTableState');
  if (branch !== main) return refused('TableBranchNotFound');
  return version === undefined ? { is_only_declared: true } : refused('TableVersionNotFound');
}

/** A version or a branch beside a tag must be the tag's. */
function describeCreated({ tags, branches }: Created, step: DescribeStep): Fields {
  const { branch, tag, version: asked } = step;
  const tagged = tag === undefined ? undefined : tags.get(tag);
  const isOther = tagged !== undefined && (branch ?? tagged.branch) !== tagged.branch;
  if (tag !== undefined && (tagged === undefined || isOther)) return refused('TableTagNotFound');
  if (tagged !== undefined && (asked ?? tagged.version) !== tagged.version) return refused('InvalidInput');
  const found = branches.get(tagged?.branch ?? branchOf(step));
  if (found === undefined) return refused('TableBranchNotFound');
  const version = tagged?.version ?? asked ?? newestOf(found);
  return found.versions.has(version) ? { version } : refused('TableVersionNotFound');
}

const describe: Operation<DescribeStep> = {
  expect(world, step) {
    const table = world.tables.get(step.table);
    if (table === undefined) return refused('TableNotFound');
    const found = table.state === 'declared' ? describeDeclared(step) : describeCreated(table, step);
    if ('refused' in found) return found;
    const { location, properties } = table;
    return { answer: { location, properties, ...found }, world: () => world };
  },
  request: (_, { table, branch, tag, version }) => tableRequest(table, 'describe', { branch, tag, version }),
  draw(random, world) {
    const target = randomTarget(random, world);
    const tags = [...(createdTable(world, target.table)?.tags.keys() ?? []), 'none'];
    const tag = random.chance(60) ? random.pick(tags) : undefined;
    const version = random.chance(30) ? randomVersion(random, branchAt(world, target)) : undefined;
    return { kind: 'describe', table: target.table, ...(random.chance(50) && { branch: target.branch }), tag, version };
  },
};

export const readOperations = { count, query, describe };
