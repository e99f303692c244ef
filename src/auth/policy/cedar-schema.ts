/** The world as policies see it: Cedar's schema, the default policies, and how our objects become its entities. */
import type { EntityJson, TypeAndId } from '@cedar-policy/cedar-wasm/nodejs';
import type { NamespacePath, ObjectName } from '../../kernel/ids.ts';
import type { Principal } from '../../kernel/principal.ts';
import { actionScopes, type Resource } from './actions.ts';

const actionDeclarations = Object.entries(actionScopes).map(
  ([action, group]) =>
    `action ${JSON.stringify(action)} in [Action::${JSON.stringify(group)}] appliesTo ` +
    '{ principal: [Principal], resource: [Namespace, Table], context: { branch: String } };',
);

/** `docs/access.md` explains it to those who write policies. */
export const cedarSchema = `
entity Group;
entity Principal in [Group] { subject: String, scopes: Set<String>, issuer: String };
entity Namespace in [Namespace] { name: String };
entity Table in [Namespace] { name: String };
action "read", "write", "admin";
${actionDeclarations.join('\n')}
`;

/** In force where the operator gives none. */
export const defaultPolicies = `
@id("scope lancegate:read")
permit (principal, action in Action::"read", resource)
when { principal.scopes.contains("lancegate:read") };

@id("scope lancegate:write")
permit (principal, action in [Action::"read", Action::"write"], resource)
when { principal.scopes.contains("lancegate:write") };

@id("scope lancegate:admin")
permit (principal, action, resource)
when { principal.scopes.contains("lancegate:admin") };
`;

/**
 * Names from the root down, joined by `$`. A `$` inside a name is written `%24` and a `%` as `%25`, so that no two
 * paths share an id. The root namespace is the empty id: names are never empty.
 */
export const entityId = (names: readonly ObjectName[]): string => names.map(escapeName).join('$');
const escapeName = (name: string): string => name.replaceAll('%', '%25').replaceAll('$', '%24');

export const principalUid = (principal: Principal): TypeAndId => ({ type: 'Principal', id: principal.subject });

export function resourceUid(resource: Resource): TypeAndId {
  if (resource.kind === 'namespace') return namespaceUid(resource.path);
  const { namespace, name } = resource.table;
  return { type: 'Table', id: entityId([...namespace, name]) };
}

const namespaceUid = (path: NamespacePath): TypeAndId => ({ type: 'Namespace', id: entityId(path) });

export function principalEntities(principal: Principal): readonly EntityJson[] {
  const { subject, scopes, issuer } = principal;
  const groups = principal.groups.map((id) => ({ type: 'Group', id }));
  return [
    { uid: principalUid(principal), attrs: { subject, scopes: [...scopes], issuer }, parents: groups },
    ...groups.map((uid) => ({ uid, attrs: {}, parents: [] })),
  ];
}

/** The resource and every namespace above it, up to the root. */
export function resourceEntities(resource: Resource): readonly EntityJson[] {
  if (resource.kind === 'namespace') return namespaceChain(resource.path);
  const { namespace, name } = resource.table;
  const table = { uid: resourceUid(resource), attrs: { name }, parents: [namespaceUid(namespace)] };
  return [table, ...namespaceChain(namespace)];
}

function namespaceChain(path: NamespacePath): readonly EntityJson[] {
  const name = path.at(-1);
  if (name === undefined) return [{ uid: namespaceUid([]), attrs: { name: '' }, parents: [] }];
  const parent = path.slice(0, -1);
  return [{ uid: namespaceUid(path), attrs: { name }, parents: [namespaceUid(parent)] }, ...namespaceChain(parent)];
}
