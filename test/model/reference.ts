/**
 * What the service should do, in a few lines of plain data: a table is a list of rows per branch and version, a merge is
 * a loop over them. It knows design section 2 and SQL, and nothing of files, engines or how a merge is done.
 */
import { type Column, columnAt, sameColumnType } from './columns.ts';
import { type Condition, references } from './conditions.ts';
import { type Counts, mergeRows } from './merge-rows.ts';
import type { CreateBranchStep, CreateStep, MergeStep, Source, Step } from './steps.ts';
import { keyOf, type Row } from './values.ts';

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

/** What a step must do: be refused with one of these codes, or answer so and leave such a world. */
export type Expected =
  | { readonly refused: readonly number[] }
  | {
      readonly counts?: Counts | undefined;
      /** Undefined where the answer has no version. */
      readonly versions?: readonly number[] | undefined;
      /** `version` is one of `versions`. */
      readonly worldAt: (version: number) => World;
    };

const code = {
  tableNotFound: 4,
  tableAlreadyExists: 5,
  versionNotFound: 11,
  columnNotFound: 12,
  invalidInput: 13,
  invalidState: 19,
  schema: 20,
  branchNotFound: 22,
  branchExists: 23,
} as const;

export function expect(world: World, step: Step): Expected {
  const table = world.get(step.table);
  switch (step.kind) {
    case 'create':
      return expectCreate(world, table, step);
    case 'merge':
      return expectMerge(world, table, step);
    case 'declare':
      if (table !== undefined) return { refused: [code.tableAlreadyExists] };
      return { worldAt: () => withTable(world, step.table, { state: 'declared' }) };
    case 'drop':
      if (table === undefined) return { refused: [code.tableNotFound] };
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
  if (table?.state === 'created' && mode === 'create') return { refused: [code.tableAlreadyExists] };
  if (table?.state === 'created' && mode === 'exist_ok') {
    return { versions: [table.branches.get(main)?.version ?? 0], worldAt: () => world };
  }
  return { versions: [1], worldAt: () => withTable(world, name, madeOf(source)) };
}

function expectMerge(world: World, table: Table | undefined, step: MergeStep): Expected {
  if (table === undefined) return { refused: [code.tableNotFound] };
  const faults = [
    ...faultsOfSource(step),
    ...(table.state === 'declared' ? faultsOfDeclared(step) : faultsOf(table, step)),
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
  if (rows.some((row) => lacksRequired(row, table.columns))) return { refused: [code.schema] };
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

const lacksRequired = (row: Row, columns: readonly Column[]): boolean =>
  columns.some(({ name, nullable }) => !nullable && row[name] === null);

/** Without rows to merge and without deleting, no row is looked at, and no filter. */
const reachesRows = ({ source, flags }: MergeStep): boolean =>
  source.rows.length > 0 || flags.delete === true || flags.deleteIf !== undefined;

function faultsOfSource({ on, source, flags }: MergeStep): number[] {
  const faults: number[] = [];
  const columns = on.map(({ segments }) => columnAt(source.columns, segments));
  if (columns.includes(undefined)) faults.push(code.columnNotFound);
  if (columns.some((column) => column?.type === 'struct' || column?.type === 'list')) faults.push(code.invalidInput);
  const keys = source.rows
    .map((row) =>
      keyOf(
        row,
        on.map(({ segments }) => segments),
      ),
    )
    .filter((key) => key !== undefined);
  if (new Set(keys).size < keys.length) faults.push(code.invalidInput);
  const { update, updateIf, insert, delete: deletes, deleteIf } = flags;
  const said = [update, insert, deletes].filter((flag) => flag !== undefined);
  if (said.length > 0 && !said.includes(true) && updateIf === undefined && deleteIf === undefined) {
    faults.push(code.invalidInput);
  }
  return faults;
}

const faultsOfDeclared = ({ branch }: MergeStep): number[] => (branch === undefined ? [] : [code.branchNotFound]);

function faultsOf(table: Created, step: MergeStep): number[] {
  const { branch, on, source, flags } = step;
  const faults: number[] = [];
  if (!table.branches.has(branch ?? main)) faults.push(code.branchNotFound);
  if (on.some(({ segments }) => columnAt(table.columns, segments) === undefined)) faults.push(code.columnNotFound);
  for (const column of source.columns) {
    const known = table.columns.find(({ name }) => name === column.name);
    if (known === undefined || !sameColumnType(known, column)) faults.push(code.schema);
  }
  const isPartial = source.columns.length < table.columns.length;
  if (isPartial && !source.columns.every((column) => agreesInside(column, table.columns))) faults.push(code.schema);
  const sent = new Set(source.columns.map(({ name }) => name));
  if (table.columns.some(({ name, nullable }) => !nullable && !sent.has(name))) faults.push(code.schema);
  const isUnknown = (condition: Condition | undefined) =>
    condition !== undefined &&
    references(condition).some(({ side, segments }) => {
      const columns = side === 'source' ? source.columns : table.columns;
      return columnAt(columns, segments) === undefined;
    });
  if (reachesRows(step) && (isUnknown(flags.updateIf) || isUnknown(flags.deleteIf))) faults.push(code.columnNotFound);
  return faults;
}

/** In a source of some columns, what lies inside them must be nullable where it is in the table. */
function agreesInside({ name, fields }: Column, columns: readonly Column[]): boolean {
  const known = columns.find((column) => column.name === name)?.fields ?? [];
  return fields.every(
    (of) => known.find((other) => other.name === of.name)?.nullable === of.nullable && agreesInside(of, known),
  );
}

function expectCreateBranch(world: World, table: Table | undefined, step: CreateBranchStep): Expected {
  if (table === undefined) return { refused: [code.tableNotFound] };
  if (table.state === 'declared') return { refused: [code.invalidState] };
  const parent = table.branches.get(step.fromBranch ?? main);
  if (table.branches.has(step.branch)) return { refused: [code.branchExists] };
  if (parent === undefined) return { refused: [code.branchNotFound] };
  const version = step.fromVersion ?? parent.version;
  const rows = parent.history.get(version);
  if (rows === undefined) return { refused: [code.versionNotFound] };
  const branch = { parent: step.fromBranch ?? main, version, history: new Map([[version, rows]]) };
  return { worldAt: () => withBranch(world, step.table, table, step.branch, branch) };
}

function expectDeleteBranch(world: World, table: Table | undefined, name: string, branch: string): Expected {
  if (table === undefined) return { refused: [code.tableNotFound] };
  if (table.state === 'declared') return { refused: [code.invalidState] };
  if (!table.branches.has(branch)) return { refused: [code.branchNotFound] };
  const isParent = [...table.branches.values()].some(({ parent }) => parent === branch);
  if (isParent) return { refused: [code.invalidState] };
  const branches = new Map([...table.branches].filter(([other]) => other !== branch));
  return { worldAt: () => withTable(world, name, { ...table, branches }) };
}

function expectIndex(world: World, table: Table | undefined, name: string): Expected {
  const branch = table?.state === 'created' ? table.branches.get(main) : undefined;
  if (table?.state !== 'created' || branch === undefined) return { refused: [code.tableNotFound] };
  const versions = [branch.version + 1];
  return {
    versions,
    worldAt: (version) => withBranch(world, name, table, main, advanced(branch, version, rowsOf(branch))),
  };
}
