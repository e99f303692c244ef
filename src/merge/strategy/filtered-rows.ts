/**
 * Which of the rows that a merge would update its filter lets through. The engine judges, in a scratch dataset with the columns that
 * the filter may name and a row for each row of the table: so it takes as long for a table of many columns as for one of few.
 */

import { RowPlaces } from '../../arrow/column/batch-plan.ts';
import type { ColumnData } from '../../arrow/column/column-data.ts';
import { nulls } from '../../arrow/column/fitted-rows.ts';
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import { type Field, type IpcChunk, leastRowBytes, type Schema } from '../../arrow/schema/schema.ts';
import { assembleRows, type ColumnOrigin } from '../../arrow/stream/assembled-rows.ts';
import { EncodedColumns } from '../../arrow/stream/encoded-columns.ts';
import { chunkOfFile, joinFiles } from '../../arrow/stream/ipc-chunks.ts';
import type { ChangeLimits } from '../../engine/port/change-limits.ts';
import type { Datasets, Scratch } from '../../engine/port/engine.ts';
import type { Projection } from '../../engine/port/merge-spec.ts';
import { rowAddress } from '../../engine/port/row-address.ts';
import type { Shadow } from '../../engine/port/shadow.ts';
import { type Filtered, ownSql } from '../../kernel/checked-sql.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { pairedInEach } from '../../kernel/paired.ts';
import { sqlFieldPath } from '../../keys/key-columns.ts';
import { wordsIn } from './strategy.ts';
import type { RowToWrite } from './whole-rows.ts';

const addressColumn = '__lancegate_key_0';
const originColumn = '__lancegate_origin';

const mostBytesAtOnce = 16 * 2 ** 20;
const mostRowsAtOnce = 20_000;

interface FilteredMerge {
  readonly engine: Datasets;
  readonly shadow: Shadow;
  readonly table: Schema;
  readonly source: IpcChunk;
  readonly filter: Filtered;
  readonly limits: () => ChangeLimits;
}

/** Each of the rows has another `old`. Also where there are none, a filter that is no condition is refused. */
export async function rowsPassing(merge: FilteredMerge, rows: readonly RowToWrite[]): Promise<readonly RowToWrite[]> {
  const { engine, shadow, table, source, filter, limits } = merge;
  requireSourceColumns(filter.filter, source.schema);
  const text = filter.filter.toLowerCase();
  const named = table.fields.filter(({ name }) => text.includes(name.toLowerCase()));
  const fields = named.length > 0 ? named : table.fields.slice(0, 1);
  const most = Math.floor(mostBytesAtOnce / Math.max(1, leastRowBytes({ fields })));
  const step = Math.max(1, Math.min(mostRowsAtOnce, most));
  const view = await shadow.view(
    fields.map(({ name }) => name),
    limits(),
  );
  const scratch = await engine.scratch();
  try {
    const passing: RowToWrite[] = [];
    for (let at = 0; at === 0 || at < rows.length; at += step) {
      const part = rows.slice(at, at + step);
      const addresses = part.flatMap(({ old }) => old ?? []);
      const columns = projections(fields);
      const stored = await joined(
        addresses.length > 0 ? view.take(addresses, columns) : view.select(columns, ownSql('false')),
      );
      const passed = await passingIn(scratch, `part${at}`, stored, merge, part);
      passing.push(...part.filter(({ old }) => old !== undefined && passed.has(BigInt(old))));
    }
    return passing;
  } finally {
    view.discard();
    await scratch.discard();
  }
}

const projections = (fields: readonly Field[]): readonly Projection[] => [
  ...fields.map(({ name }) => ({ name, expression: sqlFieldPath({ segments: [name] }) })),
  { name: addressColumn, expression: rowAddress },
  { name: originColumn, expression: `'target'` },
];

async function joined(files: AsyncIterable<IpcFile>): Promise<IpcFile> {
  return joinFiles(await Array.fromAsync(files));
}

/** The addresses of the rows that the engine updates in a merge by these. */
async function passingIn(
  scratch: Scratch,
  name: string,
  stored: IpcFile,
  { source, filter, limits }: FilteredMerge,
  rows: readonly RowToWrite[],
): Promise<ReadonlySet<bigint>> {
  const found = await scratch.create(name, stored);
  try {
    const spec = {
      on: [addressColumn],
      whenMatchedUpdateAll: filter,
      whenNotMatchedInsertAll: false,
      whenNotMatchedBySourceDelete: false,
      useIndex: false,
    };
    await found.change({ kind: 'merge', spec }, sentRows(source, stored, rows).file, limits());
    const columns = [{ name: addressColumn, expression: addressColumn }];
    return new Set(wordsIn(await joined(found.select(columns, ownSql(`${originColumn} = 'source'`), limits()))));
  } finally {
    found.close();
  }
}

/** The rows of the source, with the columns of the stored ones. What the source does not send the filter does not name of it. */
function sentRows(source: IpcChunk, stored: IpcFile, rows: readonly RowToWrite[]): IpcChunk {
  const { schema } = chunkOfFile(stored);
  const read = new EncodedColumns();
  const batches = read.read(source);
  const places = batches.flatMap(({ rows: count }, batch) =>
    Array.from({ length: count }, (_, row) => [batch, row] as const),
  );
  const sent = new RowPlaces(rows.map((row) => places[row.source]));
  const inTurn = new RowPlaces(rows.map((_, row) => [0, row]));
  const allTheSame = new RowPlaces(rows.map(() => [0, 0]));
  const ofBatches = batches.map(({ columns }) => columns);
  const sentColumns = pairedInEach(source.schema.fields, ofBatches);
  const originOf = (field: Field): ColumnOrigin => {
    if (field.name === addressColumn) return { batches: [addressesAsColumn(rows)], places: inTurn };
    if (field.name === originColumn) return { batches: [sourceAsColumn], places: allTheSame };
    const [, values] = sentColumns.find(([{ name }]) => name === field.name) ?? [];
    if (values === undefined) return { batches: [nulls(field, 1, field.nullable)], places: allTheSame };
    return { batches: values, places: sent };
  };
  return assembleRows({ schema, file: stored }, rows.length, originOf, read.encoding());
}

const withoutNulls = { validity: undefined, children: [] } as const;

const addressesAsColumn = (rows: readonly RowToWrite[]): ColumnData => ({
  ...withoutNulls,
  length: rows.length,
  bytes: new Uint8Array(BigUint64Array.from(rows, ({ old }) => BigInt(old ?? 0)).buffer),
  offsets: new Uint32Array(0),
});

const sourceAsColumn: ColumnData = {
  ...withoutNulls,
  length: 1,
  bytes: Buffer.from('source'),
  offsets: Uint32Array.of(0, 6),
};

const texts = /'(?:[^']|'')*'/g;
const ofSource =
  /(?:\bsource|[`"]source[`"])\s*\.\s*(?:`([^`]+)`|"([^"]+)"|([\p{Alphabetic}_][\p{Alphabetic}0-9_]*))/giu;

function requireSourceColumns(filter: string, { fields }: Schema): void {
  const known = new Set(fields.map(({ name }) => name.toLowerCase()));
  for (const [, ...names] of filter.replaceAll(texts, `''`).matchAll(ofSource)) {
    const name = names.find((each) => each !== undefined) ?? '';
    if (known.has(name.toLowerCase())) continue;
    throw new LancegateError(
      'TableColumnNotFound',
      `the filter of when_matched_update_all names a column that does not exist: source.${name}`,
    );
  }
}
