import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import Type, { type Static, type TObject, type TProperties, type TSchema } from 'typebox';
import type { Action, Resource } from '../auth/policy/actions.ts';
import {
  answeredOnce,
  type IdempotencyHeader,
  type MakesUnkeyed,
  type RepeatableOperation,
} from '../idempotency/idempotency.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { BranchName, IdempotencyKey, TableRef, TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { AskedBounds } from '../kernel/write-bounds.ts';
import type { AuditFacts } from '../telemetry/audit.ts';
import { boundParameters, readBounds } from '../wire/bound-parameters.ts';
import { idempotencyKeyHeader, parseBranch, parseIdempotencyKey, readDelimiter } from '../wire/identifiers.ts';
import { BodyReader, Version } from '../wire/json-body.ts';
import { jsonDescription } from './description.ts';
import {
  type AllowedRequest,
  type Answer,
  type Everywhere,
  headerText,
  jsonAnswer,
  type MakesOperation,
  type Offer,
  queryBranch,
  type Route,
  type RouteInput,
  refuseBranch,
  type TargetKind,
  tableTarget,
  type Upload,
} from './route.ts';

interface JsonCall<Target, Body> {
  readonly target: Target;
  readonly body: Body;
  /** The body or the query names it; undefined is main. */
  readonly branch: BranchName | undefined;
  readonly delimiter: string;
  /** The key of the request, on routes that take one. */
  readonly idempotency: IdempotencyHeader | undefined;
}

interface JsonRoute<Operation, Target, Query extends TProperties, Body extends TObject, Value> {
  /** `POST` alone if absent. */
  readonly methods?: Route['methods'];
  readonly path: string;
  readonly target: TargetKind<Target>;
  readonly action: Action;
  /** What it does, as a sentence without a full stop. */
  readonly summary: string;
  /** Where it is not the action's name. */
  readonly operationId?: string;
  /** What `answer` reads of the query; it can read nothing else. */
  readonly query?: Query;
  /** `Nothing` where the body has no fields of its own. */
  readonly body: Body;
  /** The body needs these in addition to `action`, on main. */
  readonly furtherActions?: (body: Static<Body>) => readonly Action[];
  /** Returns every branch that the request touches; without it the route knows main only. */
  readonly branches?: (body: Static<Body>, branch: BranchName | undefined) => readonly (BranchName | undefined)[];
  /** It changes rows or columns of a table, and answers each key once, of either header of `KeyedBy`. */
  readonly isWrite?: true;
  /** It changes something else, and answers each key once. Only the owner of its table can answer it, or one that `isWrite`. */
  readonly keyedBy?: KeyedBy;
  /** See `PreparedRequest`. */
  readonly makesTable?: true;
  readonly everywhere?: Everywhere;
  /** The audit record has these facts of the body. */
  readonly audit?: (body: Static<Body>) => AuditFacts;
  /** It describes the JSON that is sent, or the bytes of another type; undefined for nothing. */
  readonly answers: TSchema | undefined;
  /** A client may ask for answers of these types. */
  readonly otherAnswers?: readonly TSchema[];
  answer(
    operation: Operation,
    call: JsonCall<Target, Static<Body>>,
    input: RouteInput<Extract<keyof Query, string>>,
  ): Promise<Value>;
  /** Without it the value is sent as JSON. */
  readonly render?: (value: Value) => Answer;
}

type NoQuery = Record<never, TSchema>;

/** What of a route the reading of its body goes by. */
type RouteOfBody = 'action' | 'target' | 'furtherActions' | 'branches' | 'audit';

export const Nothing = Type.Object({});

/**
 * Makes a route whose request and answer are JSON.
 *
 * The policy decides before the body is read, but for routes that know branches. There the body names the branch, and a question
 * about main first would lock out a principal that may work on a branch only. Such a route reads the body (bounded) of anyone with
 * a valid credential, and asks before it looks up anything; so a client that is refused has learned only whether its JSON is
 * well-formed. Until then no other replica hears of the request.
 */
export function jsonRoute<
  Make extends MakesOperation,
  Target,
  Body extends TObject,
  Value,
  Query extends TProperties = NoQuery,
>(make: Make, route: JsonRoute<ReturnType<Make>, Target, Query, Body, Value>): Offer<Make> {
  const { methods = ['POST'], path, isWrite, render = jsonAnswer } = route;
  const keyedBy = route.keyedBy ?? (isWrite && 'Idempotency-Key or x-request-id');
  const description = jsonDescription({
    ...route,
    knowsBranches: route.branches !== undefined,
    takesKey: keyedBy !== undefined,
  });
  const bodies = new BodyReader(route.body);
  const routeTo = (operation: ReturnType<Make>): Route => ({
    methods,
    path,
    description,
    ...(isWrite && { isWrite }),
    prepare(input) {
      const delimiter = readDelimiter(input.query);
      const target = route.target.parse(input.id, delimiter, input.database);
      const inQuery = queryBranch(input);
      const resource = route.target.resource(target);
      if (route.branches === undefined) {
        refuseBranch(inQuery);
        authorize(input, route.action, resource, [undefined]);
      }
      const ask = async (upload: Upload): Promise<AllowedRequest> => {
        const { text, body, branch } = await readBody(route, bodies, { input, target, inQuery, upload });
        const answer = async (): Promise<Answer> => {
          const idempotency = keyedBy && repeatOf(input.headers, `${path} ${text}`, keyedBy);
          return render(await route.answer(operation, { target, body, branch, delimiter, idempotency }, input));
        };
        return { text, answer };
      };
      return {
        body: 'json',
        owned: keyedBy && resource?.kind === 'table' ? resource.table : undefined,
        makesTable: route.makesTable,
        everywhere: route.everywhere,
        ask: route.branches && ask,
        answer: async (upload) => (await ask(upload)).answer(),
      };
    },
  });
  return { make, routeTo };
}

interface Received<Target> {
  readonly input: RouteInput;
  readonly target: Target;
  readonly inQuery: BranchName | undefined;
  readonly upload: Upload;
}

async function readBody<Target, Body extends TObject>(
  route: Pick<JsonRoute<never, Target, NoQuery, Body, never>, RouteOfBody>,
  bodies: BodyReader<Body>,
  { input, target, inQuery, upload }: Received<Target>,
) {
  const text = await upload.text();
  const body = bodies.parse(text, route.target.parts(target, input.database), input.checkNames);
  if (route.audit !== undefined) input.context.note(route.audit(body));
  const branch = oneBranch(inQuery, parseBranch(body.branch));
  const resource = route.target.resource(target);
  if (route.branches === undefined) refuseBranch(branch);
  else authorize(input, route.action, resource, route.branches(body, branch));
  for (const action of route.furtherActions?.(body) ?? []) authorize(input, action, resource, [undefined]);
  return { text, body, branch };
}

interface WriteResult {
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly numInsertedRows: number;
  readonly numUpdatedRows: number;
  readonly numDeletedRows: number;
  readonly isReplay: boolean;
  readonly isDryRun?: true;
}

/** The fields of every write's answer. */
export const writtenFields = { version: Version, transaction_id: Type.String() };

/** Those of one that may be a dry run, which makes no transaction. */
export const boundedFields = {
  version: Version,
  transaction_id: Type.Optional(Type.String()),
  dry_run: Type.Optional(Type.Literal(true)),
};

interface WriteRoute<Command, Result, Body extends TObject>
  extends Pick<JsonRoute<never, TableRef, NoQuery, Body, never>, 'path' | 'action' | 'summary' | 'body'> {
  /** Makes the command. The body says what is to be changed; path, query and headers say on which branch, and under which key. */
  command(body: Static<Body>, on: WrittenBranch, input: RouteInput): Command;
  /** What the answer has besides the version and the transaction; nothing if absent. */
  readonly answers?: TProperties;
  /** It may be a dry run, and has a `max_deleted`. */
  readonly isBounded?: true;
  fields?(result: Result, input: RouteInput): Readonly<Record<string, unknown>>;
}

interface WrittenBranch extends Pick<JsonCall<TableRef, never>, 'branch' | 'idempotency'> {
  readonly table: TableRef;
  readonly bounds?: AskedBounds;
}

/** Makes the route of an operation that changes one branch of a table, and answers with the version that it made. */
export const writeRoute = <Deps, Command, Result extends WriteResult, Body extends TObject>(
  make: (deps: Deps) => (command: Command, scope: RequestScope) => Promise<Result>,
  { command, answers, fields, isBounded, ...route }: WriteRoute<Command, Result, Body>,
) =>
  jsonRoute(make, {
    ...route,
    ...(isBounded && { query: boundParameters }),
    target: tableTarget,
    isWrite: true,
    branches: (_, branch) => [branch],
    answers: Type.Object({ ...answers, ...(isBounded ? boundedFields : writtenFields) }),
    async answer(operation, { target: table, branch, body, idempotency }, input) {
      const bounds = isBounded && notedBounds(input);
      const on = { table, branch, idempotency, ...(bounds && { bounds }) };
      const result = await operation(command(body, on, input), input.scope);
      return writeAnswer(input, result, fields?.(result, input) ?? {});
    },
  });

/** What the query and the headers say of them. The audit record says of a dry run that it is one, also where it is refused. */
export function notedBounds({
  query,
  headers,
  context,
}: Pick<RouteInput<keyof typeof boundParameters>, 'query' | 'headers' | 'context'>): AskedBounds | undefined {
  const bounds = readBounds(query, headers);
  if (bounds?.dryRun === true) context.note({ isDryRun: true });
  return bounds;
}

/** The fields of a write's answer, which are noted for the audit record too. */
export function writeAnswer({ context }: RouteInput, result: WriteResult, fields: Readonly<Record<string, unknown>>) {
  const { transactionId, version, isReplay } = result;
  if (result.isDryRun) return { ...fields, version, dry_run: true };
  context.note({
    version,
    insertedRows: result.numInsertedRows,
    updatedRows: result.numUpdatedRows,
    deletedRows: result.numDeletedRows,
    transactionId,
  });
  if (isReplay) noteReplay(context);
  return { ...fields, version, transaction_id: transactionId };
}

/**
 * Makes the route of an operation that changes something else than rows or columns, and answers each key once. `answer` calls
 * it with its command alone: the key, the scope and the note that an answer is an earlier one are added here.
 */
export function onceRoute<
  Deps,
  Command extends object,
  Result,
  Target,
  Body extends TObject,
  Value,
  Query extends TProperties = NoQuery,
>(
  name: RepeatableOperation,
  make: MakesUnkeyed<Deps, Command, Result>,
  route: JsonRoute<(command: Command) => Promise<Result>, Target, Query, Body, Value>,
) {
  return jsonRoute(answeredOnce(name, make), {
    keyedBy: 'Idempotency-Key',
    ...route,
    answer(operation, call, input) {
      const once = async (command: Command): Promise<Result> => {
        const { result, isReplay } = await operation({ ...command, idempotency: call.idempotency }, input.scope);
        if (isReplay) noteReplay(input.context);
        return result;
      };
      return route.answer(once, call, input);
    },
  });
}

function noteReplay(context: RouteInput['context']): void {
  context.note({ isReplay: true });
  context.setHeader('idempotency-replayed', 'true');
}

/** `x-request-id` only where the LanceDB SDKs repeat a request under it. */
type KeyedBy = 'Idempotency-Key' | 'Idempotency-Key or x-request-id';

/**
 * The LanceDB SDKs send a change again, after an answer that they lost, under the same `x-request-id`: so that counts as an
 * `Idempotency-Key` for the same request. With anything else it is another one, since others number theirs as they like.
 */
export function repeatOf(
  headers: IncomingHttpHeaders,
  content: string,
  keyedBy: KeyedBy = 'Idempotency-Key or x-request-id',
): IdempotencyHeader | undefined {
  const bodyDigest = hash('sha256', content);
  const key = parseIdempotencyKey(headerText(headers[idempotencyKeyHeader]));
  if (key !== undefined) return { key, bodyDigest: async () => bodyDigest };
  const requestId = headerText(headers['x-request-id']);
  if (requestId === undefined || keyedBy === 'Idempotency-Key') return undefined;
  return { key: requestId as IdempotencyKey, isImplied: true, bodyDigest: async () => bodyDigest };
}

/** All of the branches must be allowed. */
function authorize(
  { access }: RouteInput,
  action: Action,
  resource: Resource | undefined,
  branches: readonly (BranchName | undefined)[],
): void {
  if (resource === undefined) return;
  for (const branch of branches) access.require(action, resource, branch);
}

function oneBranch(inQuery: BranchName | undefined, inBody: BranchName | undefined): BranchName | undefined {
  if (inQuery === undefined || inBody === undefined || inQuery === inBody) return inQuery ?? inBody;
  throw invalidInput('branch: the query and the body name different ones');
}
