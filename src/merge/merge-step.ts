/** A merge as a step in a shadow: one of several operations, or one whose source extends the table. */
import { isDeepStrictEqual } from 'node:util';
import type { SchemaExtension } from '../arrow/schema/extended-schema.ts';
import type { Schema } from '../arrow/schema/schema.ts';
import { withTypesOf } from '../arrow/schema/wider-types.ts';
import type { ComputedStep, StepTotals } from '../change/change-request.ts';
import { type Extender, extendColumns, requireActions } from '../change/extend-columns.ts';
import { fittedRows, type SourceRows } from '../change/source-rows.ts';
import type { ChangeLimits } from '../engine/port/change-limits.ts';
import type { TableColumns } from '../engine/port/column-view.ts';
import type { Datasets } from '../engine/port/engine.ts';
import type { Shadow } from '../engine/port/shadow.ts';
import type { Clock } from '../kernel/clock.ts';
import type { ToldOfColumns } from '../kernel/column-changes.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { BranchName, Properties } from '../kernel/ids.ts';
import { InvalidRows } from '../kernel/invalid-rows.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { KeyHasher } from '../keys/key-hasher.ts';
import { withRequiredKeys } from '../table/row-faults.ts';
import { Batch, type MergeOfRows, type Told } from './batch.ts';
import { completeBatch, fieldsToKeep } from './completed-batch.ts';
import { requireFewNested, requireFitting, toldOf } from './fitting-source.ts';
import { type ReadColumns, soughtKeys } from './key-index/key-lookup.ts';
import type { MergeRowsCommand } from './merge-command.ts';
import { newestRows, readVersions } from './newest-rows.ts';
import { type RowRules, readSourceKeys, rulesOf } from './row-rules.ts';
import { mergeAsStep } from './strategy/in-shadow.ts';
import { deletedBy, Tombstones } from './tombstones.ts';

type AskedMerge = Pick<MergeRowsCommand, 'on' | 'flags' | 'rules'>;

export interface MergeStepDeps {
  readonly engine: Datasets;
  readonly keyHasher: KeyHasher;
  readonly clock: Clock;
  readonly branch: BranchName | undefined;
  /** Of the table. */
  readonly properties: Properties;
  readonly scope: RequestScope;
  readonly extender: Extender;
}

export interface MergeSource extends SourceRows {
  /** Those that were left out of it; undefined where none is reported. */
  readonly invalid: InvalidRows | undefined;
}

/** Keys were read of a source for a table with these columns. */
interface ReadyMerge {
  readonly schema: Schema;
  readonly merge: MergeOfRows;
  readonly told: Told;
}

export class MergeStep implements ComputedStep {
  readonly #asked: AskedMerge;
  readonly #sent: MergeSource;
  readonly #deps: MergeStepDeps;
  #ready: ReadyMerge | undefined;
  #hasExtended = false;

  constructor(asked: AskedMerge, sent: MergeSource, deps: MergeStepDeps) {
    this.#asked = asked;
    this.#sent = sent;
    this.#deps = deps;
  }

  get changesRowsOnly(): boolean {
    return !this.#hasExtended;
  }

  /** Throws what refuses it at a table with these columns. What takes long is not done again where it finds them. */
  async prepare(found: TableColumns): Promise<void> {
    const extension = this.#requireFit(found.schema, this.#rulesAt(found.schema));
    if (extension === undefined) this.#ready = await this.#readyMerge(found);
    else requireActions(extension, this.#deps.extender.requireAction);
  }

  async run(shadow: Shadow, limits: ChangeLimits): Promise<StepTotals> {
    const { columns, told } = await this.#extend(shadow, limits);
    const totals = await this.#merge(shadow, columns, limits);
    return { ...totals, ...told };
  }

  #rulesAt(schema: Schema): RowRules {
    const { rules, flags } = this.#asked;
    const found = rulesOf(rules, flags, this.#deps.properties, schema.metadata);
    if (found.tombstone === undefined) return found;
    throw invalidInput('tombstone: a merge in a transact has no marked rows; send an empty tombstone to do without');
  }

  #requireFit(table: Schema, rules: RowRules): SchemaExtension | undefined {
    return requireFitting(this.#sent.chunk.schema, table, { ...this.#asked, rules });
  }

  async #extend(
    shadow: Shadow,
    limits: ChangeLimits,
  ): Promise<{ readonly columns: TableColumns; readonly told: ToldOfColumns }> {
    const columns = await shadow.columns();
    const extension = this.#requireFit(columns.schema, this.#rulesAt(columns.schema));
    this.#hasExtended = extension !== undefined;
    if (extension === undefined) return { columns, told: {} };
    return extendColumns(shadow, this.#sent.chunk, this.#deps.extender, limits);
  }

  async #merge(shadow: Shadow, found: TableColumns, limits: ChangeLimits): Promise<StepTotals> {
    const ready = this.#ready;
    const isReady = ready !== undefined && isDeepStrictEqual(ready.schema, found.schema);
    const { merge, told } = isReady ? ready : await this.#readyMerge(found);
    const sent = new Batch([merge], false, this.#deps.keyHasher);
    const { versionColumn } = merge;
    const isVersioned = versionColumn !== undefined && { numStaleRows: 0 };
    if (sent.changesNothing) return { ...nothing, ...told, ...isVersioned };
    const { where } = soughtKeys(sent);
    const read: ReadColumns = (columns) => shadow.select(columns, where, limits);
    const { batch: newest, numStaleRows } =
      versionColumn === undefined
        ? { batch: sent }
        : await newestRows(
            sent,
            versionColumn,
            await readVersions(sent, versionColumn, read),
            deletedBy(Tombstones.of(shadow.settings()), this.#deps.clock.nowMs()),
          );
    const said = { ...told, ...(numStaleRows && { numStaleRows: numStaleRows[0] ?? 0 }) };
    if (newest.changesNothing) return { ...nothing, ...said };
    const batch = await completeBatch(newest, read);
    const { totals, surplusRows } = await mergeAsStep(this.#deps.engine, { columns: found, shadow }, batch);
    return { ...totals, ...said, surplusRows };
  }

  async #readyMerge(found: TableColumns): Promise<ReadyMerge> {
    const { on, flags } = this.#asked;
    const { branch, scope, keyHasher } = this.#deps;
    const rules = this.#rulesAt(found.schema);
    this.#requireFit(found.schema, rules);
    const { invalid: leftOut } = this.#sent;
    const invalid = leftOut && InvalidRows.of(leftOut.report()); // another attempt leaves the same rows out
    const fitting = fittedRows(this.#sent, found);
    const chunk = rules.keyRequired ? withRequiredKeys(fitting, on, invalid) : fitting;
    requireFewNested(chunk, on);
    const { numDuplicateRows, ...rows } = await readSourceKeys(chunk, { on, flags, rules }, keyHasher);
    const absent = fieldsToKeep(withTypesOf(this.#sent.chunk.schema, found.schema), found.schema, flags);
    const spec = { ...flags, useIndex: false };
    const { versionColumn } = rules;
    const told = toldOf({ rules, numDuplicateRows, invalid });
    return { schema: found.schema, told, merge: { branch, scope, on, spec, absent, ...rows, versionColumn } };
  }
}

const nothing: StepTotals = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 };
