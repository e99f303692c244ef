import { nullBytesPerRow } from '../arrow/column/fitted-rows.ts';
import { withoutRows } from '../arrow/schema/added-fields.ts';
import { formatFieldPath } from '../arrow/schema/field-path.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { checkSourceFits, checkStorable } from '../arrow/schema/schema-rules.ts';
import { chunkOfFile } from '../arrow/stream/ipc-chunks.ts';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { KeyedRequest, TableRecord } from '../catalog/port.ts';
import type { Extender } from '../change/extend-columns.ts';
import { isUnfit } from '../change/source-rows.ts';
import { submitChange } from '../change/submit-change.ts';
import { madeOfColumns } from '../create/declared-columns.ts';
import { type TableCreation, type TableMaker, type WrittenTable, writeChunks } from '../create/table-maker.ts';
import type { ChangeLimits } from '../engine/port/change-limits.ts';
import type { StagedSource } from '../engine/port/row-address.ts';
import {
  type Idempotency,
  type IdempotencyHeader,
  type Keyed,
  keyedAnswer,
  type Replayable,
} from '../idempotency/idempotency.ts';
import { outcomeOf } from '../idempotency/noted-outcomes.ts';
import { type NewId, newTransactionId } from '../kernel/clock.ts';
import type { ToldOfColumns } from '../kernel/column-changes.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type BranchName, showTable, type TableRef, type TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import { markBranch, type RecoveryMarks } from '../table/recovery-marks.ts';
import {
  rulesOfFirst,
  sourceRulesOf,
  type Taking,
  type ToldOfRules,
  toldOfRules,
  validChunks,
} from '../table/row-faults.ts';
import type { RuleTexts } from '../table/standing-rules.ts';
import { branchOfDeclared, fitOf, type TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { TableWriter } from '../write/table-writer.ts';
import { type InsertMode, type InsertRequest, insertBatchKey } from './insert-kind.ts';
import { InsertStep } from './insert-step.ts';
import { fittingTarget, needsWhole, type TargetColumns, targetOf, wholeValid } from './insert-target.ts';

interface InsertRowsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly mode: InsertMode;
  /** Those that the request says; the table may have others. */
  readonly rules: RuleTexts;
  readonly source: ArrowSource;
  /** Asked where columns come with the rows. `PermissionDenied`. */
  readonly requireAction: Extender['requireAction'];
  readonly idempotency: IdempotencyHeader | undefined;
}

interface InsertRowsResult extends ToldOfRules, ToldOfColumns {
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly numInsertedRows: number;
}

interface InsertRowsDeps {
  readonly idempotency: Idempotency;
  readonly access: TableAccess;
  readonly datasets: OpenDatasets;
  readonly writer: TableWriter;
  readonly maker: TableMaker;
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
  readonly newId: NewId;
  readonly metrics: Metrics;
}

export function insertRows(deps: InsertRowsDeps) {
  const inserting = new InsertRows(deps);
  return (command: InsertRowsCommand, scope: RequestScope): Promise<Replayable<InsertRowsResult>> =>
    deps.idempotency.once('insert', command, scope, (keyed) => inserting.run(command, scope, keyed));
}

/** The rows fit their table, and are in one chunk, or staged, or both. */
interface ReceivedRows extends Pick<InsertRequest, 'rows' | 'chunk' | 'staged'> {
  readonly empty: EmptySource;
  /** Memory is reserved for these in each row. */
  readonly nullBytes: number;
}

/** The rows, and what they are received for. */
interface ReadyRows extends ReceivedRows, Taking {
  /** undefined for an overwrite, which has its own columns. */
  readonly target: TargetColumns | undefined;
}

/**
 * Inserts the rows of one client: finds the table, receives the source, submits. A source that ends within one chunk stays in
 * memory, and an append of it shares its commit with others. A larger one is staged chunk by chunk as it comes, whatever its
 * size: no lock is held while it waits for the client.
 */
class InsertRows {
  readonly #deps: InsertRowsDeps;

  constructor(deps: InsertRowsDeps) {
    this.#deps = deps;
  }

  /** A `keyed` request's answer is recorded with its transaction. */
  async run(command: InsertRowsCommand, scope: RequestScope, keyed: Keyed | undefined): Promise<InsertRowsResult> {
    const table = await madeOfColumns(this.#deps, await this.#deps.access.find(command.table), command, scope);
    if (table.state === 'declared') return this.#insertIntoDeclared(table, command, scope, keyed);
    return this.#deps.access.onFilesOf(table, () => this.#insert(table, command, scope, keyed));
  }

  async #insert(
    table: TableRecord,
    command: InsertRowsCommand,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<InsertRowsResult> {
    const dataset = await this.#deps.datasets.lastSeen(table.location, command.branch);
    const { target, ...taking } = await targetOf(table, command, dataset);
    const staged =
      target && (await needsWhole(command.source, target.after))
        ? undefined
        : dataset.stageSource(target?.extension ? undefined : target?.file);
    try {
      const received = await this.#receive(table, command, { ...taking, target, staged }, scope);
      return await this.#write(table, command, { ...received, ...taking, target }, scope, keyed);
    } finally {
      staged?.discard();
    }
  }

  async #write(
    table: TableRecord,
    command: InsertRowsCommand,
    source: ReadyRows,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<InsertRowsResult> {
    if (source.target?.extension !== undefined) return this.#extend(table, command, source, scope, keyed);
    try {
      return await this.#submit(table, command, source, scope, await keyed?.request());
    } catch (error) {
      // Another source may have widened the columns meanwhile.
      if (command.mode === 'append' && source.rules.extends && isUnfit(error))
        return this.#extend(table, command, source, scope, keyed);
      throw error;
    }
  }

  /** The columns that the table lacks and the rows are one commit, which is no other's. */
  async #extend(
    table: TableRecord,
    { branch, rules, requireAction }: InsertRowsCommand,
    { staged, chunk, empty, nullBytes: nullBytesPerRow, invalid }: ReadyRows,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<InsertRowsResult> {
    const { access } = this.#deps;
    const indexes = () => access.read(table, branch, undefined, (dataset) => dataset.indexes.list());
    const all = (limits: ChangeLimits) => (chunk !== undefined ? [chunk] : partsOf(staged, empty.schema, limits));
    const extender = { requireAction, indexes };
    const { properties } = table;
    const step = new InsertStep(rules, { empty, nullBytesPerRow, all }, { properties, extender, invalid });
    const change = { operation: 'insert', table, branch, steps: [step] } as const;
    const { each: _, ...result } = await submitChange(this.#deps, change, scope, keyed);
    return result;
  }

  /** Where there is no `staged`, takes only what fits into memory. */
  #receive(
    table: TableRecord,
    { source, branch, mode }: InsertRowsCommand,
    { target, staged, ...taking }: Taking & Pick<ReadyRows, 'target' | 'staged'>,
    scope: RequestScope,
  ): Promise<ReceivedRows> {
    const { metrics } = this.#deps;
    return metrics.writeStage('receive', async () => {
      const nullBytes = target === undefined ? 0 : nullBytesPerRow(await source.schema(), target.after);
      if (staged === undefined) {
        const chunk = await (target ? wholeValid(source, target, taking) : source.whole());
        return inMemory(chunk, nullBytes);
      }
      const arriving = await begin(validChunks(source, taking, target?.after));
      if (arriving.isWhole && mode === 'append') return inMemory(arriving.first);
      const { schema, file } = arriving.first;
      const empty = { schema, file: withoutRows(file) };
      await markBranch(this.#deps, table, branch, scope.signal);
      const rows = await writeChunks(staged, arriving.all(), scope.signal, metrics);
      return { rows, chunk: arriving.isWhole ? arriving.first : undefined, staged, empty, nullBytes };
    });
  }

  async #submit(
    table: TableRecord,
    { branch, mode }: InsertRowsCommand,
    { target, rows, chunk, staged, ...taking }: ReadyRows,
    scope: RequestScope,
    keyed: KeyedRequest | undefined,
  ): Promise<InsertRowsResult> {
    const { writer, newId } = this.#deps;
    const transactionId = newTransactionId(newId);
    const write = { kind: 'insert', operation: 'insert', table, branch, scope, transactionId, keyed } as const;
    const fit = target && fitOf({ schema: chunk?.schema ?? target.schema, rows }, target.schema, checkSourceFits);
    const told = toldOfRules(taking);
    const request: InsertRequest = { ...write, mode, rows, chunk, staged, told, fit };
    const { version, numInsertedRows } = await writer.write(
      request,
      chunk && { batchKey: insertBatchKey(request), size: chunk },
    );
    return { transactionId, version, numInsertedRows, ...told };
  }

  /** The rows make the table, in either mode. A source in one chunk finds room also where another request has made it meanwhile. */
  async #insertIntoDeclared(
    declared: TableRecord,
    command: InsertRowsCommand,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<InsertRowsResult> {
    if (command.branch !== undefined) throw branchOfDeclared(declared);
    const { access, locks } = this.#deps;
    const { schema, ...taking } = await rulesOfFirst(command.source, (metadata) =>
      sourceRulesOf(command.rules, declared.properties, metadata),
    );
    checkStorable(schema);
    const arriving = await begin(validChunks(command.source, taking, undefined));
    if (!arriving.isWhole) return this.#materialiseStream(declared, arriving, taking, scope, keyed);
    const request = await keyed?.request();
    const release = await locks.lockExclusive(command.table, scope.signal);
    try {
      const record = await access.find(command.table);
      if (record.state === 'declared') return await this.#materialise(record, arriving, taking, scope, request);
    } finally {
      release();
    }
    const created = await access.findCreated(command.table);
    const source = { ...inMemory(arriving.first), ...taking };
    return access.onFilesOf(created, () => this.#insertInto(created, command, source, scope, keyed));
  }

  /** The table was declared when the rows began to arrive. */
  async #insertInto(
    created: TableRecord,
    command: InsertRowsCommand,
    source: Omit<ReadyRows, 'target'>,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<InsertRowsResult> {
    const dataset = await this.#deps.datasets.lastSeen(created.location, undefined);
    const target = await fittingTarget(created, command, dataset);
    const isWhole = target === undefined || (await needsWhole(command.source, target.after));
    if (isWhole && target?.extension === undefined)
      throw new LancegateError(
        'ConcurrentModification',
        `table '${showTable(created.ref)}' was created while the body arrived; nothing was written`,
        { retryAfterSeconds: 1 },
      );
    return this.#write(created, command, { ...source, target }, scope, keyed);
  }

  /** Writes the rows before the table's lock is taken, as a create does. */
  async #materialiseStream(
    declared: TableRecord,
    arriving: Arriving,
    taking: Taking,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<InsertRowsResult> {
    const { locks, maker } = this.#deps;
    await using creation = await maker.beginDeclared(declared);
    const written = await creation.write(arriving.all(), scope.signal);
    const request = await keyed?.request(); // the body has passed by now, so nothing waits for it under the lock
    const release = await locks.lockExclusive(declared.ref, scope.signal);
    try {
      return await publish(creation, written, taking, scope, request);
    } finally {
      release();
    }
  }

  /** The caller holds the table's lock. */
  async #materialise(
    declared: TableRecord,
    arriving: Arriving,
    taking: Taking,
    scope: RequestScope,
    keyed: KeyedRequest | undefined,
  ): Promise<InsertRowsResult> {
    await using creation = await this.#deps.maker.beginDeclared(declared);
    return await publish(creation, await creation.write(arriving.all(), scope.signal), taking, scope, keyed);
  }
}

async function publish(
  creation: TableCreation,
  written: WrittenTable,
  taking: Taking,
  { signal }: RequestScope,
  keyed: KeyedRequest | undefined,
): Promise<InsertRowsResult> {
  signal.throwIfAborted();
  const { transactionId, version, rows: numInsertedRows } = written;
  const told = toldOfRules(taking);
  const result = { transactionId, version, numInsertedRows, ...told };
  await creation.publish(written, {
    operation: 'insert',
    outcome: outcomeOf({ numInsertedRows, numUpdatedRows: 0, numDeletedRows: 0, ...told }),
    answer: keyed && keyedAnswer(keyed, result),
  });
  return result;
}

/** A source without rows. */
type EmptySource = Pick<IpcChunk, 'schema' | 'file'>;

async function* partsOf(staged: StagedSource | undefined, { fields }: Schema, limits: ChangeLimits) {
  const columns = fields.map(({ name }) => ({ name, expression: formatFieldPath({ segments: [name] }) }));
  for await (const file of staged?.select(columns, limits) ?? []) yield chunkOfFile(file);
}

const inMemory = (chunk: IpcChunk, nullBytes = 0): ReceivedRows => ({
  rows: chunk.rows,
  chunk,
  staged: undefined,
  empty: chunk,
  nullBytes,
});

/** The first chunk of the source is there. */
interface Arriving {
  readonly first: IpcChunk;
  /** There is no other chunk; the first one is kept until the request is over. */
  readonly isWhole: boolean;
  /** May be called once. */
  all(): AsyncIterable<IpcChunk>;
}

async function begin(chunks: AsyncGenerator<IpcChunk, void, void>): Promise<Arriving> {
  const { value: first } = await chunks.next();
  if (!first) throw new LancegateError('Internal', 'a source without chunks');
  const { value: second } = await chunks.next();
  return {
    first,
    isWhole: !second,
    async *all() {
      yield second ? first : { ...first, release: () => undefined };
      if (second) yield second;
      yield* chunks;
    },
  };
}
