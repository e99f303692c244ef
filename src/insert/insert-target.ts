/** What rows of an insert are received for: the columns of their table, with those that come with them. */
import { fitRows, nullBytesPerRow } from '../arrow/column/fitted-rows.ts';
import type { SchemaExtension } from '../arrow/schema/extended-schema.ts';
import { isFitted } from '../arrow/schema/fitted-schema.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { checkStorable } from '../arrow/schema/schema-rules.ts';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { TableRecord } from '../catalog/port.ts';
import { type Extender, requireActions } from '../change/extend-columns.ts';
import type { TableColumns } from '../engine/port/column-view.ts';
import { requireRowEnds } from '../table/row-ends.ts';
import {
  leftOutOf,
  requireFewInvalid,
  sourceRulesOf,
  type Taking,
  withoutUnallowedNulls,
} from '../table/row-faults.ts';
import type { RuleTexts } from '../table/standing-rules.ts';
import { fittingSchema } from '../table/table-access.ts';
import type { InsertMode } from './insert-kind.ts';
import { requireInsertable } from './insert-step.ts';

interface SentInsert {
  readonly mode: InsertMode;
  readonly rules: RuleTexts;
  readonly source: ArrowSource;
  readonly requireAction: Extender['requireAction'];
}

/** What an append is received for. */
export interface TargetColumns extends TableColumns {
  /** What the table lacks, and is to get with the rows. */
  readonly extension: SchemaExtension | undefined;
  /** The columns that it has with that. */
  readonly after: Schema;
}

export async function targetOf(
  table: TableRecord,
  command: SentInsert,
  dataset: Parameters<typeof fittingSchema>[0],
): Promise<Taking & { readonly target: TargetColumns | undefined }> {
  const { mode, source, rules: asked } = command;
  const rulesFor = ({ metadata }: Schema) => sourceRulesOf(asked, table.properties, metadata);
  const rules = rulesFor((await fittingSchema(dataset, rulesFor)).schema);
  if (mode === 'append') await source.readFor(() => dataset.columns(), rules.extends);
  const invalid = leftOutOf(source, rules.invalid);
  return { rules, invalid, target: await fittingTarget(table, command, dataset) };
}

/** A source that neither fits the table nor extends it is refused. An overwrite has its own columns. */
export async function fittingTarget(
  { properties }: TableRecord,
  { mode, rules: asked, source, requireAction }: SentInsert,
  dataset: Parameters<typeof fittingSchema>[0],
): Promise<TargetColumns | undefined> {
  const schema = await source.schema();
  if (mode !== 'append') {
    checkStorable(schema);
    requireRowEnds(properties, schema);
    return undefined;
  }
  const fitTo = (table: Schema) => requireInsertable(schema, table, sourceRulesOf(asked, properties, table.metadata));
  const read = async (): Promise<TargetColumns> => {
    const columns = await fittingSchema(dataset, fitTo);
    const extension = fitTo(columns.schema);
    return { ...columns, extension, after: extension?.schema ?? columns.schema };
  };
  const seen = await read();
  if (seen.extension === undefined) return seen;
  await dataset.refresh(); // another program may have added the columns
  const target = await read();
  if (target.extension !== undefined) requireActions(target.extension, requireAction);
  return target;
}

/** Says whether NULLs are to be added, or columns to be laid out as the table's, which takes the whole source in memory. */
export async function needsWhole(source: ArrowSource, table: Schema): Promise<boolean> {
  const schema = await source.schema();
  return nullBytesPerRow(schema, table) > 0 || !isFitted(schema, table);
}

/** All rows that break no rule of the table, laid out as its own unless they extend it. */
export async function wholeValid(
  source: ArrowSource,
  target: TargetColumns,
  { rules, invalid }: Taking,
): Promise<IpcChunk> {
  const { schema, file, extension, after } = target;
  const sent = await source.whole(nullBytesPerRow(await source.schema(), after));
  const valid = withoutUnallowedNulls(sent, after, invalid);
  const chunk = extension === undefined ? fitRows(valid, schema, file) : valid;
  requireFewInvalid(rules.invalid, invalid, chunk.rows);
  return chunk;
}
