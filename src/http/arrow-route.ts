import Type, { type TProperties, type TSchema } from 'typebox';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { Action } from '../auth/policy/actions.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { BranchName, IdempotencyKey, TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { IdempotencyHeader } from '../operations/idempotency/idempotency.ts';
import type { AuditFacts } from '../telemetry/audit.ts';
import { idempotencyKeyHeader, parseIdempotencyKey, readDelimiter } from '../wire/identifiers.ts';
import { StringMap } from '../wire/json-body.ts';
import { contentDecoder } from './body/content-decoder.ts';
import { ArrowStream, arrowStreamType, commonParameters } from './openapi/description.ts';
import { headerText } from './request-head.ts';
import {
  type Access,
  jsonAnswer,
  type Offer,
  queryBranch,
  type Route,
  type RouteInput,
  tableTarget,
  type Upload,
} from './route.ts';

interface ArrowCall<Parameters> {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly parameters: Parameters;
  readonly source: ArrowSource;
  readonly idempotency: IdempotencyHeader | undefined;
  readonly scope: RequestScope;
  readonly access: Access;
}

interface ArrowAnswer {
  readonly fields: Readonly<Record<string, unknown>>;
  /** These fields answered an earlier request with the same `Idempotency-Key`; nothing was done now. */
  readonly isReplay: boolean;
  /** Facts for the audit record. */
  readonly audit: AuditFacts;
}

interface ArrowRoute<Operation, Query extends TProperties, Parameters> {
  readonly path: string;
  readonly action: Action;
  /** What it does, as a sentence without a full stop. */
  readonly summary: string;
  /** What `parameters` reads of the query; it can read nothing else. */
  readonly query: Query;
  /** The JSON that is sent. */
  readonly answers: TSchema;
  readonly body: 'arrow-whole' | 'arrow-chunks';
  /** As of `PreparedRequest`. */
  readonly makesTable?: true;
  /** What the query says; read, and refused, before the body. */
  parameters(input: RouteInput<Extract<keyof Query, string>>, branch: BranchName | undefined): Parameters;
  /** `mode` of the audit record. */
  mode(parameters: Parameters): string;
  /** Actions that these parameters need in addition to `action`; the policy decides before the body is read. */
  furtherActions(parameters: Parameters): readonly Action[];
  /** The fields of the answer, without the `context` that every answer of these routes has. */
  answer(operation: Operation, call: ArrowCall<Parameters>): Promise<ArrowAnswer>;
}

/** A route whose body is an Arrow IPC stream. */
export function arrowRoute<Operation, Query extends TProperties, Parameters>(
  make: Offer<Operation>['make'],
  route: ArrowRoute<Operation, Query, Parameters>,
): Offer<Operation> {
  const routeTo = (operation: Operation): Route => ({
    methods: ['POST'],
    path: route.path,
    isWrite: true,
    description: {
      operationId: route.action,
      summary: route.summary,
      parameters: { ...route.query, ...commonParameters(true) },
      bodies: { [arrowStreamType]: ArrowStream },
      answers: route.answers,
      takesKey: true,
    },
    prepare(input) {
      const { query, headers, scope, access, context } = input;
      const table = tableTarget.parse(input.id, readDelimiter(query), input.database);
      const resource = { kind: 'table', table } as const;
      const branch = queryBranch(input);
      access.require(route.action, resource, branch);
      const parameters = route.parameters(input, branch);
      context.note({ mode: route.mode(parameters) });
      for (const action of route.furtherActions(parameters)) access.require(action, resource, branch);
      refuseOtherTypes(headers['content-type']);
      contentDecoder(headers['content-encoding']);
      const key = parseIdempotencyKey(headerText(headers[idempotencyKeyHeader]));
      return {
        body: route.body,
        table,
        owned: table,
        makesTable: route.makesTable,
        answer: async (upload) => {
          const { source, idempotency } = openBody(upload, key);
          try {
            const call = { table, branch, parameters, source, idempotency, scope, access };
            const { fields, isReplay, audit } = await route.answer(operation, call);
            if (isReplay) context.setHeader('idempotency-replayed', 'true');
            const answer = { ...fields, context: contextFields(context.headersSet()) };
            return jsonAnswer(answer, isReplay ? { ...audit, isReplay } : audit);
          } finally {
            source.close();
          }
        },
      };
    },
  });
  return { make, routeTo };
}

/** A body is digested only for a key: it costs half a millisecond per megabyte. */
function openBody(upload: Upload, key: IdempotencyKey | undefined) {
  if (key === undefined) return { source: upload.source(), idempotency: undefined };
  const { source, digest } = upload.digestedSource();
  return { source, idempotency: { key, bodyDigest: digest } };
}

/** The schema of an answer: its fields, and the `context` that every answer of these routes has. */
export const arrowAnswer = <Fields extends TProperties>(fields: Fields) =>
  Type.Object({ ...fields, context: StringMap });

/** `context` of an answer: its own headers, as the specification's context mapping has them (docs/protocol.md). */
const contextFields = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [`header.${name}`, value]));

/** Half of the clients send no type at all, so only a type that says the body is something else is refused. */
function refuseOtherTypes(contentType: string | undefined): void {
  const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const isOther = /^(application\/(.*\+)?json|multipart\/.*|application\/x-www-form-urlencoded|text\/(html|csv))$/;
  if (!isOther.test(mediaType)) return;
  throw invalidInput('content-type: the body must be an Arrow IPC stream, application/vnd.apache.arrow.stream');
}
