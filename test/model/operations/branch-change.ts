/** A change of the newest version of a branch, whatever kind it is of. */
import type { ErrorName } from '#src/kernel/errors.ts';
import type { Counts } from '../merge-rows.ts';
import { branchOf, type Expected, type Target } from './operation.ts';
import type { Change } from './row-changes.ts';
import {
  type Branch,
  type Created,
  headOf,
  newestOf,
  type State,
  type World,
  withTable,
  withVersion,
} from './world.ts';

/** A branch that is there, or why it is not. */
export function findBranch(
  world: World,
  target: Target,
): { readonly table: Created; readonly branch: Branch } | { readonly refused: readonly ErrorName[] } {
  const table = world.tables.get(target.table);
  if (table === undefined) return { refused: ['TableNotFound'] };
  if (table.state === 'declared') return { refused: ['InvalidTableState'] };
  const branch = table.branches.get(branchOf(target));
  return branch === undefined ? { refused: ['TableBranchNotFound'] } : { table, branch };
}

/**
 * A change is exactly one version, and what changes nothing is none (P5). `fieldsOf` are the answer's beside the version.
 * `faults` are those of the request alone.
 */
export function changeBranch(
  world: World,
  target: Target,
  change: (state: State) => Change,
  { fieldsOf = () => ({}), faults = [], saysVersion = true }: ChangeOptions = {},
): Expected {
  const found = findBranch(world, target);
  if ('refused' in found) return { refused: [...found.refused, ...faults] };
  const { table, branch } = found;
  const changed = change(headOf(branch));
  if (faults.length > 0) return { refused: [...faults, ...('refused' in changed ? changed.refused : [])] };
  if ('refused' in changed) return changed;
  const { state, counts, isVersion } = changed;
  const version = newestOf(branch) + (isVersion ? 1 : 0);
  const next = isVersion ? withVersion(table, branchOf(target), version, state) : table;
  return {
    answer: { ...fieldsOf(counts), ...(saysVersion && { version }) },
    world: () => withTable(world, target.table, next),
  };
}

interface ChangeOptions {
  readonly fieldsOf?: (counts: Counts) => Readonly<Record<string, unknown>>;
  readonly faults?: readonly ErrorName[];
  readonly saysVersion?: boolean;
}

export const allCounts = ({ inserted, updated, deleted }: Counts) => ({
  num_inserted_rows: inserted,
  num_updated_rows: updated,
  num_deleted_rows: deleted,
});
