/**
 * What the service should do, in a few lines of plain data: a table is a list of rows per branch and version, a merge is
 * a loop over them. It knows design section 2 and SQL, and nothing of files, engines or how a merge is done.
 */
import { isDeepStrictEqual } from 'node:util';
import type { ErrorName } from '#src/kernel/errors.ts';
import type { Column } from './columns.ts';
import { faultsAt, faultsOfSource, lacksRequired } from './merge-faults.ts';
import { type Counts, mergeRows } from './merge-rows.ts';
import type { CreateBranchStep, CreateStep, MergeStep, Source, Step } from './steps.ts';
import type { Row } from './values.ts';

export const main = 'main';

export interface Branch {
  readonly parent: string | undefined;
  readonly version: number;
  /** The rows of the versions that a step of the model made. */
  readonly history: ReadonlyMap<number, readonly Row[]>;
}
export interface Created {
  readonly state: 'created';
  readonly columns: readonly Column[];
  readonly branches: ReadonlyMap<string, Branch>;
}
export type Table = { readonly state: 'declared' } | Created;
export type World = ReadonlyMap<string, Table>;

export const rowsOf = (branch: Branch): readonly Row[] => branch.history.get(branch.version) ?? [];

/** What a step must do: be refused with one of these errors, or answer so and leave such a world. */
export type Expected =
  | { readonly refused: readonly ErrorName[] }
  | {
      readonly counts?: Counts | undefined;
      /** Undefined where the answer has no version. */
      readonly versions?: readonly number[] | undefined;
      /** `version` is one of `versions`. */
      readonly worldAt: (version: number) => World;
    };

export function expect(world: World, step: Step): Expected {
  const table = world.get(step.table);
  switch (step.kind) {
    case 'create':
      return expectCreate(world, table, step);
    case 'merge':
      return expectMerge(world, table, step);
    case 'declare':
      if (table !== undefined) return { refused: ['TableAlreadyExists'] };
      return { worldAt: () => withTable(world, step.table, { state: 'declared' }) };
    case 'drop':
      if (table === undefined) return { refused: ['TableNotFound'] };
      return { worldAt: () => new Map([...world].filter(([name]) => name !== step.table)) };
    case 'create branch':
      return expectCreateBranch(world, table, step);
    case 'delete branch':
      return expectDeleteBranch(world, table, step.table, step.branch);
    case 'index':
      return expectIndex(world, table, step.table);
    case 'restart':
      return { worldAt: () => world };
  }
}

const withTable = (world: World, name: string, table: Table): World => new Map([...world, [name, table]]);
const withBranch = (world: World, name: string, table: Created, branchName: string, branch: Branch): World =>
  withTable(world, name, { ...table, branches: new Map([...table.branches, [branchName, branch]]) });
const advanced = (branch: Branch, version: number, rows: readonly Row[]): Branch => ({
  ...branch,
  version,
  history: new Map([...branch.history, [version, rows]]),
});

const madeOf = ({ columns, rows }: Source): Created => ({
  state: 'created',
  columns,
  branches: new Map([[main, { parent: undefined, version: 1, history: new Map([[1, rows]]) }]]),
});

function expectCreate(world: World, table: Table | undefined, { table: name, mode, source }: CreateStep): Expected {
  if (table?.state === 'created' && mode === 'create') return { refused: ['TableAlreadyExists'] };
  if (table?.state === 'created' && mode === 'exist_ok') {
    if (!isDeepStrictEqual(table.columns, source.columns)) return { refused: ['TableSchemaValidationError'] };
    return { versions: [table.branches.get(main)?.version ?? 0], worldAt: () => world };
  }
  return { versions: [1], worldAt: () => withTable(world, name, madeOf(source)) };
}

function expectMerge(world: World, table: Table | undefined, step: MergeStep): Expected {
  if (table === undefined) return { refused: ['TableNotFound', ...faultsOfSource(step)] };
  const faults = [
    ...faultsOfSource(step),
    ...(table.state === 'declared' ? faultsOfDeclared(step) : faultsOfCreated(table, step)),
  ];
  if (faults.length > 0) return { refused: faults };
  if (table.state === 'declared') {
    const counts = { inserted: step.source.rows.length, updated: 0, deleted: 0 };
    return { counts, versions: [1], worldAt: () => withTable(world, step.table, madeOf(step.source)) };
  }
  return expectMergeInto(world, table, step);
}

function expectMergeInto(world: World, table: Created, step: MergeStep): Expected {
  const branchName = step.branch ?? main;
  const branch = table.branches.get(branchName) as Branch;
  const { rows, counts } = mergeRows(rowsOf(branch), table.columns, step);
  if (rows.some((row) => lacksRequired(row, table.columns))) return { refused: ['TableSchemaValidationError'] };
  return {
    counts,
    versions: [versionAfter(branch.version, counts)],
    worldAt: (version) => withBranch(world, step.table, table, branchName, advanced(branch, version, rows)),
  };
}

/** What changes rows is one version, and what changes none makes no version. */
function versionAfter(version: number, { inserted, updated, deleted }: Counts): number {
  return inserted + updated + deleted === 0 ? version : version + 1;
}

const faultsOfCreated = ({ columns, branches }: Created, step: MergeStep): ErrorName[] => [
  ...(branches.has(step.branch ?? main) ? [] : (['TableBranchNotFound'] as const)),
  ...faultsAt(columns, step),
];

const faultsOfDeclared = ({ branch }: MergeStep): ErrorName[] => (branch === undefined ? [] : ['TableBranchNotFound']);

function expectCreateBranch(world: World, table: Table | undefined, step: CreateBranchStep): Expected {
  if (table === undefined) return { refused: ['TableNotFound'] };
  if (table.state === 'declared') return { refused: ['InvalidTableState'] };
  const parent = table.branches.get(step.fromBranch ?? main);
  if (table.branches.has(step.branch)) return { refused: ['TableBranchAlreadyExists'] };
  if (parent === undefined) return { refused: ['TableBranchNotFound'] };
  const version = step.fromVersion ?? parent.version;
  const rows = parent.history.get(version);
  if (rows === undefined) return { refused: ['TableVersionNotFound'] };
  const branch = { parent: step.fromBranch ?? main, version, history: new Map([[version, rows]]) };
  return { worldAt: () => withBranch(world, step.table, table, step.branch, branch) };
}

function expectDeleteBranch(world: World, table: Table | undefined, name: string, branch: string): Expected {
  if (table === undefined) return { refused: ['TableNotFound'] };
  if (table.state === 'declared') return { refused: ['InvalidTableState'] };
  if (!table.branches.has(branch)) return { refused: ['TableBranchNotFound'] };
  const isParent = [...table.branches.values()].some(({ parent }) => parent === branch);
  if (isParent) return { refused: ['InvalidTableState'] };
  const branches = new Map([...table.branches].filter(([other]) => other !== branch));
  return { worldAt: () => withTable(world, name, { ...table, branches }) };
}

function expectIndex(world: World, table: Table | undefined, name: string): Expected {
  const branch = table?.state === 'created' ? table.branches.get(main) : undefined;
  if (table?.state !== 'created' || branch === undefined) return { refused: ['TableNotFound'] };
  const versions = [branch.version + 1];
  return {
    versions,
    worldAt: (version) => withBranch(world, name, table, main, advanced(branch, version, rowsOf(branch))),
  };
}
