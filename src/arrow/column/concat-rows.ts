/**
 * Makes rows of several sources one source, so that many small merges can share one commit. The sources come from
 * different clients: a fault of one must not fail the others, so values are checked on the way, and an error has the part at
 * fault.
 */
import { isDeepStrictEqual } from 'node:util';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { paired, pairedInEach } from '../../kernel/paired.ts';
import { copyOf, writeFile } from '../format/ipc-file.ts';
import { schemaMessage } from '../schema/read-schema.ts';
import type { Field, IpcChunk } from '../schema/schema.ts';
import { sameType } from '../schema/schema-rules.ts';
import { rowsWithoutBits } from './batch-buffers.ts';
import { allRows, BatchPlan, keptRows, type RowRuns } from './batch-plan.ts';
import { type ColumnData, readColumns } from './column-data.ts';

export interface RowsOf {
  readonly chunk: IpcChunk;
  /** It has a byte for each row of the chunk, over all its batches: 1 to take it, 0 to leave it out. Undefined takes all. */
  readonly keep: Uint8Array | undefined;
}

/** The buffers of one part are invalid; the others are as good as before. The message names the column, not the part. */
export class FaultyPart extends LancegateError {
  readonly part: number;

  constructor(part: number, fault: LancegateError) {
    super(fault.kind, fault.message, { cause: fault.cause });
    this.part = part;
  }

  /** Other errors than ours are the fault of no part, and stay what they are. */
  static of(part: number, error: unknown): unknown {
    return error instanceof LancegateError ? new FaultyPart(part, error) : error;
  }
}

/** Offsets of 32 bits are signed. */
const maxValues = 0x7fff_ffff;
/** Says whether values of the type may take no bit at all; `checkBatch` limits how many of them a batch has. */
const needsNoBit = ({ type, children }: Field): boolean =>
  type.kind === 'null' || (type.kind === 'struct' && children.length === 0) || children.some(needsNoBit);

const mostValues = ({ decodedBytes, batches, schema }: IpcChunk): number =>
  8 * decodedBytes + (schema.fields.some(needsNoBit) ? batches.length * rowsWithoutBits : 0);

const isPlain = ({ dictionary, children }: Field): boolean => dictionary === undefined && children.every(isPlain);

/**
 * What the first schema declares without NULL, the other must not declare with it. Metadata can make another type of one, as Arrow's
 * extension types do, so it must agree.
 */
const sameDeclared = (first: Field, other: Field): boolean =>
  (first.nullable || !other.nullable) &&
  isDeepStrictEqual(first.metadata, other.metadata) &&
  paired(first.children, other.children).every((pair) => sameDeclared(...pair));

const sameColumn = (first: Field, other: Field): boolean =>
  first.name === other.name && sameType(first, other) && sameDeclared(first, other);

const sameColumns = (first: readonly Field[], others: readonly Field[]): boolean =>
  first.length === others.length && paired(first, others).every((pair) => sameColumn(...pair));

/**
 * Says whether `concatRows` may be given these chunks: the same columns in the same order, none dictionary-encoded, no field
 * nullable that is not in the first chunk's schema, and together small enough for one batch (any that decode to less than
 * 128 MiB are, if no type is Null). The order of the chunks matters only to nullability.
 */
export function canConcat(chunks: readonly IpcChunk[]): boolean {
  const [first, ...others] = chunks;
  if (first === undefined || !first.schema.fields.every(isPlain)) return false;
  if (chunks.reduce((sum, chunk) => sum + mostValues(chunk), 0) > maxValues) return false;
  const message = schemaMessage(first.file);
  return others.every(
    (other) => message.equals(schemaMessage(other.file)) || sameColumns(first.schema.fields, other.schema.fields),
  );
}

/** One batch of a part, and which of its rows to take. */
interface Share {
  readonly columns: readonly ColumnData[];
  readonly runs: RowRuns;
}

function sharesOf({ chunk, keep }: RowsOf, part: number): Share[] {
  if ((keep?.length ?? chunk.rows) !== chunk.rows) throw new LancegateError('Internal', 'a mask of another length');
  let row = 0;
  try {
    return readColumns(chunk).map(({ rows, columns }) => {
      const runs = keep === undefined ? allRows(rows) : keptRows(keep.subarray(row, row + rows));
      row += rows;
      return { columns, runs };
    });
  } catch (error) {
    throw FaultyPart.of(part, error);
  }
}

/**
 * Joins the kept rows of the first part, then of the second, and so on, in one uncompressed batch under the schema of the first
 * part. For parts whose chunks `canConcat` allows, and of which none was released; the result does not need them any more,
 * and its own `release` does nothing. Throws `FaultyPart` for the first part with invalid buffers, in rows left out too.
 */
export function concatRows(parts: readonly RowsOf[]): IpcChunk {
  const first = parts[0]?.chunk;
  if (first === undefined) throw new LancegateError('Internal', 'no parts to concatenate');
  const shares = parts.flatMap(sharesOf).filter(({ runs }) => runs.rows > 0);
  const plan = new BatchPlan();
  const ofShares = shares.map(({ columns }) => columns);
  for (const [field, columns] of pairedInEach(first.schema.fields, ofShares)) {
    plan.addColumn(
      field,
      paired(columns, shares).map(([data, { runs }]) => ({ data, runs })),
    );
  }
  const rows = shares.reduce((sum, { runs }) => sum + runs.rows, 0);
  return {
    ...writeFile(schemaMessage(first.file), [], [plan.message(rows)]),
    schema: first.schema,
    rows,
    decodedBytes: plan.bytes,
    release: () => undefined,
  };
}

/**
 * The rows of one chunk for which `keep` has no 0, in batches as those of the chunk, whose reservation covers both. Its columns may be
 * dictionary-encoded. Throws `InvalidInput` on invalid buffers.
 */
export function keepRows(chunk: IpcChunk, keep: Uint8Array): IpcChunk {
  let row = 0;
  const kept = readColumns(chunk).map(({ rows, columns }) => {
    const runs = keptRows(keep.subarray(row, row + rows));
    row += rows;
    const plan = new BatchPlan();
    for (const [field, data] of paired(chunk.schema.fields, columns)) plan.addColumn(field, [{ data, runs }]);
    return { rows: runs.rows, message: plan.message(runs.rows) };
  });
  const batches = kept.filter(({ rows }) => rows > 0).map(({ message }) => message);
  const dictionaries = chunk.dictionaries.map((block) => copyOf(chunk.file, block));
  return {
    ...writeFile(schemaMessage(chunk.file), dictionaries, batches),
    schema: chunk.schema,
    rows: kept.reduce((sum, { rows }) => sum + rows, 0),
    decodedBytes: chunk.decodedBytes,
    release: chunk.release,
  };
}

/** From this many batches on, the engine is faster with one: its time for a merge grows with their square. */
const manyBatches = 64;
/** So many batches stay where they cannot be joined; the engine takes a third of a second for as many. */
const mostUnjoinedBatches = 1024;

/**
 * Puts the rows of a chunk that has many batches into one. Throws on invalid buffers, and `InvalidInput` for too many
 * batches that cannot be joined, such as those with dictionary-encoded columns.
 */
export function joinBatches(chunk: IpcChunk): IpcChunk {
  const { length } = chunk.batches;
  if (length < manyBatches) return chunk;
  if (canConcat([chunk])) return concatRows([{ chunk, keep: undefined }]);
  if (length <= mostUnjoinedBatches) return chunk;
  throw invalidInput(
    `the stream has ${length} record batches, and a merge with dictionary-encoded columns can have ${mostUnjoinedBatches}: put more rows into each`,
  );
}
