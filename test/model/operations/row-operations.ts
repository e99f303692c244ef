/** Creates, and what changes rows. */
import { isDeepStrictEqual } from 'node:util';
import { encodeRows } from '../columns.ts';
import { type Condition, conditionSql } from '../conditions.ts';
import { faultsOfNone, faultsOfSource } from '../merge-faults.ts';
import type { Random } from '../random.ts';
import { mergeInto } from '../random-steps.ts';
import { main } from '../reference.ts';
import { type MergeStep, mergeParameters, type Source } from '../steps.ts';
import { allCounts, changeBranch } from './branch-change.ts';
import {
  randomPredicate,
  randomSource,
  randomTable,
  randomTableColumns,
  randomTarget,
  randomTexts,
  stateAt,
} from './drawing.ts';
import { expressionSql, randomExpression } from './expressions.ts';
import { type Expected, type Keyed, type Operation, refused, type Target, tableRequest } from './operation.ts';
import { append, deleteRows, merge, overwrite, type RowsUpdate, updateRows } from './row-changes.ts';
import {
  hasNamespace,
  headOf,
  newestOf,
  newState,
  newTable,
  parentOf,
  type State,
  type Texts,
  type World,
  withTable,
} from './world.ts';

export const streamOf = ({ columns, rows, batches, codec }: Source): Buffer =>
  encodeRows(columns, rows, batches, codec);

interface CreateStep extends Keyed {
  readonly kind: 'create';
  readonly table: string;
  readonly mode: 'create' | 'exist_ok' | 'overwrite';
  readonly properties?: Texts | undefined;
  readonly source: Source;
}

/** With the metadata: a source of the model has none. */
const hasSchemaOf = ({ columns, metadata, fieldMetadata }: State, source: Source): boolean =>
  isDeepStrictEqual(columns, source.columns) && Object.keys(metadata).length === 0 && fieldMetadata.size === 0;

const create: Operation<CreateStep> = {
  expect(world, { table: name, mode, properties, source }) {
    if (!hasNamespace(world, parentOf(name))) return refused('NamespaceNotFound');
    const table = world.tables.get(name);
    if (table?.state === 'created' && mode === 'create') return refused('TableAlreadyExists');
    if (table?.state === 'created' && mode === 'exist_ok') {
      const kept = headOf(table.branches.get(main)!);
      if (!hasSchemaOf(kept, source)) return refused('TableSchemaValidationError');
      const { location, properties: given, branches } = table;
      return { answer: { location, properties: given, version: newestOf(branches.get(main)!) }, world: () => world };
    }
    const given = properties ?? (table?.state === 'declared' ? table.properties : {});
    return {
      answer: { version: 1, properties: given },
      world: ({ location }) => {
        const placed = { location: String(location), properties: given };
        return withTable(world, name, newTable(placed, 1, newState(source.columns, source.rows)));
      },
    };
  },
  request(_, { table, mode, properties, source }) {
    const query = new URLSearchParams({ mode, ...(properties && { properties: JSON.stringify(properties) }) });
    return tableRequest(table, `create?${query}`, streamOf(source));
  },
  draw(random, world) {
    const name = randomTable(random, world);
    const table = world.tables.get(name);
    if (table?.state !== 'created' || random.chance(50)) return drawCreate(random, name);
    return drawCreate(random, name, headOf(table.branches.get(main)!).columns);
  },
};

export const drawCreate = (random: Random, table: string, columns = randomTableColumns(random)): CreateStep => ({
  kind: 'create',
  table,
  mode: random.pick(['create', 'exist_ok', 'overwrite']),
  properties: random.chance(30) ? randomTexts(random) : undefined,
  source: randomSource(random, columns, 12),
});

/** Rows into a table that is only declared make it, on main. */
function intoDeclared(
  world: World,
  { table: name, branch }: Target,
  source: Source,
  answer: object,
): Expected | undefined {
  const table = world.tables.get(name);
  if (table?.state !== 'declared') return undefined;
  if (branch !== undefined && branch !== 'main') return refused('TableBranchNotFound');
  const made = newTable(table, 1, newState(source.columns, source.rows));
  return { answer: { ...answer, version: 1 }, world: () => withTable(world, name, made) };
}

interface InsertStep extends Target, Keyed {
  readonly kind: 'insert';
  readonly mode: 'append' | 'overwrite';
  readonly source: Source;
}

const insert: Operation<InsertStep> = {
  expect(world, step) {
    const { mode, source } = step;
    const answer = { num_inserted_rows: source.rows.length };
    const change = (state: State) => (mode === 'append' ? append(state, source) : overwrite(source));
    const faults = faultsOfNone(source.columns);
    const made = faults.length > 0 ? undefined : intoDeclared(world, step, source, answer);
    return made ?? changeBranch(world, step, change, { fieldsOf: () => answer, faults });
  },
  request: (_, { table, branch, mode, source }) =>
    tableRequest(table, `insert?${new URLSearchParams({ mode, ...(branch && { branch }) })}`, streamOf(source)),
  draw(random, world) {
    const target = randomTarget(random, world);
    const mode = random.chance(12) ? 'overwrite' : 'append';
    if (mode === 'overwrite') {
      return { kind: 'insert', ...target, mode, source: randomSource(random, randomTableColumns(random), 8) };
    }
    return { kind: 'insert', ...target, mode, source: drawMerge(random, world, target).source };
  },
};

type KeyedMergeStep = MergeStep & Keyed;

function drawMerge(random: Random, world: World, target: Target): MergeStep {
  return mergeInto(random, stateAt(random, world, target), target);
}

/** The upsert, the insert of new rows only, the conditional update, the replacement of a range, and what else the flags make. */
const mergeOfRows: Operation<KeyedMergeStep> = {
  expect(world, step) {
    const { source, table } = step;
    const faults = faultsOfSource(step);
    if (world.tables.get(table)?.state === 'declared' && faults.length > 0) {
      return refused(...faults, ...(step.branch === undefined ? [] : (['TableBranchNotFound'] as const)));
    }
    const counts = allCounts({ inserted: source.rows.length, updated: 0, deleted: 0 });
    const made = intoDeclared(world, step, source, counts);
    return made ?? changeBranch(world, step, (state) => merge(state, step), { fieldsOf: allCounts, faults });
  },
  request: (_, step) => tableRequest(step.table, `merge_insert?${mergeParameters(step)}`, streamOf(step.source)),
  draw: (random, world) => drawMerge(random, world, randomTarget(random, world)),
};

interface UpdateStep extends Target, Keyed, RowsUpdate {
  readonly kind: 'update';
}

/** As JSON, with what the request shares with an operation of several. */
export const updateBody = ({ predicate, updates }: RowsUpdate) => ({
  ...(predicate && { predicate: conditionSql(predicate) }),
  updates: updates.map(([name, value]) => [name, expressionSql(value)]),
});

/** A column gets the value of another one that is set too: from it, which is a swap, or to something else. */
function randomPassing(random: Random, { columns }: State): RowsUpdate['updates'] | undefined {
  const { name, type, fields } = random.pick(columns);
  const alike = columns.filter((other) => other.type === type && other.name !== name && fields.length === 0);
  if (alike.length === 0) return undefined;
  const other = random.pick(alike);
  const back = random.chance(40) ? undefined : randomExpression(random, other, [other]);
  return [
    [name, { op: 'column', name: other.name }],
    [other.name, back ?? { op: 'column', name }],
  ];
}

export function randomUpdate(random: Random, state: State): RowsUpdate | undefined {
  const chosen = random.sample(state.columns, 1 + random.int(3));
  const updates = chosen.flatMap((column): RowsUpdate['updates'] => {
    const value = randomExpression(random, column, state.columns);
    return value === undefined ? [] : [[column.name, value]];
  });
  if (updates.length === 0) return undefined;
  const passed = random.chance(20) ? randomPassing(random, state) : undefined;
  const predicate = random.chance(85) ? randomPredicate(random, state) : undefined;
  const [[first, value]] = updates as [RowsUpdate['updates'][number]];
  const spoiled = random.weighted<RowsUpdate['updates']>([
    [94, passed ?? updates],
    [2, [...updates, ['nothing', value]]],
    [2, [...updates, [first, value]]],
    [2, [[first, { op: 'column', name: 'nothing' }]]],
  ]);
  return { predicate, updates: spoiled };
}

const update: Operation<UpdateStep> = {
  expect: (world, step) =>
    changeBranch(world, step, (state) => updateRows(state, step), {
      fieldsOf: ({ updated }) => ({ updated_rows: updated }),
    }),
  request: (_, { table, branch, ...step }) => tableRequest(table, 'update', { branch, ...updateBody(step) }),
  draw(random, world) {
    const target = randomTarget(random, world);
    const drawn = randomUpdate(random, stateAt(random, world, target));
    return drawn && { kind: 'update', ...target, ...drawn };
  },
};

interface DeleteStep extends Target, Keyed {
  readonly kind: 'delete';
  readonly predicate: Condition;
}

const remove: Operation<DeleteStep> = {
  expect: (world, step) =>
    changeBranch(world, step, (state) => deleteRows(state, step.predicate), {
      fieldsOf: ({ deleted }) => ({ num_deleted_rows: deleted }),
    }),
  request: (_, { table, branch, predicate }) =>
    tableRequest(table, 'delete', { branch, predicate: conditionSql(predicate) }),
  draw(random, world) {
    const target = randomTarget(random, world);
    return { kind: 'delete', ...target, predicate: randomPredicate(random, stateAt(random, world, target)) };
  },
};

export const rowOperations = { create, insert, merge: mergeOfRows, update, delete: remove };
