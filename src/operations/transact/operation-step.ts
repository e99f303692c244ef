/** Takes one of several operations from its description to what it does in a shadow. A refusal names the operation (P6). */
import { isDeepStrictEqual } from 'node:util';
import { canConcat, concatRows, joinBatches } from '../../arrow/column/concat-rows.ts';
import { fitRows, nullBytesPerRow } from '../../arrow/column/fitted-rows.ts';
import type { IpcChunk, Schema } from '../../arrow/schema/schema.ts';
import { checkSourceFits } from '../../arrow/schema/schema-rules.ts';
import type { ArrowSource } from '../../arrow/stream/source-reader.ts';
import type { ComputedStep, StepTotals } from '../../change/change-request.ts';
import type { ChangeLimits } from '../../engine/port/change-limits.ts';
import type { TableColumns } from '../../engine/port/column-view.ts';
import type { Datasets } from '../../engine/port/engine.ts';
import type { Shadow } from '../../engine/port/shadow.ts';
import { LancegateError } from '../../kernel/errors.ts';
import type { BranchName, Properties } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { KeyHasher } from '../../keys/key-hasher.ts';
import { Batch, type MergeOfRows, type Told } from '../../merge/batch.ts';
import { completeBatch, fieldsToKeep } from '../../merge/completed-batch.ts';
import { type ReadColumns, soughtKeys } from '../../merge/key-index/key-lookup.ts';
import { newestRows, readVersions } from '../../merge/newest-rows.ts';
import { requireFewNested, requireFit, toldOf } from '../../merge/request.ts';
import { readSourceKeys, requireVersions, rulesOf } from '../../merge/row-rules.ts';
import { mergeAsStep } from '../../merge/strategy/in-shadow.ts';
import { withRequiredKeys } from '../../table/row-faults.ts';
import {
  kindOf,
  type NamedOperation,
  ofOperation,
  received,
  sourceOf,
  type TransactOperation,
} from './operation-kinds.ts';

interface StepDeps {
  readonly engine: Datasets;
  readonly keyHasher: KeyHasher;
  readonly branch: BranchName | undefined;
  /** Of the table. */
  readonly properties: Properties;
  readonly scope: RequestScope;
}

/** Keys were read of a source for a table with these columns. */
interface ReadyMerge {
  readonly schema: Schema;
  readonly merge: MergeOfRows;
  readonly told: Told;
}

export class PlannedOperation implements ComputedStep {
  readonly operation: NamedOperation;
  readonly #deps: StepDeps;
  #chunk: IpcChunk | undefined;
  /** What each row of the source may take in columns that it leaves out. */
  #nullBytesPerRow = 0;
  #ready: ReadyMerge | undefined;

  constructor(operation: NamedOperation, deps: StepDeps) {
    this.operation = operation;
    this.#deps = deps;
  }

  get changesRowsOnly(): boolean {
    return kindOf(this.operation.does).changesRowsOnly;
  }

  get lacksSource(): boolean {
    return sourceOf(this.operation.does) !== undefined && this.#chunk === undefined;
  }

  /** `isFound`: it finds the columns of the table, so a source that does not fit is refused as soon as its schema is there. */
  receive(source: ArrowSource, table: Schema, isFound: boolean): Promise<void> {
    return this.#named(async () => {
      const { does } = this.operation;
      const schema = await source.schema();
      if (isFound) requireSourceFits(does, schema, table);
      this.#nullBytesPerRow = does.kind === 'add_columns' ? 0 : nullBytesPerRow(schema, table);
      this.#chunk = await source.whole(this.#nullBytesPerRow);
    });
  }

  /** Throws what refuses it at a table with these columns. What takes long is not done again where it finds them. */
  prepare(found: TableColumns): Promise<void> {
    return this.#named(async () => {
      const { does } = this.operation;
      if (does.kind === 'merge_insert') this.#ready = await this.#readyMerge(does, found);
      else if (does.kind === 'insert') this.#fitting(does, found);
      else kindOf(does).stepOf?.(does, this.#chunk, found.schema);
    });
  }

  run(shadow: Shadow, limits: ChangeLimits): Promise<StepTotals> {
    return this.#named(async () => {
      const { does } = this.operation;
      const found = await shadow.columns();
      if (does.kind === 'insert') return this.#insert(shadow, this.#fitting(does, found), limits);
      if (does.kind === 'merge_insert') return this.#merge(shadow, does, found, limits);
      const filed = kindOf(does).stepOf?.(does, this.#chunk, found.schema);
      return filed === undefined ? nothing : shadow.change(filed.step, filed.file, limits);
    });
  }

  async #insert(shadow: Shadow, chunk: IpcChunk, limits: ChangeLimits): Promise<StepTotals> {
    if (chunk.rows === 0) return nothing;
    return shadow.change({ kind: 'append', rows: chunk.rows }, chunk.file, limits);
  }

  async #merge(shadow: Shadow, does: MergeOperation, found: TableColumns, limits: ChangeLimits): Promise<StepTotals> {
    const ready = this.#ready;
    const isReady = ready !== undefined && isDeepStrictEqual(ready.schema, found.schema);
    const { merge, told } = isReady ? ready : await this.#readyMerge(does, found);
    const sent = new Batch([merge], false, this.#deps.keyHasher);
    if (sent.changesNothing) return { ...nothing, ...told };
    const { where } = soughtKeys(sent);
    const read: ReadColumns = (columns) => shadow.select(columns, where, limits);
    const { versionColumn } = merge;
    const { batch: newest, numStaleRows } =
      versionColumn === undefined
        ? { batch: sent }
        : await newestRows(sent, versionColumn, await readVersions(sent, versionColumn, read));
    const said = { ...told, ...(numStaleRows && { numStaleRows: numStaleRows[0] ?? 0 }) };
    if (newest.changesNothing) return { ...nothing, ...said };
    const batch = await completeBatch(newest, read);
    const { totals, surplusRows } = await mergeAsStep(this.#deps.engine, { columns: found, shadow }, batch);
    return { ...totals, ...said, surplusRows };
  }

  async #readyMerge(does: MergeOperation, found: TableColumns): Promise<ReadyMerge> {
    const { on, flags } = does;
    const { branch, scope, keyHasher, properties } = this.#deps;
    // One operation takes all of its rows, or is refused, whatever the table says.
    const asked = { ...does.rules, on_invalid: '', max_invalid: '' };
    const rules = rulesOf(asked, flags, properties, found.schema.metadata);
    const fitting = this.#fitting(does, found);
    const chunk = rules.keyRequired ? withRequiredKeys(fitting, on, undefined) : fitting;
    requireFewNested(chunk, on);
    requireVersions(rules, chunk.schema);
    const { numDuplicateRows, ...rows } = await readSourceKeys(chunk, { on, flags, rules }, keyHasher);
    const absent = fieldsToKeep(received(this.#chunk).schema, found.schema, flags);
    const spec = { ...flags, useIndex: false };
    const { versionColumn } = rules;
    const told = toldOf({ rules, numDuplicateRows, invalid: undefined });
    return { schema: found.schema, told, merge: { branch, scope, on, spec, absent, ...rows, versionColumn } };
  }

  /** Returns the rows, laid out as the columns that they go into. Of malformed values the engine might store a part. */
  #fitting(does: TransactOperation, { schema, file }: TableColumns): IpcChunk {
    const chunk = received(this.#chunk);
    requireSourceFits(does, chunk.schema, schema);
    const more = nullBytesPerRow(chunk.schema, schema) - this.#nullBytesPerRow;
    // No memory was reserved for columns that operations before it add.
    if (more * chunk.rows > 16 * 2 ** 20)
      throw new LancegateError(
        'BodyTooLarge',
        'its rows take too much memory with NULL in the columns that operations before it add: send fewer rows at a time',
      );
    const fitted = joinBatches(fitRows(chunk, schema, file));
    return canConcat([fitted]) ? concatRows([{ chunk: fitted, keep: undefined }]) : fitted;
  }

  async #named<Result>(run: () => Promise<Result>): Promise<Result> {
    try {
      return await run();
    } catch (error) {
      throw ofOperation(this.operation.name, error);
    }
  }
}

type MergeOperation = Extract<TransactOperation, { kind: 'merge_insert' }>;

const nothing: StepTotals = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 };

function requireSourceFits(does: TransactOperation, source: Schema, table: Schema): void {
  if (does.kind === 'merge_insert') requireFit(source, table, does);
  else if (does.kind === 'insert') checkSourceFits(source, table);
}
