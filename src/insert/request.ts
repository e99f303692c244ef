import { nullBytesPerRow } from '../arrow/column/fitted-rows.ts';
import { isFitted } from '../arrow/schema/fitted-schema.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { checkSourceFits, checkStorable } from '../arrow/schema/schema-rules.ts';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { KeyedRequest, TableRecord } from '../catalog/port.ts';
import { madeOfColumns } from '../create/declared-columns.ts';
import { type TableCreation, type TableMaker, type WrittenTable, writeChunks } from '../create/table-maker.ts';
import type { TableColumns } from '../engine/port/column-view.ts';
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
import { LancegateError } from '../kernel/errors.ts';
import { type BranchName, showTable, type TableRef, type TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import { markBranch, type RecoveryMarks } from '../table/recovery-marks.ts';
import { requireRowEnds } from '../table/row-ends.ts';
import {
  invalidRulesOf,
  leftOutOf,
  requireFewInvalid,
  rulesOfFirst,
  type Taking,
  type ToldOfRules,
  toldOfRules,
  validChunks,
  withoutUnallowedNulls,
} from '../table/row-faults.ts';
import type { RuleTexts } from '../table/standing-rules.ts';
import { branchOfDeclared, fitOf, fittingSchema, type TableAccess, wholeFitting } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { TableWriter } from '../write/table-writer.ts';
import type { WriteRequest } from '../write/write.ts';
import { type InsertMode, type InsertRequest, insertBatchKey } from './insert-kind.ts';

interface InsertRowsCommand {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly mode: InsertMode;
  /** Those that the request says; the table may have others. */
  readonly rules: RuleTexts;
  readonly source: ArrowSource;
  readonly idempotency: IdempotencyHeader | undefined;
}

interface InsertRowsResult extends ToldOfRules {
  readonly transactionId: TransactionId;
  readonly version: number;
  readonly numInsertedRows: number;
}

interface InsertRowsDeps {
  readonly access: TableAccess;
  readonly datasets: OpenDatasets;
  readonly writer: TableWriter;
  readonly maker: TableMaker;
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
  readonly newId: NewId;
  readonly metrics: Metrics;
}

export function insertRows(deps: InsertRowsDeps & { readonly idempotency: Idempotency }) {
  const inserting = new InsertRows(deps);
  return (command: InsertRowsCommand, scope: RequestScope): Promise<Replayable<InsertRowsResult>> =>
    deps.idempotency.once('insert', command, scope, (keyed) => inserting.run(command, scope, keyed));
}

/** The rows fit their table, and are in one chunk, or staged, or both. */
type ReceivedRows = Pick<InsertRequest, 'rows' | 'chunk' | 'staged'>;

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
    const { mode, source: sent, rules: asked } = command;
    if (mode === 'append') await sent.readFor(() => dataset.columns());
    const rulesFor = ({ metadata }: Schema) => invalidRulesOf(asked, table.properties, metadata);
    const rules = rulesFor((await fittingSchema(dataset, rulesFor)).schema);
    const taking = { rules, invalid: leftOutOf(sent, rules.invalid) };
    const schema = await sent.schema();
    const columns = await columnsFor(command, schema, dataset);
    if (columns === undefined) requireRowEnds(table.properties, schema);
    const staged = columns && needsWhole(schema, columns) ? undefined : dataset.stageSource(columns?.file);
    try {
      const received = await this.#receive(table, command, { ...taking, columns, staged }, scope);
      const source = { ...received, columns, told: toldOfRules(taking) };
      return await this.#submit(table, command, source, scope, await keyed?.request());
    } finally {
      staged?.discard();
    }
  }

  /** Where there is no `staged`, takes only what fits into memory. */
  #receive(
    table: TableRecord,
    { source, branch, mode }: InsertRowsCommand,
    { columns, staged, ...taking }: Taking & { columns: TableColumns | undefined; staged: StagedSource | undefined },
    scope: RequestScope,
  ): Promise<ReceivedRows> {
    const { metrics } = this.#deps;
    return metrics.writeStage('receive', async () => {
      if (staged === undefined) {
        const chunk = await (columns ? wholeValid(source, columns, taking) : source.whole());
        return inMemory(chunk);
      }
      const arriving = await begin(validChunks(source, taking, columns?.schema));
      if (arriving.isWhole && mode === 'append') return inMemory(arriving.first);
      await markBranch(this.#deps, table, branch, scope.signal);
      const rows = await writeChunks(staged, arriving.all(), scope.signal, metrics);
      return { rows, chunk: arriving.isWhole ? arriving.first : undefined, staged };
    });
  }

  async #submit(
    table: TableRecord,
    { branch, mode }: InsertRowsCommand,
    { columns, ...source }: Omit<InsertRequest, keyof WriteRequest | 'mode'> & { columns: TableColumns | undefined },
    scope: RequestScope,
    keyed: KeyedRequest | undefined,
  ): Promise<InsertRowsResult> {
    const { writer, newId } = this.#deps;
    const transactionId = newTransactionId(newId);
    const write = { kind: 'insert', operation: 'insert', table, branch, scope, transactionId, keyed } as const;
    const { chunk, rows } = source;
    const fit = columns && fitOf({ schema: chunk?.schema ?? columns.schema, rows }, columns.schema, checkSourceFits);
    const request: InsertRequest = { ...write, mode, ...source, fit };
    const { version, numInsertedRows } = await writer.write(
      request,
      chunk && { batchKey: insertBatchKey(request), size: chunk },
    );
    return { transactionId, version, numInsertedRows, ...source.told };
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
      invalidRulesOf(command.rules, declared.properties, metadata),
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
    const source = { chunk: arriving.first, told: toldOfRules(taking) };
    return access.onFilesOf(created, () => this.#insertInto(created, command, source, scope, request));
  }

  /** The table was declared when the rows began to arrive. */
  async #insertInto(
    created: TableRecord,
    command: InsertRowsCommand,
    { chunk, told }: { readonly chunk: IpcChunk; readonly told: ToldOfRules },
    scope: RequestScope,
    keyed: KeyedRequest | undefined,
  ): Promise<InsertRowsResult> {
    const dataset = await this.#deps.datasets.lastSeen(created.location, undefined);
    const columns = await columnsFor(command, chunk.schema, dataset);
    if (columns === undefined) requireRowEnds(created.properties, chunk.schema);
    if (columns === undefined || needsWhole(chunk.schema, columns))
      throw new LancegateError(
        'ConcurrentModification',
        `table '${showTable(created.ref)}' was created while the body arrived; nothing was written`,
        { retryAfterSeconds: 1 },
      );
    return this.#submit(created, command, { ...inMemory(chunk), columns, told }, scope, keyed);
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

/** An append gets these columns of the table; a source that does not fit them is refused. An overwrite has its own. */
async function columnsFor(
  { mode }: InsertRowsCommand,
  source: Schema,
  dataset: Parameters<typeof fittingSchema>[0],
): Promise<TableColumns | undefined> {
  if (mode === 'append') return fittingSchema(dataset, (table) => checkSourceFits(source, table));
  checkStorable(source);
  return undefined;
}

/** Says whether NULLs are to be added, or columns to be laid out as the table's, which takes the whole source in memory. */
const needsWhole = (source: Schema, { schema }: TableColumns): boolean =>
  nullBytesPerRow(source, schema) > 0 || !isFitted(source, schema);

/** All rows that break no rule of the table, laid out as its own. */
async function wholeValid(source: ArrowSource, columns: TableColumns, { rules, invalid }: Taking): Promise<IpcChunk> {
  const chunk = await wholeFitting(source, columns, (sent) => withoutUnallowedNulls(sent, columns.schema, invalid));
  requireFewInvalid(rules.invalid, invalid, chunk.rows);
  return chunk;
}

const inMemory = (chunk: IpcChunk): ReceivedRows => ({ rows: chunk.rows, chunk, staged: undefined });

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
