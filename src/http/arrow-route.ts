import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { Action } from '../auth/policy/actions.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { BranchName, IdempotencyKey, TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { IdempotencyHeader } from '../operations/idempotency/idempotency.ts';
import type { AuditFacts } from '../telemetry/audit.ts';
import { idempotencyKeyHeader, parseIdempotencyKey, readDelimiter } from '../wire/identifiers.ts';
import type { QueryParameters } from '../wire/query-parameters.ts';
import { contentDecoder } from './body/request-body.ts';
import { headerText } from './request-head.ts';
import { authorize, jsonAnswer, queryBranch, type Route, tableTarget, type Upload } from './route.ts';

export interface ArrowCall<Parameters> {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly parameters: Parameters;
  readonly source: ArrowSource;
  readonly idempotency: IdempotencyHeader | undefined;
  readonly scope: RequestScope;
}

export interface ArrowAnswer {
  readonly fields: Readonly<Record<string, unknown>>;
  /** These fields answered an earlier request with the same `Idempotency-Key`; nothing was done now. */
  readonly isReplay: boolean;
  /** Facts for the audit record. */
  readonly audit: AuditFacts;
}

export interface ArrowRoute<Parameters> {
  readonly path: string;
  readonly action: Action;
  readonly body: 'arrow-whole' | 'arrow-chunks';
  /** What the query says; read, and refused, before the body. */
  parameters(query: QueryParameters, branch: BranchName | undefined): Parameters;
  /** `mode` of the audit record. */
  mode(parameters: Parameters): string;
  /** Actions that these parameters need in addition to `action`; the policy decides before the body is read. */
  furtherActions(parameters: Parameters): readonly Action[];
  /** The fields of the answer, without the `context` that every answer of these routes has. */
  answer(call: ArrowCall<Parameters>): Promise<ArrowAnswer>;
}

/** A route whose body is an Arrow IPC stream. */
export function arrowRoute<Parameters>(route: ArrowRoute<Parameters>): Route {
  return {
    methods: ['POST'],
    path: route.path,
    isWrite: true,
    prepare(input) {
      const { query, headers, scope } = input;
      const table = tableTarget.parse(input.id, readDelimiter(query));
      const branch = queryBranch(input);
      authorize(input, route.action, { kind: 'table', table }, branch);
      const parameters = route.parameters(query, branch);
      input.trail.note({ mode: route.mode(parameters) });
      for (const action of route.furtherActions(parameters)) authorize(input, action, { kind: 'table', table }, branch);
      refuseOtherTypes(headers['content-type']);
      contentDecoder(headers['content-encoding']);
      const key = parseIdempotencyKey(headerText(headers[idempotencyKeyHeader]));
      return {
        body: route.body,
        table,
        answer: async (upload) => {
          const { source, idempotency } = openBody(upload, key);
          try {
            const call = { table, branch, parameters, source, idempotency, scope };
            const { fields, isReplay, audit } = await route.answer(call);
            if (isReplay) input.setHeader('idempotency-replayed', 'true');
            const context = contextOf(input.headersSet());
            return jsonAnswer({ ...fields, context }, isReplay ? { ...audit, isReplay } : audit);
          } finally {
            source.close();
          }
        },
      };
    },
  };
}

/** A body is digested only for a key: it costs half a millisecond per megabyte. */
function openBody(upload: Upload, key: IdempotencyKey | undefined) {
  if (key === undefined) return { source: upload.source(), idempotency: undefined };
  const { source, digest } = upload.digestedSource();
  return { source, idempotency: { key, bodyDigest: digest } };
}

/** `context` of an answer: its own headers, as the specification's context mapping has them (docs/protocol.md). */
const contextOf = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [`header.${name}`, value]));

/** Half of the clients send no type at all, so only a type that says the body is something else is refused. */
function refuseOtherTypes(contentType: string | undefined): void {
  const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const isOther = /^(application\/(.*\+)?json|multipart\/.*|application\/x-www-form-urlencoded|text\/(html|csv))$/;
  if (!isOther.test(mediaType)) return;
  throw invalidInput('content-type: the body must be an Arrow IPC stream, application/vnd.apache.arrow.stream');
}
