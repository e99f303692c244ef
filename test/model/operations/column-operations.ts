/** What changes columns, and what is said of them. */
import { type Column, encodeRows, lanceType } from '../columns.ts';
import type { Random } from '../random.ts';
import { changeBranch } from './branch-change.ts';
import {
  type Alteration,
  addColumns,
  addNullColumns,
  alterColumns,
  castsOf,
  dropColumns,
  isNameTwice,
  type MetadataUpdate,
  type NewColumn,
  updateFieldMetadata,
  updateSchemaMetadata,
} from './column-changes.ts';
import { newColumnNames, randomTableColumns, randomTarget, randomTexts, stateAt } from './drawing.ts';
import { expressionSql, randomExpression } from './expressions.ts';
import { type Keyed, type Operation, type Target, tableRequest } from './operation.ts';
import type { State, Texts } from './world.ts';

interface AddColumnsStep extends Target, Keyed {
  readonly kind: 'add columns';
  readonly columns: readonly NewColumn[];
}

export const addColumnsBody = (columns: readonly NewColumn[]) => ({
  new_columns: columns.map(({ name, expression }) => ({ name, expression: expressionSql(expression) })),
});

const someName = (random: Random, { columns }: State): string =>
  random.chance(6) ? random.pick(columns).name : random.pick(newColumnNames);

export function randomNewColumns(random: Random, state: State): readonly NewColumn[] {
  const known = state.columns.filter(({ type }) => type !== 'struct' && type !== 'list');
  return Array.from({ length: 1 + random.int(2) }, () => {
    const type =
      random.chance(50) || known.length === 0 ? random.pick(['int64', 'utf8'] as const) : random.pick(known).type;
    const drawn = randomExpression(random, { type }, state.columns);
    const isPlain = drawn !== undefined && (drawn.op !== 'literal' || drawn.value !== null) && !random.chance(4);
    return { name: someName(random, state), expression: isPlain ? drawn : { op: 'column', name: 'nothing' } };
  });
}

const add: Operation<AddColumnsStep> = {
  expect(world, step) {
    const isTwice = isNameTwice(step.columns.map(({ name }) => name));
    const faults = isTwice ? (['TableSchemaValidationError'] as const) : [];
    return changeBranch(world, step, (state) => addColumns(state, step.columns), { faults });
  },
  request: (_, { table, branch, columns }) =>
    tableRequest(table, 'add_columns', { branch, ...addColumnsBody(columns) }),
  draw(random, world) {
    const target = randomTarget(random, world);
    return { kind: 'add columns', ...target, columns: randomNewColumns(random, stateAt(random, world, target)) };
  },
};

interface AddNullColumnsStep extends Target, Keyed {
  readonly kind: 'add null columns';
  readonly columns: readonly Column[];
}

const addNull: Operation<AddNullColumnsStep> = {
  expect(world, step) {
    const isRequired = step.columns.some(({ nullable }) => !nullable);
    const faults = isRequired ? (['TableSchemaValidationError'] as const) : [];
    return changeBranch(world, step, (state) => addNullColumns(state, step.columns), { faults });
  },
  request: (_, { table, branch, columns }) =>
    tableRequest(
      table,
      `add_columns${branch === undefined ? '' : `?${new URLSearchParams({ branch })}`}`,
      encodeRows(columns, [], 1, 'none'),
    ),
  draw(random, world) {
    const target = randomTarget(random, world);
    const state = stateAt(random, world, target);
    const [, ...types] = randomTableColumns(random);
    const columns = types.slice(0, 1 + random.int(2)).map((column) => ({ ...column, name: someName(random, state) }));
    const isTwice = columns.length === 2 && columns[0]?.name === columns[1]?.name;
    return { kind: 'add null columns', ...target, columns: isTwice ? columns.slice(1) : columns };
  },
};

interface AlterColumnsStep extends Target, Keyed {
  readonly kind: 'alter columns';
  readonly alterations: readonly Alteration[];
}

export const alterColumnsBody = (alterations: readonly Alteration[]) => ({
  alterations: alterations.map(({ path, rename, nullable, type }) => ({
    ...{ path, rename, nullable },
    ...(type && { data_type: { type: lanceType(type) } }),
  })),
});

function randomAlteration(random: Random, state: State): Alteration {
  const { name: path, type } = random.pick(state.columns);
  const casts = castsOf(type);
  return random.weighted<() => Alteration>([
    [45, () => ({ path, rename: someName(random, state) })],
    [25, () => ({ path, nullable: random.chance(60) })],
    [casts.length === 0 ? 0 : 25, () => ({ path, type: random.pick(casts) })],
    [2, () => ({ path, type: 'bool' })],
    [3, () => ({ path: 'nothing', nullable: true })],
  ])();
}

export const randomAlterations = (random: Random, state: State): readonly Alteration[] =>
  Array.from({ length: random.chance(80) ? 1 : 2 }, () => randomAlteration(random, state));

const alter: Operation<AlterColumnsStep> = {
  expect: (world, step) => changeBranch(world, step, (state) => alterColumns(state, step.alterations)),
  request: (_, { table, branch, alterations }) =>
    tableRequest(table, 'alter_columns', { branch, ...alterColumnsBody(alterations) }),
  draw(random, world) {
    const target = randomTarget(random, world);
    return { kind: 'alter columns', ...target, alterations: randomAlterations(random, stateAt(random, world, target)) };
  },
};

interface DropColumnsStep extends Target, Keyed {
  readonly kind: 'drop columns';
  readonly columns: readonly string[];
}

export function randomDrops(random: Random, { columns }: State): readonly string[] {
  if (random.chance(4)) return ['nothing'];
  const { name, fields } = random.pick(columns);
  const part = fields.length > 1 && random.chance(50) ? random.pick(fields).name : undefined;
  const second = random.chance(15) ? [random.pick(columns).name] : [];
  return part === undefined ? [name, ...second] : [`${name}.${part}`];
}

const drop: Operation<DropColumnsStep> = {
  expect: (world, step) => changeBranch(world, step, (state) => dropColumns(state, step.columns)),
  request: (_, { table, branch, columns }) => tableRequest(table, 'drop_columns', { branch, columns }),
  draw(random, world) {
    const target = randomTarget(random, world);
    return { kind: 'drop columns', ...target, columns: randomDrops(random, stateAt(random, world, target)) };
  },
};

interface FieldMetadataStep extends Target, Keyed {
  readonly kind: 'field metadata';
  readonly updates: readonly MetadataUpdate[];
}

export const randomMetadata = (random: Random, { columns }: State): readonly MetadataUpdate[] =>
  random.sample(columns, 1 + random.int(2)).map(({ name }) => ({
    path: random.chance(4) ? 'nothing' : name,
    metadata: { ...randomTexts(random), ...(random.chance(30) && { unit: null }) },
    replace: random.chance(30) ? random.chance(60) : undefined,
  }));

const fieldMetadata: Operation<FieldMetadataStep> = {
  expect: (world, step) => changeBranch(world, step, (state) => updateFieldMetadata(state, step.updates)),
  request: (_, { table, branch, updates }) => tableRequest(table, 'update_field_metadata', { branch, updates }),
  draw(random, world) {
    const target = randomTarget(random, world);
    return { kind: 'field metadata', ...target, updates: randomMetadata(random, stateAt(random, world, target)) };
  },
};

interface SchemaMetadataStep extends Target, Keyed {
  readonly kind: 'schema metadata';
  readonly metadata: Texts;
}

const schemaMetadata: Operation<SchemaMetadataStep> = {
  expect: (world, step) =>
    changeBranch(world, step, (state) => updateSchemaMetadata(state, step.metadata), {
      fieldsOf: () => step.metadata,
      saysVersion: false,
    }),
  request: (_, { table, branch, metadata }) =>
    tableRequest(
      table,
      `schema_metadata/update${branch === undefined ? '' : `?${new URLSearchParams({ branch })}`}`,
      metadata,
    ),
  draw: (random, world) => ({ kind: 'schema metadata', ...randomTarget(random, world), metadata: randomTexts(random) }),
};

export const columnOperations = {
  'add columns': add,
  'add null columns': addNull,
  'alter columns': alter,
  'drop columns': drop,
  'field metadata': fieldMetadata,
  'schema metadata': schemaMetadata,
};
