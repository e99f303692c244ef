/** The next step of a random sequence: mostly one that fits the tables as they are, sometimes one that must be refused. */
import { type Column, randomRow, randomValue, scalarPaths } from './columns.ts';
import type { Random } from './random.ts';
import { randomColumns } from './random-columns.ts';
import { randomCondition } from './random-condition.ts';
import { type Branch, type Created, main, rowsOf, type Table, type World } from './reference.ts';
import { onPath, spoiled } from './spoiled-merge.ts';
import type { Flags, MergeStep, Source, Step } from './steps.ts';
import { isStruct, keyOf, type Row, type Value, valueAt } from './values.ts';

const tableNames = ['a', 'b'];
const branchNames = ['dev', 'team/x', 'r-1.2'];
const noSuchVersion = 999;
/** Types that the engine's BTREE takes. */
const indexable: readonly Column['type'][] = ['int32', 'int64', 'utf8', 'float64', 'date', 'timestamp'];

export function randomStep(random: Random, world: World): Step {
  const name = random.pick(tableNames);
  const table = world.get(name);
  if (table === undefined) return random.chance(95) ? birth(random, name) : anyStep(random, name, table);
  return table.state === 'declared' && random.chance(30) ? birth(random, name) : anyStep(random, name, table);
}

const birth = (random: Random, table: string): Step =>
  random.chance(25) ? { kind: 'declare', table } : createStep(random, table);

function createStep(random: Random, name: string, table?: Table): Step {
  const mode = random.pick(['create', 'exist_ok', 'overwrite'] as const);
  const isAsBefore = table?.state === 'created' && random.chance(50);
  const columns = isAsBefore ? table.columns : randomColumns(random);
  return { kind: 'create', table: name, mode, source: sourceOf(random, columns, [], random.int(12)) };
}

function anyStep(random: Random, name: string, table: Table | undefined): Step {
  const kind = random.weighted([
    [76, 'merge'],
    [4, 'create'],
    [1, 'declare'],
    [2, 'drop'],
    [7, 'create branch'],
    [4, 'delete branch'],
    [3, 'index'],
    [1, 'restart'],
  ] as const);
  switch (kind) {
    case 'merge':
      return mergeStep(random, name, table);
    case 'create':
      return createStep(random, name, table);
    case 'create branch':
      return createBranchStep(random, name, table);
    case 'delete branch':
      return deleteBranchStep(random, name, table);
    case 'index':
      return indexStep(random, name, table) ?? mergeStep(random, name, table);
    case 'declare':
    case 'drop':
    case 'restart':
      return { kind, table: name };
  }
}

function createBranchStep(random: Random, name: string, table: Table | undefined): Step {
  const taken = branchesOf(table);
  const free = branchNames.filter((branch) => !taken.includes(branch));
  const branch = random.pick(random.chance(80) && free.length > 0 ? free : branchNames);
  const fromBranch = random.chance(50) ? random.pick(random.chance(90) ? taken : branchNames) : undefined;
  const parent = table?.state === 'created' ? table.branches.get(fromBranch ?? main) : undefined;
  const versions = [...(parent?.history.keys() ?? []), noSuchVersion];
  const fromVersion = random.chance(40) ? random.pick(versions) : undefined;
  return { kind: 'create branch', table: name, branch, fromBranch, fromVersion };
}

function deleteBranchStep(random: Random, name: string, table: Table | undefined): Step {
  const taken = branchesOf(table).filter((branch) => branch !== main);
  const branch = random.pick(random.chance(85) && taken.length > 0 ? taken : branchNames);
  return { kind: 'delete branch', table: name, branch };
}

const branchesOf = (table: Table | undefined): readonly string[] =>
  table?.state === 'created' ? [...table.branches.keys()] : [main];

function indexStep(random: Random, name: string, table: Table | undefined): Step | undefined {
  if (table?.state !== 'created') return undefined;
  const columns = table.columns.filter(({ type, name: of }) => indexable.includes(type) && /^[a-z]+$/.test(of));
  return columns.length === 0 ? undefined : { kind: 'index', table: name, column: random.pick(columns).name };
}

function mergeStep(random: Random, name: string, table: Table | undefined): MergeStep {
  const branch = randomBranch(random, table);
  const columns = table?.state === 'created' ? table.columns : randomColumns(random);
  const rows = table?.state === 'created' ? rowsOf(table.branches.get(branch ?? main) ?? mainOf(table)) : [];
  return mergeInto(random, { columns, rows }, { table: name, branch });
}

/** A merge that fits a table of these columns and rows; sometimes one thing of it is wrong. */
export function mergeInto(
  random: Random,
  { columns, rows: target }: Pick<Source, 'columns' | 'rows'>,
  of: Pick<MergeStep, 'table' | 'branch'>,
): MergeStep {
  const on = random.sample(
    scalarPaths(columns),
    random.weighted([
      [65, 1],
      [25, 2],
      [10, 3],
    ]),
  );
  const sent = random.chance(65) ? columns : partOf(random, columns, on);
  const rows = [...keyedRows(random, sent, on, target, random.int(9))];
  const step: MergeStep = {
    kind: 'merge',
    ...of,
    on: on.map((segments) => onPath(random, segments)),
    flags: randomFlags(random, columns, sent),
    useIndex: random.chance(15) ? random.chance(50) : undefined,
    source: { ...envelope(random), columns: random.chance(30) ? sent.map(allNullable) : sent, rows },
  };
  return random.chance(8) ? spoiled(step, random) : step;
}

/** Many clients declare every column nullable, whatever the table says; only values count. */
export const allNullable = (column: Column): Column => ({
  ...column,
  nullable: true,
  fields: column.fields.map(allNullable),
});

const mainOf = (table: Created): Branch => table.branches.get(main) as Branch;

function randomBranch(random: Random, table: Table | undefined): string | undefined {
  if (random.chance(3)) return random.pick(branchNames);
  if (table?.state !== 'created' || random.chance(50)) return undefined;
  const branch = random.pick(branchesOf(table));
  return branch === main && random.chance(50) ? undefined : branch;
}

/** A partial update: the columns that must be there, and some others. */
export function partOf(
  random: Random,
  columns: readonly Column[],
  on: readonly (readonly string[])[],
): readonly Column[] {
  const needed = new Set(on.map(([first]) => first));
  const kept = columns.filter(({ name, nullable }) => needed.has(name) || !nullable || random.chance(40));
  return random.sample(kept, kept.length);
}

const envelope = (random: Random) => ({
  batches: 1 + random.int(3),
  codec: random.pick(['none', 'lz4', 'zstd'] as const),
});

export const sourceOf = (random: Random, columns: readonly Column[], rows: readonly Row[], more: number): Source => ({
  ...envelope(random),
  columns,
  rows: [...rows, ...Array.from({ length: more }, () => randomRow(random, columns))],
});

/** Rows of which about half have the key of a row of the target, and no two the same key. */
function* keyedRows(
  random: Random,
  columns: readonly Column[],
  on: readonly (readonly string[])[],
  target: readonly Row[],
  count: number,
): Generator<Row> {
  const seen = new Set<string>();
  for (let i = 0; i < count; i++) {
    const row =
      target.length > 0 && random.chance(55)
        ? likeRow(random, columns, on, random.pick(target))
        : randomRow(random, columns);
    const key = keyOf(row, on);
    if (key !== undefined && seen.has(key)) continue;
    if (key !== undefined) seen.add(key);
    yield row;
  }
}

/** A new row with the key of another: sometimes with the whole struct around it, sometimes with the key alone. */
function likeRow(random: Random, columns: readonly Column[], on: readonly (readonly string[])[], other: Row): Row {
  const fresh = randomRow(random, columns);
  const paths = random.chance(40) ? on.map((segments) => segments.slice(0, 1)) : on;
  return paths.reduce((row, segments) => withValue(random, columns, row, segments, valueAt(other, segments)), fresh);
}

function withValue(
  random: Random,
  columns: readonly Column[],
  row: Row,
  segments: readonly string[],
  value: Value,
): Row {
  const [name, ...rest] = segments;
  const column = columns.find((candidate) => candidate.name === name);
  if (name === undefined || column === undefined) return row;
  if (rest.length === 0) return value === null && !column.nullable ? row : { ...row, [name]: value };
  const inner = row[name] ?? null;
  const struct = isStruct(inner) ? inner : (randomValue(random, { ...column, nullable: false }) as Row);
  return { ...row, [name]: withValue(random, column.fields, struct, rest, value) };
}

function randomFlags(random: Random, target: readonly Column[], source: readonly Column[]): Flags {
  if (random.chance(30)) return {};
  const updateIf = random.chance(35) ? randomCondition(random, { target, source }) : undefined;
  const deleteIf = random.chance(18) ? randomCondition(random, { target, source: undefined }) : undefined;
  return {
    update: updateIf === undefined ? random.chance(65) : random.pick([undefined, true, false]),
    updateIf,
    insert: random.pick([undefined, true, true, false]),
    delete: deleteIf === undefined && random.chance(12) ? true : undefined,
    deleteIf,
  };
}
