/**
 * What a route is, and what it works with. The pipeline calls a route twice: `prepare` when the headers have arrived and the
 * principal is known, before one byte of the body is read; what that returns answers then, with the body. No type of Fastify
 * comes further than the pipeline.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import { PermissionDeniedError } from '../auth/challenge.ts';
import type { Action, Policy, Resource } from '../auth/policy/actions.ts';
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
import type { RowFormat } from '../rows/answer-form.ts';
import type { AuditFacts, AuditRecord } from '../telemetry/audit.ts';
import { parseBranch, parseNamespacePath, parseTableRef, parseTransactionId } from '../wire/identifiers.ts';
import type { NameCheck } from '../wire/known-names.ts';
import type { ReadFilter } from '../wire/merge-parameters.ts';
import type { QueryOf } from '../wire/query-parameters.ts';
import type { UploadedParts } from './body/multipart.ts';
import type { Database } from './database.ts';
import type { RouteDescription } from './description.ts';

export type Method = 'GET' | 'POST';

export interface Route {
  readonly methods: readonly Method[];
  /** It is below the base path, with `:id` for the identifier. */
  readonly path: string;
  /** Its bodies count as writes. */
  readonly isWrite?: true;
  /** Only there to say so. */
  readonly isNotOffered?: true;
  /** What the document of the service says of it; undefined for one that it does not have. */
  readonly description?: RouteDescription;
  /** `InvalidInput`, `PermissionDenied`, `Unsupported`. */
  prepare(input: RouteInput<string>): PreparedRequest;
}

/** A route stands with what makes the operation that it calls. */
export interface Offer<Make extends MakesOperation> {
  readonly make: Make;
  readonly routeTo: (operation: ReturnType<Make>) => Route;
}

/** Makes an operation of what it takes from the service. */
export type MakesOperation = (deps: never) => unknown;

/** The principal of the request is known, and nothing else yet; its route declares the query parameters `Name`. */
export interface RouteInput<Name extends string = never> {
  readonly method: Method;
  /** It is decoded; empty on paths without an id. */
  readonly id: string;
  /** It is decoded; empty on paths without an index. */
  readonly index: string;
  readonly query: QueryOf<Name | 'delimiter' | 'branch'>;
  readonly database: Database;
  readonly headers: IncomingHttpHeaders;
  /** The LanceDB SDKs end their paths in a slash, the Lance namespace clients do not. */
  readonly hasTrailingSlash: boolean;
  readonly scope: RequestScope;
  readonly access: Access;
  /** Reads an SQL condition of a client's, with the functions that the operator allows. */
  readonly readFilter: ReadFilter;
  /** The names of the query string have been checked. */
  readonly checkNames: NameCheck;
  readonly context: AnswerHead;
}

/** What a route can say of its answer before that is there. */
export interface AnswerHead {
  /** Returns the headers that this service has set so far. */
  headersSet(): Readonly<Record<string, string>>;
  setHeader(name: string, value: string): void;
  /** Adds facts to the audit record. */
  note(facts: AuditFacts): void;
}

export interface PreparedRequest {
  readonly body: BodyKind;
  /** An Arrow body takes of the share of this table in memory and writes. */
  readonly table?: TableRef;
  /** Only the replica that owns this table can answer. */
  readonly owned?: TableRef | undefined;
  /** It makes a table of the name `owned`. Any other request is answered here where nothing has that name: it finds no table. */
  readonly makesTable?: boolean | undefined;
  /** Where the body decides what the policy is asked: reads it, asks, and returns what answers. `PermissionDenied`. */
  readonly ask?: ((upload: Upload) => Promise<AllowedRequest>) | undefined;
  /** Each replica knows a part of the answer. */
  readonly everywhere?: Everywhere | undefined;
  answer(upload: Upload): Promise<Answer>;
}

export interface AllowedRequest {
  readonly text: string;
  answer(): Promise<Answer>;
}

/** Makes one answer of what this replica says, or refuses, and what the others say: only those that can be reached. */
export type Everywhere = (
  own: () => Promise<Answer>,
  others: () => Promise<readonly ForwardedAnswer[]>,
) => Promise<Answer>;

/** Decides how large the body may be: chunks are written as they come, the others are held in memory as a whole. */
export type BodyKind = 'json' | 'arrow-whole' | 'arrow-chunks';

/** The body is read in one of four ways, once. */
export interface Upload {
  /** The text is decoded; `BodyTooLarge` beyond the limit of JSON bodies. */
  text(): Promise<string>;
  /** A body that is no Arrow has a `format`. */
  source(format?: RowFormat): ArrowSource;
  /**
   * Gives what `source` does, and `digest`, which reads the rest of the body, and resolves to the SHA-256 of the whole in
   * hexadecimal, decoded.
   */
  digestedSource(format?: RowFormat): { readonly source: ArrowSource; readonly digest: () => Promise<string> };
  /** The body is multipart. */
  parts(boundary: string): UploadedParts;
}

export type Answer = TextAnswer | BytesAnswer | ForwardedAnswer;

interface TextAnswer {
  readonly contentType: string | undefined;
  readonly text: string;
  /** It says what happened, for the audit record. */
  readonly audit?: AuditFacts;
}

export interface BytesAnswer {
  readonly contentType: string;
  /**
   * They are all there, or come as they are computed: until the last one has left, the deadline and the client's leaving end
   * the work.
   */
  readonly bytes: Uint8Array | AsyncIterable<Uint8Array>;
  /** It says what happened, once the last byte has left. */
  readonly audit: () => AuditFacts;
}

/** Another replica gave it; it may be a refusal. */
export interface ForwardedAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  readonly audit: AuditFacts;
}

export const jsonAnswer = (value: unknown, audit: AuditFacts = {}): TextAnswer => ({
  contentType: 'application/json',
  text: JSON.stringify(value),
  audit,
});
export const emptyAnswer: Answer = { contentType: undefined, text: '' };

/** What a route's path can name, and what of it the policy is asked about. */
export interface TargetKind<Target> {
  /** `InvalidInput`. */
  parse(id: string, delimiter: string, database: Database): Target;
  /** Undefined where only the operation can find out which table it is about: it must ask the policy itself. */
  resource(target: Target): Resource | undefined;
  /** Returns the parts that a body's `id` must repeat, as the request calls them. */
  parts(target: Target, database: Database): readonly string[];
}

export const tableTarget: TargetKind<TableRef> = {
  parse: (id, delimiter, database) => database.table(parseTableRef(id, delimiter)),
  resource: (table) => ({ kind: 'table', table }),
  parts: ({ namespace, name }, database) => [...database.shownNamespace(namespace), name],
};

export const namespaceTarget: TargetKind<NamespacePath> = {
  parse: (id, delimiter, database) => database.namespace(parseNamespacePath(id, delimiter)),
  resource: (path) => ({ kind: 'namespace', path }),
  parts: (path, database) => database.shownNamespace(path),
};

/** The target of paths without an id. */
export const rootTarget: TargetKind<NamespacePath> = {
  ...namespaceTarget,
  parse: (_id, _delimiter, { path }) => path,
};

export const transactionTarget: TargetKind<TransactionId> = {
  parse: parseTransactionId,
  resource: () => undefined,
  parts: (id) => [id],
};

/** The target of paths without an id, where only the operation finds out what the request is about. */
export const noTarget: TargetKind<undefined> = {
  parse: () => undefined,
  resource: () => undefined,
  parts: () => [],
};

export const queryBranch = ({ query }: RouteInput): BranchName | undefined =>
  query.one('branch', (text) => parseBranch(text));

/** A branch is honoured or refused, never ignored: a client would otherwise change another branch than it meant. */
export function refuseBranch(branch: BranchName | undefined): void {
  if (branch !== undefined) throw invalidInput('branch: this operation works on main only');
}

/**
 * What the policy allows the principal of one request, and what the audit record has of it. Without a branch, a question is
 * about main.
 */
export class Access {
  readonly principal: Principal;
  readonly #policy: Policy;
  readonly #actions = new Set<string>();
  /** What the first question was about, or the last one that the policy denied. */
  #asked: Pick<AuditRecord, 'namespace' | 'table' | 'branch'> | undefined;
  #isDenied = false;
  #database: Database | undefined;

  constructor(policy: Policy, principal: Principal) {
    this.#policy = policy;
    this.principal = principal;
  }

  /** Refusals name objects as the request does: they would say otherwise that there is such a database. */
  showIn(database: Database): void {
    this.#database = database;
  }

  /** Asks about another object than the request's own, such as one of a listing. */
  allows(action: Action, resource: Resource, branch?: BranchName): boolean {
    return this.#policy.allows({ principal: this.principal, action, resource, branch });
  }

  /** Asks for a right that the request itself needs: the audit record has the decision. */
  needs(action: Action, resource: Resource, branch?: BranchName): boolean {
    const isAllowed = this.allows(action, resource, branch);
    this.#actions.add(action);
    if (this.#asked === undefined || !isAllowed) this.#asked = factsOf(resource, branch);
    if (!isAllowed) this.#isDenied = true;
    return isAllowed;
  }

  /** `PermissionDenied`, whose text repeats only what the caller sent, and the scope that the default policies require. */
  require(action: Action, resource: Resource, branch?: BranchName): void {
    if (this.needs(action, resource, branch)) return;
    const shown = showResource(resource, this.#database);
    const object = branch === undefined ? shown : `branch '${branch}' of ${shown}`;
    throw new PermissionDeniedError(`${action} on ${object} is not allowed`, this.#policy.scopeFor(action));
  }

  facts(): Pick<AuditRecord, 'decision' | 'actions' | 'namespace' | 'table' | 'branch'> {
    if (this.#asked === undefined) return nothingAsked;
    return { decision: this.#isDenied ? 'denied' : 'allowed', actions: [...this.#actions], ...this.#asked };
  }
}

/** Which branches of a table a principal may know of. */
export const visibleTo =
  (access: Pick<Access, 'allows'>, table: TableRef) =>
  (branch: BranchName | undefined): boolean =>
    access.allows('DescribeTable', { kind: 'table', table }, branch);

/** No policy has decided the request. */
export const nothingAsked = {
  decision: 'not asked',
  actions: undefined,
  namespace: undefined,
  table: undefined,
  branch: undefined,
} as const;

/** How an audit record names what a request is about. */
export function factsOf(resource: Resource, branch: BranchName | undefined) {
  const { id } = resourceUid(resource);
  if (resource.kind === 'namespace') return { namespace: id, table: undefined, branch: undefined };
  return { namespace: undefined, table: id, branch: branch ?? 'main' };
}

function showResource(resource: Resource, database: Database | undefined): string {
  if (resource.kind === 'table') return `table '${showTable(database?.shown(resource.table) ?? resource.table)}'`;
  return `namespace '${showNamespace(database?.shownNamespace(resource.path) ?? resource.path)}'`;
}

/** Includes the id of a revoked or expired API key, since its secret was right. */
export function principalFacts(
  principal: Principal | undefined,
  refusal?: LancegateError,
): Pick<AuditRecord, 'subject' | 'issuer' | 'keyId' | 'vouchedBy'> {
  const refusedId = refusal?.internal?.keyId;
  const keyId = principal?.keyId ?? (typeof refusedId === 'string' ? refusedId : undefined);
  return { subject: principal?.subject, issuer: principal?.issuer, keyId, vouchedBy: principal?.vouchedBy };
}

export type RouteMethods = Pick<Route, 'methods' | 'path' | 'isNotOffered'>;

/**
 * Matches the paths of a route, as the router does. Routes are letters, digits, slashes, `_` and `-`, but for a base path that
 * may have dots.
 */
export const pathPattern = (route: string): RegExp =>
  new RegExp(`^${route.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}/?$`);

/**
 * Returns the methods by which a path is a route, HEAD with GET; none where it is no route at all, or one that is not offered
 * by any method.
 */
export function methodFinder(routes: readonly RouteMethods[]): (path: string) => readonly string[] {
  const offered = routes.filter(({ isNotOffered }) => !isNotOffered);
  const withHead = (methods: readonly Method[]) =>
    methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method));
  const patterns = offered.map(({ methods, path }) => ({ methods: withHead(methods), pattern: pathPattern(path) }));
  return (path) => [...new Set(patterns.filter(({ pattern }) => pattern.test(path)).flatMap(({ methods }) => methods))];
}

/** Node joins repeated headers of most names, or drops all but the first; the type does not say so. */
export const headerText = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value.join(', ') : value;

export const headerTexts = (headers: RouteInput['headers']): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, headerText(value)]));
