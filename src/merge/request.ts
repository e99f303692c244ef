import { joinBatches } from '../arrow/column/concat-rows.ts';
import { nullBytesPerRow, typeNulls } from '../arrow/column/typed-nulls.ts';
import { type FieldPath, formatFieldPath, resolveField } from '../arrow/schema/field-path.ts';
import { typedSchema } from '../arrow/schema/read-schema.ts';
import type { Field, IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { checkSourceFits, checkStorable } from '../arrow/schema/schema-rules.ts';
import type { KeyedRequest, TableRecord } from '../catalog/port.ts';
import type { WrittenTable } from '../create/table-creation.ts';
import type { TableMaker } from '../create/table-maker.ts';
import type { MergeCounts } from '../engine/port/merge-spec.ts';
import type { NewId } from '../kernel/clock.ts';
import { LancegateError } from '../kernel/errors.ts';
import { showTable, type TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import { type DistinctKeys, readDistinctKeys } from '../keys/distinct-keys.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import { type Keyed, keyedAnswer } from '../operations/idempotency/idempotency.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { outcomeOf } from './batch.ts';
import type { MergeRowsCommand, MergeRowsResult } from './merge-command.ts';
import type { TableWriter } from './queue/branch-queue.ts';

/** A source that was received, fits its table and holds no key twice. */
interface ReadySource extends DistinctKeys {
  readonly chunk: IpcChunk;
  readonly keyed: KeyedRequest | undefined;
}

/**
 * Merge insert. The body is received and checked completely before the request waits for the table's turn: no
 * other client waits on this client's network.
 */
export class MergeRows {
  readonly #access: TableAccess;
  readonly #writer: TableWriter;
  readonly #maker: TableMaker;
  readonly #locks: TableLocks;
  readonly #newId: NewId;
  readonly #keyHasher: KeyHasher;
  readonly #metrics: Metrics;

  constructor(parts: {
    access: TableAccess;
    writer: TableWriter;
    maker: TableMaker;
    locks: TableLocks;
    newId: NewId;
    keyHasher: KeyHasher;
    metrics: Metrics;
  }) {
    this.#access = parts.access;
    this.#writer = parts.writer;
    this.#maker = parts.maker;
    this.#locks = parts.locks;
    this.#newId = parts.newId;
    this.#keyHasher = parts.keyHasher;
    this.#metrics = parts.metrics;
  }

  /** A `keyed` request's answer is recorded with its transaction. */
  async run(command: MergeRowsCommand, scope: RequestScope, keyed: Keyed | undefined): Promise<MergeRowsResult> {
    const record = await this.#access.find(command.table);
    if (record.state === 'declared') return this.#mergeIntoDeclared(record, command, scope, keyed);
    const check = await this.#fitCheck(record, command);
    return this.#mergeIntoCreated(record, command, await this.#receive(command, check, keyed), scope);
  }

  /**
   * What a source's schema must pass before it may be merged into this table. The table's schema is taken as last seen;
   * before it leads to a refusal it is looked up again, since a writer outside this service may have changed it.
   */
  async #fitCheck(record: TableRecord, command: MergeRowsCommand): Promise<SchemaCheck> {
    const dataset = await this.#access.lastSeen(record, command.branch);
    const check: SchemaCheck = async (source) => {
      const table = await dataset.schema();
      requireFit(source, table, command.on);
      const file = await dataset.schemaFile();
      return { nullBytesPerRow: nullBytesPerRow(source, table), typed: (chunk) => typeNulls(chunk, table, file) };
    };
    return (source) =>
      check(source).catch(async () => {
        await dataset.refresh();
        return check(source);
      });
  }

  async #receive({ source, on }: MergeRowsCommand, check: SchemaCheck, keyed: Keyed | undefined): Promise<ReadySource> {
    const chunk = await this.#metrics.mergeStage('receive', async () => {
      const { nullBytesPerRow, typed } = await check(await source.schema());
      return joinBatches(typed(await source.whole(nullBytesPerRow)));
    });
    return this.#metrics.mergeStage('check', async () => {
      const { keys, digests } = await readDistinctKeys(chunk, on, this.#keyHasher);
      return { chunk, keys, digests, keyed: await keyed?.request() };
    });
  }

  #mergeIntoCreated(
    table: TableRecord,
    { branch, on, flags, useIndex }: MergeRowsCommand,
    { chunk, keys, digests, keyed }: ReadySource,
    scope: RequestScope,
  ): Promise<MergeRowsResult> {
    requireFewNested(chunk, on);
    const transactionId = this.#newId() as TransactionId;
    const spec = { ...flags, useIndex };
    const request = { table, branch, on, spec, chunk, keys, digests, scope, transactionId, keyed };
    return this.#access.onFilesOf(table, async () => {
      const counts = await this.#writer.merge(request);
      this.#count(counts);
      return { transactionId, ...counts };
    });
  }

  /**
   * If the table comes into being while this request receives its body, its rows are merged like any others. Only where NULLs
   * have to be added to them the request is to be sent again: the body was received without memory for those.
   */
  async #mergeIntoDeclared(
    declared: TableRecord,
    command: MergeRowsCommand,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<MergeRowsResult> {
    if (command.branch !== undefined) throw branchOfDeclared(declared);
    const ready = await this.#receive(command, newTableCheck(command.on), keyed);
    const leave = await this.#locks.lockExclusive(command.table, scope.signal);
    try {
      const record = await this.#access.find(command.table);
      if (record.state === 'declared') return await this.#materialise(record, command, ready, scope);
    } finally {
      leave();
    }
    const created = await this.#access.findCreated(command.table);
    const check = await this.#fitCheck(created, command);
    const { nullBytesPerRow, typed } = await check(ready.chunk.schema);
    if (nullBytesPerRow > 0 || typed(ready.chunk) !== ready.chunk) throw createdMeanwhile(declared);
    return this.#mergeIntoCreated(created, command, ready, scope);
  }

  /** With no rows to merge with, the table is created with the provided data. */
  async #materialise(
    declared: TableRecord,
    command: MergeRowsCommand,
    { chunk, keyed }: ReadySource,
    scope: RequestScope,
  ): Promise<MergeRowsResult> {
    const { storageOptions } = declared;
    const begun = { table: command.table, existing: declared, properties: undefined, storageOptions };
    await using creation = await this.#maker.begin(begun);
    const written = await creation.write(once(chunk), scope.signal);
    scope.signal.throwIfAborted();
    const result = allInserted(written);
    await creation.publish(written, {
      operation: 'merge_insert',
      outcome: outcomeOf(result),
      answer: keyed && keyedAnswer(keyed, result),
    });
    return result;
  }

  #count({ numInsertedRows: inserted, numUpdatedRows: updated, numDeletedRows: deleted }: MergeCounts): void {
    this.#metrics.mergeFinished({ inserted, updated, deleted });
  }
}

const allInserted = ({ transactionId, version, rows }: WrittenTable): MergeRowsResult => ({
  transactionId,
  version,
  numInsertedRows: rows,
  numUpdatedRows: 0,
  numDeletedRows: 0,
  numAttempts: 1,
});

interface Fit {
  /** See `ArrowSource.whole`. */
  readonly nullBytesPerRow: number;
  /** The chunk with the table's types in place of Null. */
  readonly typed: (chunk: IpcChunk) => IpcChunk;
}

type SchemaCheck = (source: Schema) => Promise<Fit>;

const newTableCheck =
  (on: readonly FieldPath[]): SchemaCheck =>
  async (source) => {
    for (const path of on) requireField(path, source, 'source');
    checkStorable(source);
    return { nullBytesPerRow: 0, typed: (chunk) => chunk };
  };

/**
 * The engine gets nested keys as one SQL list, which for a million of them blocks the event loop for seconds and takes
 * gigabytes (docs/adr/0004).
 */
const mostNestedRows = 250_000;

function requireFewNested({ rows }: IpcChunk, on: readonly FieldPath[]): void {
  const nested = on.find(({ segments }) => segments.length > 1);
  if (nested === undefined || rows <= mostNestedRows) return;
  throw new LancegateError(
    'BodyTooLarge',
    `a merge on a nested key such as ${formatFieldPath(nested)} can have ${mostNestedRows} rows, and this one has ${rows}: send fewer at a time`,
  );
}

function requireFit(source: Schema, target: Schema, on: readonly FieldPath[]): void {
  const typed = typedSchema(source, target);
  for (const path of on) requireField(path, typed, 'source');
  for (const path of on) requireField(path, target, 'table');
  checkSourceFits(source, target);
  checkPartialSource(typed, target);
}

function requireField(path: FieldPath, schema: Schema, where: 'table' | 'source'): void {
  if (resolveField(schema, path) !== undefined) return;
  throw new LancegateError('TableColumnNotFound', `on: the ${where} has no column ${formatFieldPath(path)}`);
}

const createdMeanwhile = ({ ref }: TableRecord): LancegateError =>
  new LancegateError(
    'ConcurrentModification',
    `table '${showTable(ref)}' was created while the body arrived, with columns that it lacks; nothing was written`,
    { retryAfterSeconds: 1 },
  );

const branchOfDeclared = ({ ref }: TableRecord): LancegateError =>
  new LancegateError('TableBranchNotFound', `table '${showTable(ref)}' is only declared and has no branch but main`);

async function* once<Item>(item: Item): AsyncGenerator<Item> {
  yield item;
}

/**
 * A source that leaves out columns must agree with the table about which fields inside its structs and lists may be NULL.
 * Where it does not, the engine (Lance 12) merges in another way, which loses rows whose key is NULL without a word,
 * refuses to delete and misreads filters. It does not mind in a source of all columns, nor at the top level.
 * `TableSchemaValidationError` names the field. To be called with a source whose types fit the table.
 */
export function checkPartialSource(source: Schema, table: Schema): void {
  if (source.fields.length === table.fields.length) return;
  for (const field of source.fields) {
    const target = table.fields.find(({ name }) => name === field.name);
    const path = target && disagreement(field, target, [field.name]);
    if (path !== undefined) throw disagrees(path);
  }
}

function disagreement(a: Field, b: Field, parent: readonly string[]): readonly string[] | undefined {
  for (const [i, child] of a.children.entries()) {
    const other = b.children[i];
    if (other === undefined) continue;
    const path = [...parent, child.name];
    if (child.nullable !== other.nullable) return path;
    const deeper = disagreement(child, other, path);
    if (deeper !== undefined) return deeper;
  }
  return undefined;
}

const disagrees = (segments: readonly string[]): LancegateError =>
  new LancegateError(
    'TableSchemaValidationError',
    `column ${formatFieldPath({ segments })} is nullable in the table or in the source, and not in the other: declare it as the table does, or send all columns`,
  );
