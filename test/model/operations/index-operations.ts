/** Indexes. They change what a query costs and never what it answers, which the comparison sees to. */
import type { ErrorName } from '#src/kernel/errors.ts';
import { type Column, columnAt } from '../columns.ts';
import { quoted } from '../conditions.ts';
import { changeBranch, findBranch } from './branch-change.ts';
import { branchAt, randomTarget, stateAt } from './drawing.ts';
import { type Keyed, type Operation, refused, type Target, tableRequest } from './operation.ts';
import { type Change, noCounts } from './row-changes.ts';
import { headOf, type State } from './world.ts';

type IndexType = 'BTREE' | 'BITMAP' | 'LABEL_LIST' | 'FTS';

interface CreateIndexStep extends Target, Keyed {
  readonly kind: 'create index';
  readonly route: 'create_index' | 'create_scalar_index';
  /** A column, or a part of a struct as `struct.part`. */
  readonly column: string;
  readonly type: IndexType;
  readonly name?: string | undefined;
  readonly replace?: boolean | undefined;
}

const texts: readonly Column['type'][] = ['utf8', 'large_utf8'];

function takes(type: IndexType, column: Column): boolean {
  switch (type) {
    case 'BTREE':
      return !['list', 'struct', 'category', 'large_utf8'].includes(column.type);
    case 'BITMAP':
      return !['list', 'struct', 'category', 'float32', 'float64', 'date'].includes(column.type);
    case 'LABEL_LIST':
      return column.type === 'list';
    case 'FTS':
      return texts.includes(column.type);
  }
}

function createOn(state: State, { column: path, type, name, replace = true }: CreateIndexStep): Change {
  const column = columnAt(state.columns, path.split('.'));
  if (column === undefined) return { refused: ['TableColumnNotFound'] };
  const faults: ErrorName[] = takes(type, column) ? [] : ['InvalidInput'];
  const index = name ?? `${path}_idx`;
  const taken = state.indexes.get(index);
  if (taken !== undefined && !replace) faults.push('TableIndexAlreadyExists');
  if (taken !== undefined && taken !== path) faults.push('InvalidInput');
  if (faults.length > 0) return { refused: faults };
  const indexes = new Map([...state.indexes, [index, path]]);
  return { state: { ...state, indexes }, counts: noCounts, isVersion: true };
}

const create: Operation<CreateIndexStep> = {
  expect: (world, step) => changeBranch(world, step, (state) => createOn(state, step)),
  request: (_, { table, branch, route, column, type, name, replace }) =>
    tableRequest(table, route, {
      ...{ branch, name, replace },
      column: column
        .split('.')
        .map((part) => quoted(part))
        .join('.'),
      index_type: type,
    }),
  draw(random, world) {
    const target = randomTarget(random, world);
    const { columns } = stateAt(random, world, target);
    const picked = random.pick(columns);
    const type = random.pick(
      (['BTREE', 'BITMAP', 'LABEL_LIST', 'FTS'] as const)
        .filter((of) => random.chance(8) || takes(of, picked))
        .concat('BTREE'),
    );
    const part = picked.fields.length > 0 ? `.${random.pick(picked.fields).name}` : '';
    return {
      kind: 'create index',
      ...target,
      route: random.pick(['create_index', 'create_scalar_index']),
      column: random.chance(3) ? 'nothing' : `${picked.name}${part}`,
      type,
      name: random.chance(40) ? random.pick(['one', 'two']) : undefined,
      replace: random.chance(40) ? random.chance(50) : undefined,
    };
  },
};

interface DropIndexStep extends Target, Keyed {
  readonly kind: 'drop index';
  readonly name: string;
}

const drop: Operation<DropIndexStep> = {
  expect(world, step) {
    const found = findBranch(world, step);
    if ('refused' in found) return found;
    const { indexes } = headOf(found.branch);
    if (!indexes.has(step.name)) return refused('TableIndexNotFound');
    const left = new Map([...indexes].filter(([name]) => name !== step.name));
    return changeBranch(world, step, (state) => ({
      state: { ...state, indexes: left },
      counts: noCounts,
      isVersion: true,
    }));
  },
  request: (_, { table, branch, name }) => tableRequest(table, `index/${encodeURIComponent(name)}/drop`, { branch }),
  draw(random, world) {
    const target = randomTarget(random, world);
    const branch = branchAt(world, target);
    const names = branch === undefined ? [] : [...headOf(branch).indexes.keys()];
    if (names.length === 0 && random.chance(80)) return undefined;
    return { kind: 'drop index', ...target, name: random.pick(names.length === 0 ? ['none'] : names) };
  },
};

export const indexOperations = { 'create index': create, 'drop index': drop };
