/** Questions to a policy. */
import type { AccessRequest, Resource } from '#src/auth/policy/actions.ts';
import type { ObjectName } from '#src/kernel/ids.ts';
import type { Principal } from '#src/kernel/request-scope.ts';

export const principal = (changes: Partial<Principal> = {}): Principal => ({
  subject: 'ann',
  scopes: [],
  groups: [],
  issuer: 'https://login.test',
  ...changes,
});

const names = (path: readonly string[]) => path as readonly ObjectName[];

export const namespace = (...path: string[]): Resource => ({ kind: 'namespace', path: names(path) });

export const table = (...path: string[]): Resource => ({
  kind: 'table',
  table: { namespace: names(path.slice(0, -1)), name: path.at(-1) as ObjectName },
});

export const request = (changes: Partial<AccessRequest>): AccessRequest => ({
  principal: principal(),
  action: 'MergeInsertIntoTable',
  resource: table('a', 'b', 't'),
  branch: undefined,
  ...changes,
});
