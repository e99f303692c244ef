/**
 * Cedar decides the policy: it denies by default, and `forbid` wins over `permit`.
 *
 * A decision is expensive in Cedar, more so with hundreds of policies. So this remembers it for the same principal object until
 * the policies are replaced. Fails closed: where Cedar cannot evaluate a policy, it denies, and logs it.
 */
import { randomUUID } from 'node:crypto';
import type { EntityJson, TypeAndId } from '@cedar-policy/cedar-wasm/nodejs';
import * as cedar from '@cedar-policy/cedar-wasm/nodejs';
import { LRUCache } from 'lru-cache';
import type { NamespacePath, ObjectName } from '../../kernel/ids.ts';
import type { Principal } from '../../kernel/request-scope.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { AccessSetupError } from '../challenge.ts';
import { type AccessRequest, type Action, actionScopes, type Policy, type Resource } from './actions.ts';
import { type CheckedSource, checkPolicies, type PolicySource } from './policy-source.ts';

/** Gets Cedar's remarks for the operator. */
type PolicyLogger = Pick<Logger, 'warn' | 'error'>;

export class CedarPolicy implements Policy {
  readonly #id: string;
  readonly #logger: PolicyLogger;
  #areDefaults = false;
  readonly #decisions = new LRUCache<string, boolean>({ maxSize: 50_000, sizeCalculation: () => 1 });
  readonly #serials = new WeakMap<Principal, number>();
  #nextSerial = 0;

  private constructor(id: string, logger: PolicyLogger) {
    this.#id = id;
    this.#logger = logger;
  }

  /** `source` replaces the default policies. `AccessSetupError` says where it is broken, as `name:line:column: why`. */
  static load(options: { readonly source?: PolicySource | undefined; readonly logger: PolicyLogger }): CedarPolicy {
    const policy = new CedarPolicy(randomUUID(), options.logger);
    requireParsed(cedar.preparseSchema(policy.#id, cedarSchema));
    if (options.source !== undefined) {
      policy.replace(checkPolicies(options.source, cedarSchema));
      return policy;
    }
    policy.#putInForce({ name: 'default policies', text: defaultPolicies, remarks: [] });
    policy.#areDefaults = true;
    return policy;
  }

  /** All decisions from now on follow it. */
  replace(source: CheckedSource): void {
    this.#putInForce(source);
    this.#areDefaults = false;
  }

  /** It is synchronous, so no decision falls in between. Cedar replaces the policies that it held under this id. */
  #putInForce(source: CheckedSource): void {
    for (const remark of source.remarks) this.#logger.warn({ remark }, 'a remark on the policies');
    requireParsed(cedar.preparsePolicySet(this.#id, { staticPolicies: source.text }));
    this.#decisions.clear();
  }

  scopeFor(action: Action): string | undefined {
    return this.#areDefaults ? `lancegate:${actionScopes[action]}` : undefined;
  }

  allows(request: AccessRequest): boolean {
    const key = this.#decisionKey(request);
    const known = this.#decisions.get(key);
    if (known !== undefined) return known;
    const decision = this.#decide(request);
    this.#decisions.set(key, decision);
    return decision;
  }

  /** Principals count as themselves, not by subject: two tokens of one subject may hold different scopes. */
  #decisionKey({ principal, action, resource, branch }: AccessRequest): string {
    const { type, id } = resourceUid(resource);
    return JSON.stringify([this.#serialOf(principal), action, type, id, branch]);
  }

  #serialOf(principal: Principal): number {
    const known = this.#serials.get(principal);
    if (known !== undefined) return known;
    this.#nextSerial += 1;
    this.#serials.set(principal, this.#nextSerial);
    return this.#nextSerial;
  }

  #decide(request: AccessRequest): boolean {
    const answer = this.#ask(request);
    const errors = answer.type === 'failure' ? answer.errors : answer.response.diagnostics.errors;
    if (errors.length > 0) {
      this.#logger.error({ action: request.action, errors }, 'a policy could not be evaluated; denied');
    }
    return errors.length === 0 && answer.type === 'success' && answer.response.decision === 'allow';
  }

  #ask({ principal, action, resource, branch }: AccessRequest): cedar.AuthorizationAnswer {
    return cedar.statefulIsAuthorized({
      principal: principalUid(principal),
      action: { type: 'Action', id: action },
      resource: resourceUid(resource),
      context: { branch: branch ?? 'main' },
      preparsedPolicySetId: this.#id,
      preparsedSchemaName: this.#id,
      validateRequest: true,
      entities: [...principalEntities(principal), ...resourceEntities(resource)],
    });
  }
}

/** `checkPolicies` has passed the source, so a failure is a defect of this service; it must prevent the start all the same. */
function requireParsed(answer: cedar.CheckParseAnswer): void {
  if (answer.type === 'failure') {
    throw new AccessSetupError(
      `The policies cannot be used: ${answer.errors.map(({ message }) => message).join('; ')}`,
    );
  }
}

const actionDeclarations = Object.entries(actionScopes).map(
  ([action, group]) =>
    `action ${JSON.stringify(action)} in [Action::${JSON.stringify(group)}] appliesTo ` +
    '{ principal: [Principal], resource: [Namespace, Table], context: { branch: String } };',
);

/** Policies name these objects; `docs/access.md` explains them to the authors of policies. */
const cedarSchema = `
entity Group;
entity Principal in [Group] { subject: String, scopes: Set<String>, issuer: String };
entity Namespace in [Namespace] { name: String };
entity Table in [Namespace] { name: String };
action "read", "write", "admin";
${actionDeclarations.join('\n')}
`;

/** They are in force where the operator gives none. */
const defaultPolicies = `
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
const entityId = (names: readonly ObjectName[]): string =>
  names.map((name) => name.replaceAll('%', '%25').replaceAll('$', '%24')).join('$');

const principalUid = (principal: Principal): TypeAndId => ({ type: 'Principal', id: principal.subject });

export function resourceUid(resource: Resource): TypeAndId {
  if (resource.kind === 'namespace') return namespaceUid(resource.path);
  const { namespace, name } = resource.table;
  return { type: 'Table', id: entityId([...namespace, name]) };
}

const namespaceUid = (path: NamespacePath): TypeAndId => ({ type: 'Namespace', id: entityId(path) });

function principalEntities(principal: Principal): readonly EntityJson[] {
  const { subject, scopes, issuer } = principal;
  const groups = principal.groups.map((id) => ({ type: 'Group', id }));
  return [
    { uid: principalUid(principal), attrs: { subject, scopes: [...scopes], issuer }, parents: groups },
    ...groups.map((uid) => ({ uid, attrs: {}, parents: [] })),
  ];
}

/** Returns the resource and every namespace above it, up to the root. */
function resourceEntities(resource: Resource): readonly EntityJson[] {
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
