/** Takes one of several operations from its description to what it does in a shadow. A refusal names the operation (P6). */
import { nullBytesPerRow } from '../../arrow/column/fitted-rows.ts';
import type { IpcChunk, Schema } from '../../arrow/schema/schema.ts';
import type { ArrowSource } from '../../arrow/stream/source-reader.ts';
import type { ComputedStep, StepTotals } from '../../change/change-request.ts';
import type { ChangeLimits } from '../../engine/port/change-limits.ts';
import type { TableColumns } from '../../engine/port/column-view.ts';
import type { Shadow } from '../../engine/port/shadow.ts';
import { InsertStep, requireInsertable } from '../../insert/insert-step.ts';
import { requireFitting } from '../../merge/fitting-source.ts';
import { MergeStep, type MergeStepDeps } from '../../merge/merge-step.ts';
import { rulesOf } from '../../merge/row-rules.ts';
import { sourceRulesOf } from '../../table/row-faults.ts';
import type { RuleTexts } from '../../table/standing-rules.ts';
import { kindOf, type NamedOperation, ofOperation, sourceOf, type TransactOperation } from './operation-kinds.ts';

/** Writes the rows of its source. */
type RowsStep = MergeStep | InsertStep;

export class PlannedOperation implements ComputedStep {
  readonly operation: NamedOperation;
  readonly #deps: MergeStepDeps;
  #chunk: IpcChunk | undefined;
  #rows: RowsStep | undefined;
  /** Whether the table may get columns with its rows. */
  readonly #extends: boolean;

  constructor(operation: NamedOperation, deps: MergeStepDeps, table: Schema) {
    this.operation = operation;
    this.#deps = deps;
    this.#extends = mayExtend(operation, deps, table);
  }

  /** Whether those after it find the columns that it finds. */
  get leavesColumns(): boolean {
    return kindOf(this.operation.does).changesRowsOnly && !this.#extends;
  }

  get changesRowsOnly(): boolean {
    return this.#rows?.changesRowsOnly ?? kindOf(this.operation.does).changesRowsOnly;
  }

  get lacksSource(): boolean {
    return sourceOf(this.operation.does) !== undefined && this.#chunk === undefined;
  }

  /** `isFound`: it finds the columns of the table, so a source that does not fit is refused as soon as its schema is there. */
  receive(source: ArrowSource, table: Schema, isFound: boolean): Promise<void> {
    return this.#named(async () => {
      const { does } = this.operation;
      const schema = await source.schema();
      if (isFound) requireSourceFits(does, schema, table, this.#deps);
      const nullBytes = does.kind === 'add_columns' ? 0 : nullBytesPerRow(schema, table);
      const chunk = await source.whole(nullBytes);
      this.#chunk = chunk;
      const sent = { chunk, nullBytesPerRow: nullBytes };
      if (does.kind === 'merge_insert')
        this.#rows = new MergeStep({ ...does, rules: askedOf(does) }, { ...sent, invalid: undefined }, this.#deps);
      if (does.kind === 'insert')
        this.#rows = new InsertStep(
          does.rules,
          { nullBytesPerRow: nullBytes, empty: chunk, all: () => [chunk] },
          { ...this.#deps, invalid: undefined },
        );
    });
  }

  /** Throws what refuses it at a table with these columns. What takes long is not done again where it finds them. */
  prepare(found: TableColumns): Promise<void> {
    return this.#named(async () => {
      const { does } = this.operation;
      if (this.#rows !== undefined) await this.#rows.prepare(found);
      else kindOf(does).stepOf?.(does, this.#chunk, found.schema);
    });
  }

  run(shadow: Shadow, limits: ChangeLimits): Promise<StepTotals> {
    return this.#named(async () => {
      if (this.#rows !== undefined) return this.#rows.run(shadow, limits);
      const { does } = this.operation;
      const found = await shadow.columns();
      const filed = kindOf(does).stepOf?.(does, this.#chunk, found.schema);
      return filed === undefined ? nothing : shadow.change(filed.step, filed.file, limits);
    });
  }

  async #named<Result>(run: () => Promise<Result>): Promise<Result> {
    try {
      return await run();
    } catch (error) {
      throw ofOperation(this.operation.name, error);
    }
  }
}

const nothing: StepTotals = { numInsertedRows: 0, numUpdatedRows: 0, numDeletedRows: 0 };

/** One operation takes all of its rows, or is refused, whatever the table says. */
const askedOf = ({ rules }: { readonly rules: RuleTexts }): RuleTexts => ({
  ...rules,
  on_invalid: '',
  max_invalid: '',
});

function mayExtend({ name, does }: NamedOperation, { properties }: MergeStepDeps, { metadata }: Schema): boolean {
  try {
    if (does.kind === 'merge_insert') return rulesOf(askedOf(does), does.flags, properties, metadata).extends;
    return does.kind === 'insert' && sourceRulesOf(askedOf(does), properties, metadata).extends;
  } catch (error) {
    throw ofOperation(name, error);
  }
}

function requireSourceFits(
  does: TransactOperation,
  source: Schema,
  table: Schema,
  { properties }: MergeStepDeps,
): void {
  if (does.kind === 'merge_insert') {
    const { on, flags } = does;
    requireFitting(source, table, { on, flags, rules: rulesOf(askedOf(does), flags, properties, table.metadata) });
  } else if (does.kind === 'insert') {
    requireInsertable(source, table, sourceRulesOf(askedOf(does), properties, table.metadata));
  }
}
