/**
 * What a route is. It is called twice: `prepare` when the headers are there and who asks is known, before one byte of the
 * body is read; what it returns answers then, with the body. Everything Fastify stops here.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import { PermissionDeniedError } from '../auth/challenge.ts';
import type { AccessRequest, Action, Resource } from '../auth/policy/actions.ts';
import { resourceUid } from '../auth/policy/cedar-policy.ts';
import { invalidInput, type LancegateError } from '../kernel/errors.ts';
import {
  type BranchName,
  type NamespacePath,
  showNamespace,
  showTable,
  type TableRef,
  type TransactionId,
} from '../kernel/ids.ts';
import type { Principal, RequestScope } from '../kernel/request-scope.ts';
import type { AuditFacts, AuditRecord, Decision } from '../telemetry/audit.ts';
import { parseBranch, parseNamespacePath, parseTableRef, parseTransactionId } from '../wire/identifiers.ts';
import type { QueryParameters } from '../wire/query-parameters.ts';
import type { ClientAddress, ClientAddresses } from './request-head.ts';

export type Method = 'GET' | 'POST';

/** A request whose sender is known, and nothing else yet. */
export interface RouteInput {
  readonly method: Method;
  /** The decoded `id` of the path; empty on paths without. */
  readonly id: string;
  readonly query: QueryParameters;
  readonly headers: IncomingHttpHeaders;
  /** The LanceDB SDKs end their paths in a slash, the Lance namespace clients do not. */
  readonly hasTrailingSlash: boolean;
  readonly scope: RequestScope;
  readonly allows: (request: Omit<AccessRequest, 'principal'>) => boolean;
  readonly scopeFor: (action: Action) => string | undefined;
  /** Facts for the audit record: `authorize` adds the decisions, a route what it is about to do. */
  readonly trail: Pick<AuditTrail, 'asked' | 'note'>;
  /** The headers that this service has put into the answer so far. */
  readonly headersSet: () => Readonly<Record<string, string>>;
  readonly setHeader: (name: string, value: string) => void;
}

/** The body, once it is wanted. One of the three, once. */
export interface Upload {
  /** Decoded; `BodyTooLarge` beyond the limit of JSON bodies. */
  text(): Promise<string>;
  source(): ArrowSource;
  /** `digest` reads what nobody has read of the body, and resolves to its SHA-256 in hexadecimal, decoded. */
  digestedSource(): { readonly source: ArrowSource; readonly digest: () => Promise<string> };
}

export interface Answer {
  readonly contentType: string | undefined;
  readonly text: string;
  /** What happened, for the audit record. */
  readonly audit?: AuditFacts;
}

/** Decides how large the body may be: chunks are written as they come, the others are held in memory as a whole. */
export type BodyKind = 'json' | 'arrow-whole' | 'arrow-chunks';

export interface PreparedRequest {
  readonly body: BodyKind;
  /** That the body is for; of Arrow bodies. */
  readonly table?: TableRef;
  answer(upload: Upload): Promise<Answer>;
}

export interface Route {
  readonly methods: readonly Method[];
  /** Below the base path, with `:id` for the identifier. */
  readonly path: string;
  /** Its bodies count as writes. */
  readonly isWrite?: true;
  /** Only there to say so. */
  readonly isNotOffered?: true;
  /** `InvalidInput`, `PermissionDenied`, `Unsupported`. */
  prepare(input: RouteInput): PreparedRequest;
}

/** Asks the policy about other objects than the request's own; without a branch, about main. */
export type Allows = (action: Action, resource: Resource, branch?: BranchName) => boolean;

export const jsonAnswer = (value: unknown, audit: AuditFacts = {}): Answer => ({
  contentType: 'application/json',
  text: JSON.stringify(value),
  audit,
});
export const emptyAnswer: Answer = { contentType: undefined, text: '' };

/** What a route's path can name, and what of it the policy is asked about. */

export interface TargetKind<Target> {
  /** `InvalidInput`. */
  parse(id: string, delimiter: string): Target;
  /** Undefined where only the operation can find out which table it is about: it must ask the policy itself. */
  resource(target: Target): Resource | undefined;
  /** The parts that a body's `id` must repeat. */
  parts(target: Target): readonly string[];
}

export const tableTarget: TargetKind<TableRef> = {
  parse: parseTableRef,
  resource: (table) => ({ kind: 'table', table }),
  parts: ({ namespace, name }) => [...namespace, name],
};

export const namespaceTarget: TargetKind<NamespacePath> = {
  parse: parseNamespacePath,
  resource: (path) => ({ kind: 'namespace', path }),
  parts: (path) => path,
};

/** Of paths without an id. */
export const rootTarget: TargetKind<NamespacePath> = { ...namespaceTarget, parse: () => [] };

export const transactionTarget: TargetKind<TransactionId> = {
  parse: parseTransactionId,
  resource: () => undefined,
  parts: (id) => [id],
};

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

/** Collects the facts for a request's audit record, which is made at its end. */

type Question = Omit<AccessRequest, 'principal'>;

export class AuditTrail {
  readonly #actions = new Set<string>();
  #question: Question | undefined;
  #isDenied = false;
  #facts: AuditFacts = {};

  /** The policy's decision on the request itself; not to be called for each object of a listing. */
  asked(question: Question, isAllowed: boolean): void {
    this.#actions.add(question.action);
    if (this.#question === undefined || !isAllowed) this.#question = question;
    if (!isAllowed) this.#isDenied = true;
  }

  note(facts: AuditFacts): void {
    this.#facts = { ...this.#facts, ...facts };
  }

  facts(refusal: LancegateError | undefined): AskedFacts {
    const actions = this.#actions.size === 0 ? undefined : [...this.#actions];
    return { decision: this.#decision(refusal), actions, ...objectOf(this.#question), ...this.#facts };
  }

  #decision(refusal: LancegateError | undefined): Decision {
    if (refusal?.kind === 'Unauthenticated') return 'unauthenticated';
    if (this.#isDenied || refusal?.kind === 'PermissionDenied') return 'denied';
    return this.#question === undefined ? 'not asked' : 'allowed';
  }
}

type AskedFacts = AuditFacts & Pick<AuditRecord, 'decision' | 'actions' | 'namespace' | 'table' | 'branch'>;

function objectOf(question: Question | undefined): Pick<AuditRecord, 'namespace' | 'table' | 'branch'> {
  if (question === undefined) return { namespace: undefined, table: undefined, branch: undefined };
  const { resource, branch = 'main' } = question;
  const { id } = resourceUid(resource);
  if (resource.kind === 'namespace') return { namespace: id, table: undefined, branch: undefined };
  return { namespace: undefined, table: id, branch };
}

/** Includes the id of a revoked or expired API key, since its secret was right. */
export function principalFacts(
  principal: Principal | undefined,
  refusal?: LancegateError,
): Pick<AuditRecord, 'subject' | 'issuer' | 'keyId'> {
  const refusedId = refusal?.internal?.keyId;
  const keyId = principal?.keyId ?? (typeof refusedId === 'string' ? refusedId : undefined);
  return { subject: principal?.subject, issuer: principal?.issuer, keyId };
}

/** To be called while the connection is open. */
export function sentFrom(
  { address, isReported }: ClientAddress,
  addresses: Pick<ClientAddresses, 'peer'>,
  { socket }: Pick<IncomingMessage, 'socket'>,
): Pick<AuditRecord, 'address' | 'proxy'> {
  return { address, proxy: isReported ? addresses.peer(socket).address : undefined };
}

export type RouteMethods = Pick<Route, 'methods' | 'path' | 'isNotOffered'>;

/**
 * The paths of a route, as the router finds them. Routes are letters, digits, slashes, `_` and `-`, but for a base path that
 * may have dots.
 */
export const pathPattern = (route: string): RegExp =>
  new RegExp(`^${route.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}/?$`);

/** By which methods a path is a route; none where it is no route at all, or one that is not offered by any method. */
export function methodFinder(routes: readonly RouteMethods[]): (path: string) => readonly Method[] {
  const offered = routes.filter(({ isNotOffered }) => !isNotOffered);
  const patterns = offered.map(({ methods, path }) => ({ methods, pattern: pathPattern(path) }));
  return (path) => [...new Set(patterns.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))];
}
