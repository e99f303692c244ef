import { createHash, type Hash } from 'node:crypto';
import Type, { type TProperties, type TSchema } from 'typebox';
import { type Schema, typeName } from '../arrow/schema/schema.ts';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { Action } from '../auth/policy/actions.ts';
import type { IdempotencyHeader } from '../idempotency/idempotency.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { BranchName, IdempotencyKey, TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import { type RowFormat, textTypes } from '../rows/answer-form.ts';
import { bodyFormatOf } from '../rows/bodies/row-conversion.ts';
import type { AuditFacts } from '../telemetry/audit.ts';
import { idempotencyKeyHeader, parseIdempotencyKey, readDelimiter } from '../wire/identifiers.ts';
import { StringMap } from '../wire/json-body.ts';
import type { NameCheck } from '../wire/known-names.ts';
import { contentDecoder } from './body/decoded-body.ts';
import { type BodyPart, boundaryOf, isMultipart, type UploadedParts } from './body/multipart.ts';
import { ArrowStream, arrowStreamType, commonParameters } from './description.ts';
import {
  type Access,
  headerText,
  jsonAnswer,
  type MakesOperation,
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
  /** `PermissionDenied` where the policy does not allow the action on this table and branch. */
  readonly requireAction: (action: Action) => void;
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
  /**
   * The body may be multipart, with parameters that are too long for a URL before the stream. Then only `action` is asked for before
   * the body is read, and the rest before the stream is.
   */
  readonly takesParts?: true;
  /** What the query says; read, and refused, before the body. */
  parameters(input: RouteInput<Extract<keyof Query, string>>, branch: BranchName | undefined): Parameters;
  /** `mode` of the audit record. */
  mode(parameters: Parameters): string;
  /** Actions that these parameters need in addition to `action`; the policy decides before the body is read. */
  furtherActions(parameters: Parameters): readonly Action[];
  /** The fields of the answer, without the `context` that every answer of these routes has. */
  answer(operation: Operation, call: ArrowCall<Parameters>): Promise<ArrowAnswer>;
}

const rowBodies = {
  [textTypes.json]: Type.Array(Type.Record(Type.String(), Type.Unknown())),
  [textTypes.ndjson]: Type.String(),
  [textTypes.csv]: Type.String(),
};

/** A route whose body is rows: an Arrow IPC stream, or a text that becomes one. */
export function arrowRoute<Make extends MakesOperation, Query extends TProperties, Parameters>(
  make: Make,
  route: ArrowRoute<ReturnType<Make>, Query, Parameters>,
): Offer<Make> {
  const routeTo = (operation: ReturnType<Make>): Route => ({
    methods: ['POST'],
    path: route.path,
    isWrite: true,
    description: {
      operationId: route.action,
      summary: route.summary,
      parameters: { ...route.query, ...commonParameters(true) },
      bodies: {
        ...rowBodies,
        [arrowStreamType]: ArrowStream,
        ...(route.takesParts && {
          'multipart/form-data': Type.Object({
            ...Type.Partial(Type.Object(route.query)).properties,
            rows: ArrowStream,
          }),
        }),
      },
      answers: route.answers,
      takesKey: true,
    },
    prepare(input) {
      const { query, headers, access } = input;
      const table = tableTarget.parse(input.id, readDelimiter(query), input.database);
      const branch = queryBranch(input);
      access.require(route.action, { kind: 'table', table }, branch);
      const type = headers['content-type'];
      const boundary = route.takesParts === true && isMultipart(type) ? boundaryOf(type) : undefined;
      const asked = boundary === undefined ? allowedParameters(route, input, { table, branch }) : undefined;
      const format = boundary === undefined ? bodyFormatOf(type) : undefined;
      if (boundary === undefined && format === undefined) refuseOtherTypes(type);
      contentDecoder(headers['content-encoding']);
      const key = parseIdempotencyKey(headerText(headers[idempotencyKeyHeader]));
      return {
        body: route.body,
        table,
        owned: table,
        makesTable: route.makesTable,
        answer: async (upload) => {
          const body =
            boundary === undefined
              ? openBody(upload, key, format)
              : await openParts(upload, boundary, route.query, key, input.checkNames);
          try {
            const parameters = asked ?? allowedParameters(route, withParts(input, body.parameters), { table, branch });
            const { source, idempotency } = body;
            const requireAction = (action: Action) => access.require(action, { kind: 'table', table }, branch);
            const call = { table, branch, parameters, source, idempotency, scope: input.scope, access, requireAction };
            const { fields, isReplay, audit } = await route.answer(operation, call);
            if (isReplay) input.context.setHeader('idempotency-replayed', 'true');
            const columns = format && !isReplay && { columns: columnsIn(await source.schema()) };
            // `context` of an answer: its own headers, as the specification's context mapping has them
            // (docs/protocol.md).
            const answer = {
              ...fields,
              ...columns,
              context: Object.fromEntries(
                Object.entries(input.context.headersSet()).map(([name, value]) => [`header.${name}`, value]),
              ),
            };
            return jsonAnswer(answer, isReplay ? { ...audit, isReplay } : audit);
          } finally {
            body.close();
          }
        },
      };
    },
  });
  return { make, routeTo };
}

/** What the request asks for. `PermissionDenied` where the policy does not allow all of it. */
function allowedParameters<Query extends TProperties, Parameters>(
  route: Pick<ArrowRoute<never, Query, Parameters>, 'parameters' | 'mode' | 'furtherActions'>,
  input: RouteInput<string>,
  { table, branch }: Pick<ArrowCall<never>, 'table' | 'branch'>,
): Parameters {
  const parameters = route.parameters(input, branch);
  input.context.note({ mode: route.mode(parameters) });
  for (const action of route.furtherActions(parameters)) input.access.require(action, { kind: 'table', table }, branch);
  return parameters;
}

interface OpenedBody {
  readonly source: ArrowSource;
  readonly idempotency: IdempotencyHeader | undefined;
  /** Those that came as parts of the body. */
  readonly parameters: ReadonlyMap<string, string>;
  close(): void;
}

/** A body is digested only for a key: it costs half a millisecond per megabyte. */
function openBody(upload: Upload, key: IdempotencyKey | undefined, format: RowFormat | undefined): OpenedBody {
  const { source, digest } =
    key === undefined ? { source: upload.source(format), digest: undefined } : upload.digestedSource(format);
  const idempotency = key && digest && { key, bodyDigest: digest };
  return { source, idempotency, parameters: new Map(), close: () => source.close() };
}

/** Parts with the names of parameters, as texts, and then the stream, whatever it is called. */
async function openParts(
  upload: Upload,
  boundary: string,
  query: TProperties,
  key: IdempotencyKey | undefined,
  checkNames: NameCheck,
): Promise<OpenedBody> {
  const parts = upload.parts(boundary);
  try {
    const { parameters, rows } = await readTexts(parts, query, checkNames);
    const digest = createHash('sha256');
    const bytes = lastPart(rows, parts, key && digest);
    const source = parts.source({ ...rows, bytes });
    const close = (): void => {
      source.close();
      parts.close();
    };
    const bodyDigest = async (): Promise<string> => {
      for await (const _ of bytes);
      return digest.copy().digest('hex'); // of the rows alone: another boundary makes no other request
    };
    return { source, idempotency: key && { key, bodyDigest }, parameters, close };
  } catch (error) {
    parts.close();
    throw error;
  }
}

/** Up to the rows: the first part that is no parameter, and is a file or has a type of its own. */
async function readTexts(parts: UploadedParts, query: TProperties, checkNames: NameCheck) {
  const parameters = new Map<string, string>();
  for (let part = await parts.next(); part !== undefined; part = await parts.next()) {
    const { name, fileName, type = 'text/plain' } = part;
    if (!Object.hasOwn(query, name) && (fileName !== undefined || type !== 'text/plain'))
      return { parameters, rows: part };
    checkNames([name], query, '');
    if (parameters.has(name)) throw invalidInput(`part ${name}: two parts have this name`);
    parameters.set(name, await parts.text(part));
  }
  throw invalidInput('the body has no part with the rows');
}

async function* lastPart(part: BodyPart, parts: UploadedParts, digest: Hash | undefined) {
  for await (const piece of part.bytes) {
    digest?.update(piece);
    yield piece;
  }
  const next = await parts.next();
  if (next !== undefined) throw invalidInput(`part ${next.name}: the rows are the last part`);
}

/** A parameter is in the query or in the body. */
function withParts(input: RouteInput<string>, parts: ReadonlyMap<string, string>): RouteInput<string> {
  const { query } = input;
  const inBody = (name: string): boolean => parts.has(name) && !query.has(name);
  for (const name of parts.keys()) {
    if (query.has(name)) throw invalidInput(`${name}: the query and the body both have it`);
  }
  const text = (name: string) => (inBody(name) ? parts.get(name) : query.text(name));
  return {
    ...input,
    query: {
      has: (name) => query.has(name) || parts.has(name),
      all: (name) => (inBody(name) ? [parts.get(name) ?? ''] : query.all(name)),
      one: (name, parse) => (inBody(name) ? parse(parts.get(name)) : query.one(name, parse)),
      text,
    },
  };
}

/** The schema of an answer: its fields, and the `context` that every answer of these routes has. */
export const arrowAnswer = <Fields extends TProperties>(fields: Fields) =>
  Type.Object({ ...fields, columns: Type.Optional(Type.Array(Column)), context: StringMap });

/** What was taken for the columns of rows that were no Arrow. */
const Column = Type.Object({ name: Type.String(), type: Type.String() });
const columnsIn = ({ fields }: Schema) => fields.map((field) => ({ name: field.name, type: typeName(field) }));

/** Half of the clients send no type at all, so only a type that says the body is something else is refused. */
function refuseOtherTypes(contentType: string | undefined): void {
  const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const isOther =
    /^(application\/(.*\+json|vnd\.apache\.parquet)|multipart\/.*|application\/x-www-form-urlencoded|text\/html)$/;
  if (!isOther.test(mediaType)) return;
  throw invalidInput(
    'content-type: rows come as application/vnd.apache.arrow.stream, application/json, application/x-ndjson or text/csv',
  );
}
