import { PermissionDeniedError } from '../auth/challenge.ts';
import type { Action, Resource } from '../auth/policy/actions.ts';
import { invalidInput } from '../kernel/errors.ts';
import { type BranchName, showNamespace, showTable } from '../kernel/ids.ts';
import { parseBranch } from '../wire/branch-name.ts';
import type { RouteInput } from './route.ts';

/** `PermissionDenied`, whose text repeats only what the caller sent, and the scope that the default policies require. */
export function authorize(input: RouteInput, action: Action, resource: Resource, branch: BranchName | undefined): void {
  const isAllowed = input.allows({ action, resource, branch });
  input.trail.asked({ action, resource, branch }, isAllowed);
  if (isAllowed) return;
  const place = branch === undefined ? showResource(resource) : `branch '${branch}' of ${showResource(resource)}`;
  throw new PermissionDeniedError(`${action} on ${place} is not allowed`, input.scopeFor(action));
}

const showResource = (resource: Resource): string =>
  resource.kind === 'table' ? `table '${showTable(resource.table)}'` : `namespace '${showNamespace(resource.path)}'`;

export const queryBranch = ({ query }: RouteInput): BranchName | undefined =>
  query.one('branch', (text) => parseBranch(text));

/** A branch is honoured or refused, never ignored: the rows would end up in another place than was meant. */
export function refuseBranch(branch: BranchName | undefined): void {
  if (branch !== undefined) throw invalidInput('branch: this operation works on main only');
}
