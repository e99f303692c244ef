/** An insert as a step in a shadow: one of several operations, or one whose source extends the table. */
import { extensionOf, type SchemaExtension } from '../arrow/schema/extended-schema.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { checkSourceFits } from '../arrow/schema/schema-rules.ts';
import { withTypesOf } from '../arrow/schema/wider-types.ts';
import type { ComputedStep, StepTotals } from '../change/change-request.ts';
import { type Extender, extendColumns, requireActions } from '../change/extend-columns.ts';
import { fittedRows, type SourceRows } from '../change/source-rows.ts';
import type { ChangeLimits } from '../engine/port/change-limits.ts';
import type { TableColumns } from '../engine/port/column-view.ts';
import type { Shadow } from '../engine/port/shadow.ts';
import type { Properties } from '../kernel/ids.ts';
import type { InvalidRows } from '../kernel/invalid-rows.ts';
import { type SourceRules, sourceRulesOf, toldOfRules } from '../table/row-faults.ts';
import type { RuleTexts } from '../table/standing-rules.ts';

/** Requires that the source fits the table, or extends it where it may. Answers how it does; undefined where the table has room for it. */
export function requireInsertable(
  source: Schema,
  table: Schema,
  rules: Pick<SourceRules, 'extends'>,
): SchemaExtension | undefined {
  const extension = rules.extends ? extensionOf(source, table) : undefined;
  const after = extension?.schema ?? table;
  checkSourceFits(rules.extends ? withTypesOf(source, after) : source, after);
  return extension;
}

/** The rows of a source, in one part or more of the same columns. */
interface SentParts extends Pick<SourceRows, 'nullBytesPerRow'> {
  /** It has the columns; what rows it has does not matter. */
  readonly empty: Pick<IpcChunk, 'schema' | 'file'>;
  all(limits: ChangeLimits): AsyncIterable<IpcChunk> | Iterable<IpcChunk>;
}

interface InsertStepDeps {
  /** It counts the rows that were left out; undefined where none is reported. */
  readonly invalid: InvalidRows | undefined;
  /** Of the table. */
  readonly properties: Properties;
  readonly extender: Extender;
}

export class InsertStep implements ComputedStep {
  readonly #asked: RuleTexts;
  readonly #sent: SentParts;
  readonly #deps: InsertStepDeps;
  #hasExtended = false;

  constructor(asked: RuleTexts, sent: SentParts, deps: InsertStepDeps) {
    this.#asked = asked;
    this.#sent = sent;
    this.#deps = deps;
  }

  get changesRowsOnly(): boolean {
    return !this.#hasExtended;
  }

  /** Throws what refuses it at a table with these columns. */
  prepare(found: TableColumns): void {
    const { extension } = this.#fit(found);
    if (extension !== undefined) requireActions(extension, this.#deps.extender.requireAction);
  }

  async run(shadow: Shadow, limits: ChangeLimits): Promise<StepTotals> {
    const found = await shadow.columns();
    const { extension, rules } = this.#fit(found);
    this.#hasExtended = extension !== undefined;
    const { columns, told } =
      extension === undefined
        ? { columns: found, told: {} }
        : await extendColumns(shadow, this.#sent.empty, this.#deps.extender, limits);
    let rows = 0;
    for await (const part of this.#sent.all(limits)) {
      if (part.rows === 0) continue;
      const chunk = fittedRows({ ...this.#sent, chunk: part }, columns);
      await shadow.change({ kind: 'append', rows: chunk.rows }, chunk.file, limits);
      rows += chunk.rows;
    }
    return {
      numInsertedRows: rows,
      numUpdatedRows: 0,
      numDeletedRows: 0,
      ...told,
      ...toldOfRules({ rules, invalid: this.#deps.invalid }),
    };
  }

  #fit({ schema }: TableColumns) {
    const rules = sourceRulesOf(this.#asked, this.#deps.properties, schema.metadata);
    return { rules, extension: requireInsertable(this.#sent.empty.schema, schema, rules) };
  }
}
