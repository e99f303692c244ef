import { createHash } from 'node:crypto';
import Type from 'typebox';
import type { Action, Resource } from '../../../auth/policy/actions.ts';
import { invalidInput } from '../../../kernel/errors.ts';
import { transact } from '../../../operations/transact/apply-operations.ts';
import {
  type NamedOperation,
  type NamedSource,
  sourceOf,
  type TransactOperation,
} from '../../../operations/transact/transact-command.ts';
import { idempotencyKeyHeader, parseIdempotencyKey, readDelimiter } from '../../../wire/identifiers.ts';
import { Count } from '../../../wire/json-body.ts';
import { OperationBody, readOperation } from '../../../wire/transact-operation.ts';
import { contentDecoder } from '../../body/content-decoder.ts';
import { type BodyPart, boundaryOf } from '../../body/multipart.ts';
import type { UploadedParts } from '../../body/multipart-upload.ts';
import { writeAnswer, writtenFields } from '../../json-route.ts';
import { ArrowStream, commonParameters } from '../../openapi/description.ts';
import { headerText } from '../../request-head.ts';
import { jsonAnswer, type Offer, queryBranch, type RouteInput, tableTarget } from '../../route.ts';

const actionOf = {
  insert: 'InsertIntoTable',
  merge_insert: 'MergeInsertIntoTable',
  update: 'UpdateTable',
  delete: 'DeleteFromTable',
  add_columns: 'AlterTableAddColumns',
  alter_columns: 'AlterTableAlterColumns',
  drop_columns: 'AlterTableDropColumns',
  update_field_metadata: 'UpdateFieldMetadata',
} as const satisfies Record<TransactOperation['kind'], Action>;

/** Parts of any names. */
const FormOfOperations = Type.Unsafe<unknown>({
  type: 'object',
  additionalProperties: Type.Union([OperationBody, ArrowStream]),
});

const Applied = Type.Object({
  ...writtenFields,
  operations: Type.Array(
    Type.Object({
      name: Type.String(),
      operation: Type.String(),
      num_inserted_rows: Count,
      num_updated_rows: Count,
      num_deleted_rows: Count,
    }),
  ),
});

/** Each of them is a version of the shadow. */
const mostOperations = 100;

/**
 * Several operations as one commit. The parts of the body that describe them come first, so the policy has decided on all of them
 * before a source is read.
 */
export const transactRoute: Offer<ReturnType<typeof transact>> = {
  make: transact,
  routeTo: (operation) => ({
    methods: ['POST'],
    path: '/v1/table/:id/transact',
    isWrite: true,
    description: {
      operationId: 'TransactTable',
      summary: 'Applies several operations as one version, or none',
      parameters: commonParameters(true),
      bodies: { 'multipart/form-data': FormOfOperations },
      answers: Applied,
      takesKey: true,
    },
    prepare(input) {
      const { query, headers, scope } = input;
      const table = tableTarget.parse(input.id, readDelimiter(query), input.database);
      const branch = queryBranch(input);
      const resource = { kind: 'table', table } as const;
      requireOneOf(input, resource, branch);
      const boundary = boundaryOf(headers['content-type']);
      contentDecoder(headers['content-encoding']);
      const key = parseIdempotencyKey(headerText(headers[idempotencyKeyHeader]));
      return {
        body: 'arrow-whole',
        table,
        owned: table,
        answer: async (upload) => {
          const parts = upload.parts(boundary);
          const body = new TransactBody(parts, key !== undefined);
          try {
            const operations = await body.operations(input);
            for (const action of actionsOf(operations)) input.access.require(action, resource, branch);
            input.context.note({ mode: [...new Set(operations.map(({ does }) => does.kind))].join('+') });
            const source = body.sources(operations);
            const idempotency = key && { key, bodyDigest: () => body.digest(source) };
            const result = await operation({ table, branch, operations, source, idempotency }, scope);
            return jsonAnswer(writeAnswer(input, result, { operations: result.operations.map(shown) }));
          } finally {
            body.close();
          }
        },
      };
    },
  }),
};

const shown = (each: Awaited<ReturnType<ReturnType<typeof transact>>>['operations'][number]) => ({
  name: each.name,
  operation: each.operation,
  num_inserted_rows: each.numInsertedRows,
  num_updated_rows: each.numUpdatedRows,
  num_deleted_rows: each.numDeletedRows,
});

/** Who may do none of the operations is refused before a byte of the body is read. */
function requireOneOf({ access }: RouteInput, resource: Resource, branch: ReturnType<typeof queryBranch>): void {
  const actions = Object.values(actionOf);
  if (actions.some((action) => access.allows(action, resource, branch))) return;
  access.require(actionOf.merge_insert, resource, branch);
}

const actionsOf = (operations: readonly NamedOperation[]): ReadonlySet<Action> =>
  new Set(
    operations.flatMap(({ does }): Action[] =>
      does.kind === 'merge_insert' && does.flags.whenNotMatchedBySourceDelete !== false
        ? [actionOf[does.kind], 'DeleteFromTableBySource']
        : [actionOf[does.kind]],
    ),
  );

/** Describes operations first, then brings the sources that they name. */
class TransactBody {
  readonly #parts: UploadedParts;
  readonly #isDigested: boolean;
  readonly #opened: NamedSource['source'][] = [];
  readonly #digests: (readonly [name: string, digest: string])[] = [];
  /** The part after the operations. */
  #next: BodyPart | undefined;

  /** `isDigested`: there will be a digest, which costs half a millisecond per megabyte. */
  constructor(parts: UploadedParts, isDigested: boolean) {
    this.#parts = parts;
    this.#isDigested = isDigested;
  }

  async operations(readers: Pick<RouteInput, 'readFilter' | 'checkNames'>): Promise<readonly NamedOperation[]> {
    const found: NamedOperation[] = [];
    this.#next = await this.#parts.next();
    while (this.#next !== undefined && isOperation(this.#next)) {
      const { name } = this.#next;
      if (found.some((other) => other.name === name)) throw namedTwice(name);
      if (found.length === mostOperations) throw invalidInput(`a request can have ${mostOperations} operations`);
      found.push(readOperation(name, await this.#parts.text(this.#next), readers));
      this.#next = await this.#parts.next();
    }
    if (found.length === 0) throw invalidInput('the body must begin with a part of JSON that describes an operation');
    requireOneUse(found);
    return found;
  }

  async *sources(operations: readonly NamedOperation[]): AsyncGenerator<NamedSource, void, void> {
    const wanted = new Set(operations.flatMap(({ does }) => sourceOf(does) ?? []));
    for (let part = this.#next; part !== undefined; part = await this.#parts.next()) {
      const { name } = part;
      if (isOperation(part)) throw invalidInput(`part ${name}: operations come before all sources`);
      if (this.#digests.some(([other]) => other === name)) throw namedTwice(name);
      if (!wanted.has(name)) throw invalidInput(`part ${name}: no operation names this source`);
      const hash = this.#isDigested ? createHash('sha256') : undefined;
      const bytes = hash === undefined ? part.bytes : hashed(part.bytes, hash);
      const source = this.#parts.source({ ...part, bytes });
      this.#opened.push(source);
      yield { name, source };
      for await (const _ of bytes);
      this.#digests.push([name, hash?.digest('hex') ?? '']);
    }
  }

  /** Of all sources by their names: a client makes another boundary each time. The operations are compared as what they mean. */
  async digest(sources: AsyncIterable<NamedSource>): Promise<string> {
    for await (const _ of sources);
    const inOrder = this.#digests.toSorted(([a], [b]) => (a < b ? -1 : 1));
    return createHash('sha256').update(JSON.stringify(inOrder)).digest('hex');
  }

  close(): void {
    for (const source of this.#opened) source.close();
    this.#parts.close();
  }
}

async function* hashed(bytes: AsyncIterable<Uint8Array>, hash: ReturnType<typeof createHash>) {
  for await (const piece of bytes) {
    hash.update(piece);
    yield piece;
  }
}

const arrowTypes: ReadonlySet<string> = new Set(['application/vnd.apache.arrow.stream', 'application/octet-stream']);

/** A part without a type of its own is a file, or a text. */
function isOperation({ name, type, fileName }: BodyPart): boolean {
  if (type === 'application/json') return true;
  if (type !== undefined && arrowTypes.has(type)) return false;
  if (type === undefined || type === 'text/plain') return fileName === undefined;
  throw invalidInput(
    `part ${name}: its content-type must be application/json for an operation, application/vnd.apache.arrow.stream for a source`,
  );
}

function requireOneUse(operations: readonly NamedOperation[]): void {
  const names = operations.map(({ name }) => name);
  const sources = operations.flatMap(({ does }) => sourceOf(does) ?? []);
  const twice = sources.find((name, index) => names.includes(name) || sources.indexOf(name) < index);
  if (twice === undefined) return;
  throw invalidInput(`source ${twice.slice(0, 64)}: a source has a name of its own, and one operation uses it`);
}

const namedTwice = (name: string): Error => invalidInput(`part ${name}: two parts have this name`);
