import { joinBatches } from '../arrow/column/concat-rows.ts';
import { fitRows, nullBytesPerRow } from '../arrow/column/fitted-rows.ts';
import type { SchemaExtension } from '../arrow/schema/extended-schema.ts';
import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { AbsentField } from '../arrow/schema/fitted-schema.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { emptyFile } from '../arrow/schema/schema-bytes.ts';
import type { KeyedRequest, TableRecord } from '../catalog/port.ts';
import { requireActions } from '../change/extend-columns.ts';
import { isUnfit } from '../change/source-rows.ts';
import { submitChange } from '../change/submit-change.ts';
import { declaredColumns, madeOfColumns } from '../create/declared-columns.ts';
import type { TableMaker } from '../create/table-maker.ts';
import type { BranchHead, Snapshot } from '../engine/port/dataset.ts';
import type { Datasets } from '../engine/port/engine.ts';
import { type Idempotency, type Keyed, keyedAnswer, type Replayable } from '../idempotency/idempotency.ts';
import { outcomeOf } from '../idempotency/noted-outcomes.ts';
import { type Clock, type NewId, newTransactionId } from '../kernel/clock.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { showTable } from '../kernel/ids.ts';
import { InvalidRows } from '../kernel/invalid-rows.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import { writeBounds } from '../kernel/write-bounds.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import {
  leftOutOf,
  requireFewInvalid,
  rulesOfFirst,
  type Taking,
  withoutUnallowedNulls,
  withRequiredKeys,
} from '../table/row-faults.ts';
import { branchOfDeclared, fitOf, fittingSchema, type TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { TableWriter } from '../write/table-writer.ts';
import { batchKey, type MergeRequest } from './batch.ts';
import { fieldsToKeep } from './completed-batch.ts';
import { requireAllFit, requireFewNested, requireFitting, requireStorable, toldOf } from './fitting-source.ts';
import { columnsToRead, columnsToWrite, mergeOfMarked, type SplitSource, splitSource } from './marked-source.ts';
import type { MergeRowsCommand, MergeRowsResult } from './merge-command.ts';
import { type MergeSource, MergeStep } from './merge-step.ts';
import { type KeyedRows, type Merged, type RowRules, readSourceKeys, requireMarks, rulesOf } from './row-rules.ts';

export function mergeRows(deps: MergeRowsDeps) {
  const merging = new MergeRows(deps);
  return (command: MergeRowsCommand, scope: RequestScope): Promise<Replayable<MergeRowsResult>> =>
    deps.idempotency.once('merge_insert', command, scope, (keyed) => merging.run(command, scope, keyed));
}

/** A source that was received, fits its table and whose keys are in order. */
interface ReadySource extends KeyedRows, Taking<RowRules> {
  readonly keyed: KeyedRequest | undefined;
  /** Of a source with a column of marks. */
  readonly split?: SplitSource | undefined;
}

/** What was received of a source. */
type MergeReceived = Pick<ReadySource, 'chunk' | 'rules' | 'invalid' | 'split'>;

interface FittingSource extends ReadySource {
  /** The fields of the table's structs that the client did not send. */
  readonly absent: readonly AbsentField[];
  /** The schema of the table, which the source fits. */
  readonly checked: Schema;
}

/** The source fits the columns of this table, which are another object once they may have changed, by these keys, flags and rules. */
interface Fit extends Pick<FittingSource, 'absent' | 'rules'> {
  readonly table: Schema;
  readonly by: string;
  /** What the table lacks, and is to get with the rows. */
  readonly extension: SchemaExtension | undefined;
}

interface MergeRowsDeps {
  readonly engine: Datasets;
  readonly idempotency: Idempotency;
  readonly access: TableAccess;
  readonly writer: TableWriter;
  readonly maker: TableMaker;
  readonly locks: TableLocks;
  readonly newId: NewId;
  readonly clock: Clock;
  readonly keyHasher: KeyHasher;
  readonly metrics: Metrics;
}

/**
 * A merge of one client: resolve the table, receive the source, read its distinct keys, submit. The source is received and checked
 * completely before the request waits for a lock, so no other client waits on this client's network.
 */
class MergeRows {
  readonly #deps: MergeRowsDeps;
  /** Clients send the same schema again and again, which is one object then: what was found of each the last time. */
  readonly #fits = new WeakMap<Schema, Fit>();

  constructor(deps: MergeRowsDeps) {
    this.#deps = deps;
  }

  /** A `keyed` request's answer is recorded with its transaction. */
  async run(command: MergeRowsCommand, scope: RequestScope, keyed: Keyed | undefined): Promise<MergeRowsResult> {
    const { access } = this.#deps;
    const found = await access.find(command.table);
    if (found.state === 'declared' && command.bounds?.dryRun === true) return this.#dryRunOfDeclared(found, command);
    const table = await madeOfColumns(this.#deps, found, command, scope);
    if (table.state === 'declared') return this.#mergeIntoDeclared(table, command, scope, keyed);
    const dataset = await access.lastSeen(table, command.branch);
    const { checked, absent, sent, isWider, ...received } = await this.#receiveFitting(command, table, dataset);
    if (isWider) return this.#extend(table, command, sent, scope, keyed);
    const source = await this.#check(received, command, keyed);
    try {
      return await this.#submit(table, command, { ...source, checked, absent }, scope);
    } catch (error) {
      // Another source may have widened the columns meanwhile.
      if (received.rules.extends && isUnfit(error)) return this.#extend(table, command, sent, scope, keyed);
      throw error;
    }
  }

  /** The columns that the table lacks and the rows are one commit, which is no other's. */
  async #extend(
    table: TableRecord,
    { branch, requireAction, bounds: askedBounds, ...asked }: MergeRowsCommand,
    sent: MergeSource & Pick<Schema, 'metadata'>,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<MergeRowsResult> {
    const { access, metrics } = this.#deps;
    const indexes = () => access.read(table, branch, undefined, (dataset) => dataset.indexes.list());
    const extender = { requireAction, indexes };
    const { properties } = table;
    const step = new MergeStep(asked, sent, { ...this.#deps, branch, properties, scope, extender });
    const deletes = asked.flags.whenNotMatchedBySourceDelete !== false;
    const bounds = writeBounds(askedBounds, deletes ? { properties, metadata: sent.metadata } : undefined);
    const change = { operation: 'merge_insert', table, branch, steps: [step], bounds } as const;
    const { each: _, ...result } = await submitChange(this.#deps, change, scope, keyed);
    const { numInsertedRows: inserted, numUpdatedRows: updated, numDeletedRows: deleted } = result;
    if (bounds?.isDryRun !== true) metrics.mergeFinished({ inserted, updated, deleted });
    return result;
  }

  /** Receives the source for a `dataset`. One that does not fit is refused as soon as its schema is there. */
  #receiveFitting(
    { source, on, flags, rules: asked, requireAction }: MergeRowsCommand,
    { properties }: TableRecord,
    dataset: Pick<Snapshot & BranchHead, 'columns' | 'refresh'>,
  ) {
    return this.#deps.metrics.writeStage('receive', async () => {
      const rulesFor = (table: Schema) => rulesOf(asked, flags, properties, table.metadata);
      const known = rulesFor((await fittingSchema(dataset, rulesFor)).schema);
      await source.readFor(async () => {
        const { schema: table } = await dataset.columns();
        return { schema: columnsToRead(table, known) };
      }, known.extends);
      const invalid = leftOutOf(source, known.invalid);
      const schema = await source.schema();
      const by = JSON.stringify([on, flags, asked]);
      const fitTo = (table: Schema): Fit => {
        const known = this.#fits.get(schema);
        if (known?.table === table && known.by === by) return known;
        const rules = rulesFor(table);
        requireMarks({ on, rules }, schema);
        const written = columnsToWrite(schema, table, rules);
        const extension = requireFitting(written, table, { on, flags, rules }, rules.tombstone !== undefined);
        const fit = { table, by, rules, extension, absent: fieldsToKeep(written, table, flags) };
        this.#fits.set(schema, fit);
        return fit;
      };
      const seen = await fittingSchema(dataset, fitTo);
      const mayBeWider = fitTo(seen.schema).extension !== undefined;
      if (mayBeWider) await dataset.refresh(); // another program may have added the columns
      const table = mayBeWider ? await fittingSchema(dataset, fitTo) : seen;
      const { rules, absent, extension } = fitTo(table.schema);
      const isWider = extension !== undefined;
      if (isWider) requireActions(extension, requireAction);
      const after = isWider ? extension.schema : table.schema;
      const nullBytes = nullBytesPerRow(schema, after);
      if (rules.tombstone !== undefined) {
        const whole = await source.whole(nullBytes);
        const split = await splitSource(
          whole,
          { ...{ on, flags, rules, invalid }, table: after },
          this.#deps.keyHasher,
        );
        const { unmarked } = split;
        requireSplitFit(split, after, { on, flags, rules }, invalid);
        const { metadata } = table.schema;
        const sent = { chunk: unmarked, nullBytesPerRow: nullBytes, invalid, metadata };
        const chunk = joinBatches(fitRows(unmarked, table.schema, table.file));
        return { chunk, sent, isWider, checked: table.schema, absent, rules, invalid, split };
      }
      const whole = withoutUnallowedNulls(await source.whole(nullBytes), after, invalid);
      const { metadata } = table.schema;
      const left = invalid && InvalidRows.of(invalid.report());
      const sent = { chunk: whole, nullBytesPerRow: nullBytes, invalid: left, metadata };
      const fitting = isWider ? whole : fitRows(whole, table.schema, table.file);
      const chunk = validRows(fitting, on, rules, invalid);
      return { chunk, sent, isWider, checked: table.schema, absent, rules, invalid };
    });
  }

  /** As `#receiveFitting`, for a table that has no dataset yet. */
  #receiveFirst({ source, on, flags, rules: asked }: MergeRowsCommand, { properties }: TableRecord) {
    return this.#deps.metrics.writeStage('receive', async (): Promise<MergeReceived> => {
      const { schema, rules, invalid } = await rulesOfFirst(source, (metadata) =>
        rulesOf(asked, flags, properties, metadata),
      );
      requireMarks({ on, rules }, schema);
      const written = columnsToWrite(schema, { ...schema, fields: [] }, rules);
      requireStorable(written, on, rules);
      const sent = await source.whole();
      if (rules.tombstone !== undefined) {
        const split = await splitSource(sent, { on, flags, rules, table: written, invalid }, this.#deps.keyHasher);
        if (split.marked.rows > 0)
          throw invalidInput(
            'tombstone: the table has no rows yet that marked ones could delete: send the others first',
          );
        requireFewInvalid(rules.invalid, invalid, split.unmarked.rows + split.numDuplicateRows);
        return { chunk: joinBatches(split.unmarked), rules, invalid, split };
      }
      const chunk = validRows(sent, on, rules, invalid);
      return { chunk, rules, invalid };
    });
  }

  #check(
    { chunk, rules, invalid, split }: MergeReceived,
    merged: Omit<Merged, 'rules'>,
    keyed: Keyed | undefined,
  ): Promise<ReadySource> {
    return this.#deps.metrics.writeStage('check', async () => {
      const rows = await readSourceKeys(chunk, { ...merged, rules }, this.#deps.keyHasher);
      const numDuplicateRows = rows.numDuplicateRows + (split?.numDuplicateRows ?? 0);
      return { ...rows, numDuplicateRows, rules, invalid, split, keyed: await keyed?.request() };
    });
  }

  async #submit(
    table: TableRecord,
    { branch, on, flags, useIndex, bounds: asked }: MergeRowsCommand,
    source: FittingSource,
    scope: RequestScope,
  ): Promise<MergeRowsResult> {
    const { access, writer, newId, metrics } = this.#deps;
    const { chunk, keys, digests, keyed, checked, absent, rules } = source;
    requireFewNested(chunk, on);
    if (source.split !== undefined) requireFewNested(source.split.marked, on);
    const transactionId = newTransactionId(newId);
    const spec = { ...flags, useIndex };
    const { properties } = table;
    const deletes = flags.whenNotMatchedBySourceDelete !== false || rules.tombstone !== undefined;
    const bounds = writeBounds(asked, deletes ? { properties, metadata: checked.metadata } : undefined);
    const write = {
      kind: 'merge',
      operation: 'merge_insert',
      table,
      branch,
      scope,
      transactionId,
      keyed,
      bounds,
    } as const;
    const { versionColumn } = rules;
    const told = toldOf(source);
    const fit = fitOf(chunk, checked, (rows, now) => requireAllFit(rows, now, { on, flags, rules }, chunk.rows === 0));
    const marked =
      source.split &&
      (await mergeOfMarked(source.split, { branch, scope, on, spec, versionColumn }, this.#deps.keyHasher));
    const merge = { on, spec, chunk, keys, digests, absent, versionColumn, marked };
    const request: MergeRequest = { ...write, ...merge, fit, told };
    return access.onFilesOf(table, async () => {
      const counts = await writer.write(request, { batchKey: batchKey(request), size: chunk });
      const { numInsertedRows: inserted, numUpdatedRows: updated, numDeletedRows: deleted } = counts;
      if (bounds?.isDryRun === true) return { transactionId, ...counts, isDryRun: true };
      metrics.mergeFinished({ inserted, updated, deleted });
      return { transactionId, ...counts };
    });
  }

  /**
   * If another request creates the table while this one receives its body, the rows are merged like any others. Only where NULLs
   * have to be added to them the client has to send the request again: the body was received without memory for those.
   */
  async #mergeIntoDeclared(
    declared: TableRecord,
    command: MergeRowsCommand,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<MergeRowsResult> {
    if (command.branch !== undefined) throw branchOfDeclared(declared);
    const { access, locks } = this.#deps;
    const received = await this.#receiveFirst(command, declared);
    const source = await this.#check(received, { ...command, flags: upsert }, keyed);
    const { chunk, rules } = source;
    const release = await locks.lockExclusive(command.table, scope.signal);
    try {
      const record = await access.find(command.table);
      if (record.state === 'declared') return await this.#materialise(record, source, scope);
    } finally {
      release();
    }
    const created = await access.findCreated(command.table);
    const dataset = await access.lastSeen(created, undefined);
    const merged = { ...command, rules };
    const { schema, file } = await fittingSchema(dataset, (table) => {
      requireFitting(chunk.schema, table, merged);
    });
    const nullBytes = nullBytesPerRow(chunk.schema, schema);
    if (requireFitting(chunk.schema, schema, merged) !== undefined) {
      const sent = { chunk, nullBytesPerRow: 0, invalid: received.invalid, metadata: schema.metadata };
      return this.#extend(created, command, sent, scope, keyed);
    }
    if (nullBytes > 0 || fitRows(chunk, schema, file) !== chunk) {
      throw new LancegateError(
        'ConcurrentModification',
        `table '${showTable(declared.ref)}' was created while the body arrived, with columns that it lacks; nothing was written`,
        { retryAfterSeconds: 1 },
      );
    }
    return this.#submit(created, command, { ...source, checked: schema, absent: [] }, scope);
  }

  /** The table stays as it is. Its first version is not there, so the answer names version 0. */
  async #dryRunOfDeclared(declared: TableRecord, command: MergeRowsCommand): Promise<MergeRowsResult> {
    if (command.branch !== undefined) throw branchOfDeclared(declared);
    const schema = declaredColumns(declared.properties);
    const isMadeOfRows = schema.fields.length === 0;
    const columns = { schema, file: emptyFile(schema.fields) };
    const received = isMadeOfRows
      ? await this.#receiveFirst(command, declared)
      : await this.#receiveFitting(command, declared, {
          columns: async () => columns,
          refresh: async () => undefined,
        });
    const source = await this.#check(received, isMadeOfRows ? { ...command, flags: upsert } : command, undefined);
    const inserts = isMadeOfRows || command.flags.whenNotMatchedInsertAll;
    const counts = { numInsertedRows: inserts ? source.chunk.rows : 0, numUpdatedRows: 0, numDeletedRows: 0 };
    const isVersioned = source.rules.versionColumn !== undefined && { numStaleRows: 0 };
    const transactionId = newTransactionId(this.#deps.newId);
    return { transactionId, version: 0, numAttempts: 1, ...counts, ...toldOf(source), ...isVersioned, isDryRun: true };
  }

  /** There are no rows to merge with, so the table is created with the rows of the source. */
  async #materialise(declared: TableRecord, source: ReadySource, scope: RequestScope): Promise<MergeRowsResult> {
    const { chunk, keyed, rules } = source;
    await using creation = await this.#deps.maker.beginDeclared(declared);
    const written = await creation.write([chunk], scope.signal);
    scope.signal.throwIfAborted();
    const { transactionId, version, rows } = written;
    const counts = { numInsertedRows: rows, numUpdatedRows: 0, numDeletedRows: 0, numAttempts: 1 };
    const isVersioned = rules.versionColumn !== undefined && { numStaleRows: 0 };
    const result = { transactionId, version, ...counts, ...toldOf(source), ...isVersioned };
    await creation.publish(written, {
      operation: 'merge_insert',
      outcome: outcomeOf(result),
      answer: keyed && keyedAnswer(keyed, result),
    });
    return result;
  }
}

/** Looks at what NULL in a key makes invalid, and at how many rows are by now. */
function validRows(
  sent: IpcChunk,
  on: readonly FieldPath[],
  { keyRequired, invalid: rules }: RowRules,
  invalid: InvalidRows | undefined,
): IpcChunk {
  const chunk = joinBatches(keyRequired ? withRequiredKeys(sent, on, invalid) : sent);
  requireFewInvalid(rules, invalid, chunk.rows);
  return chunk;
}

/** Only marked rows may lack columns of the table. */
function requireSplitFit(
  { unmarked, marked, numDuplicateRows }: SplitSource,
  table: Schema,
  merged: Merged & { readonly rules: RowRules },
  invalid: InvalidRows | undefined,
): void {
  requireFewInvalid(merged.rules.invalid, invalid, unmarked.rows + numDuplicateRows + marked.rows);
  if (unmarked.rows > 0) requireAllFit(unmarked.schema, table, merged);
}

/** A key is there once in a table that is made, whatever the merge does. */
const upsert = {
  whenMatchedUpdateAll: true,
  whenNotMatchedInsertAll: true,
  whenNotMatchedBySourceDelete: false,
} as const;
