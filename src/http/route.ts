/**
 * What a route is. It is called twice: `prepare` when the headers are there and who asks is known, before one byte of the
 * body is read; what it returns answers then, with the body. Everything Fastify stops here.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { AccessRequest, Action, Resource } from '../auth/policy/actions.ts';
import type { BranchName, TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { AuditFacts } from '../telemetry/audit.ts';
import type { QueryParameters } from '../wire/query-parameters.ts';
import type { AuditTrail } from './audit-trail.ts';

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
