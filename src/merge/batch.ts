/**
 * The merges of one commit. They are applied as if one after the other, in their order: rows with one key end as its last
 * update left it, or with inserts alone as its first insert did. So one row for each key is written.
 */
import { canConcat, concatRows, type RowsOf } from '../arrow/column/concat-rows.ts';
import type { IpcChunk } from '../arrow/schema/ipc-chunk.ts';
import { schemaFingerprint } from '../arrow/schema/schema-message.ts';
import type { Dataset } from '../engine/port/engine.ts';
import type { PreparedRows } from '../engine/port/row-address.ts';
import type { CanonicalKey } from '../keys/key-columns.ts';
import type { MergeRequest, MergeRequests } from './merge-request.ts';

/** A source beyond this size gains nothing from a batch: its own rows cost more than its commit. */
const maxBatchableRows = 10_000;
const maxBatchRows = 50_000;
const maxBatchBytes = 32 * 2 ** 20;

/**
 * Equal for merges that may share a commit; undefined for one that is committed alone: merges that delete by source or
 * update under a filter (what a row becomes depends on the one before it), dictionary columns (a file holds each dictionary
 * once) and large sources.
 */
export function batchKey(request: MergeRequest): string | undefined {
  const { spec, chunk, on, table } = request;
  if (chunk.rows > maxBatchableRows || !canConcat([chunk])) return undefined;
  if (spec.whenNotMatchedBySourceDelete !== false || typeof spec.whenMatchedUpdateAll !== 'boolean') return undefined;
  const { whenMatchedUpdateAll, whenNotMatchedInsertAll, useIndex } = spec;
  const flags = [whenMatchedUpdateAll, whenNotMatchedInsertAll, useIndex];
  return JSON.stringify([table.id, on.map(({ segments }) => segments), flags, schemaFingerprint(chunk)]);
}

/** What one commit still has room for. */
export class BatchLimits {
  #rows = maxBatchRows;
  #bytes = maxBatchBytes;
  #isEmpty = true;

  /** False where it does not fit; the first always does. */
  take({ rows, decodedBytes }: { readonly rows: number; readonly decodedBytes: number }): boolean {
    if (!this.#isEmpty && (rows > this.#rows || decodedBytes > this.#bytes)) return false;
    this.#isEmpty = false;
    this.#rows -= rows;
    this.#bytes -= decodedBytes;
    return true;
  }
}

/** A request of the batch and a row of its source, in one number: an object for each key would cost more than the key. */
type SourceRow = number & { readonly sourceRow: true };
const sourceRow = (request: number, row: number): SourceRow => (request * maxBatchableRows + row) as SourceRow;
const requestOf = (source: SourceRow): number => Math.floor(source / maxBatchableRows);
const rowOf = (source: SourceRow): number => source % maxBatchableRows;

/** One row for each key. NULL is no key: such rows are all kept. */
interface DistinctRows {
  readonly parts: readonly RowsOf[];
  /** Every key of the batch that is not NULL, with the row that has it first. */
  readonly firstWith: ReadonlyMap<CanonicalKey, SourceRow>;
  readonly nullRows: number;
}

export class Batch {
  readonly requests: MergeRequests;
  /** By their keys alone: merges without filters that delete nothing, of few rows. Any other is the only one of its batch. */
  readonly isByKeys: boolean;
  #distinct: DistinctRows | undefined;
  #chunk: IpcChunk | undefined;
  #prepared: { readonly parts: readonly RowsOf[]; readonly rows: PreparedRows } | undefined;

  constructor(requests: MergeRequests, isByKeys: boolean) {
    this.requests = requests;
    this.isByKeys = isByKeys;
  }

  get first(): MergeRequest {
    return this.requests[0];
  }

  get numRows(): number {
    return this.requests.reduce((sum, { chunk }) => sum + chunk.rows, 0);
  }

  /** Without rows only a merge that deletes by source has anything to do. */
  get changesNothing(): boolean {
    return this.numRows === 0 && this.first.spec.whenNotMatchedBySourceDelete === false;
  }

  get hasNullKey(): boolean {
    return this.requests.some(({ keys }) => keys.hasNull);
  }

  /** The keys of a batch by keys, each once. */
  get keys(): Iterable<CanonicalKey> {
    return this.#rows.firstWith.keys();
  }

  get numKeys(): number {
    return this.requests.length === 1 ? this.numRows - this.numNullRows : this.#rows.firstWith.size;
  }

  get numNullRows(): number {
    if (this.requests.length > 1) return this.#rows.nullRows;
    const { keys } = this.first;
    if (!keys.hasNull) return 0;
    let nullRows = 0;
    for (let row = 0; row < keys.rows; row++) if (keys.isNull(row)) nullRows += 1;
    return nullRows;
  }

  /** Whether an earlier request of the batch has the key. */
  hasEarlier(key: CanonicalKey, request: number): boolean {
    const first = this.#rows.firstWith.get(key);
    return first !== undefined && requestOf(first) < request;
  }

  /** All rows as one source. Throws `FaultyPart` with the number of a request whose values lie. */
  chunk(): IpcChunk {
    this.#chunk ??= this.requests.length === 1 ? this.first.chunk : concatRows(this.#rows.parts);
    return this.#chunk;
  }

  /** One row for each key that `isWanted`, and for each NULL; `undefined` stands for that. */
  select(isWanted: (key: CanonicalKey | undefined) => boolean): readonly RowsOf[] {
    return this.#rows.parts.map(({ chunk, keep: kept }, index) => {
      const { keys } = this.requests[index]!;
      const keep = new Uint8Array(chunk.rows);
      for (let row = 0; row < chunk.rows; row++) {
        if (kept?.[row] !== 0 && isWanted(keys.canonical(row))) keep[row] = 1;
      }
      return { chunk, keep };
    });
  }

  /** All of them, one for each key. */
  get parts(): readonly RowsOf[] {
    return this.#rows.parts;
  }

  /** Begins to write these rows, or says that they are on their way since an earlier attempt. */
  prepare(dataset: Dataset, parts: readonly RowsOf[]): PreparedRows {
    if (this.#prepared !== undefined && areEqual(this.#prepared.parts, parts)) return this.#prepared.rows;
    this.discard();
    const isWhole = parts === this.#rows.parts || parts.every(({ keep }) => keep?.includes(0) !== true);
    const rows = dataset.prepareRows(isWhole ? this.chunk() : concatRows(parts));
    this.#prepared = { parts, rows };
    return rows;
  }

  /** To be called when it is committed, or will not be. */
  discard(): void {
    this.#prepared?.rows.discard();
    this.#prepared = undefined;
  }

  get #rows(): DistinctRows {
    this.#distinct ??= distinctRows(this.requests);
    return this.#distinct;
  }
}

const areEqual = (some: readonly RowsOf[], others: readonly RowsOf[]): boolean =>
  some === others ||
  some.every(({ keep }, index) => {
    const other = others[index]?.keep;
    return keep === other || (keep !== undefined && other !== undefined && Buffer.compare(keep, other) === 0);
  });

function distinctRows(requests: MergeRequests): DistinctRows {
  const laterWins = requests[0].spec.whenMatchedUpdateAll !== false;
  const masks: (Uint8Array | undefined)[] = requests.map(() => undefined);
  const drop = (source: SourceRow): void => {
    const request = requestOf(source);
    masks[request] ??= new Uint8Array(requests[request]?.chunk.rows ?? 0).fill(1);
    masks[request][rowOf(source)] = 0;
  };
  const firstWith = new Map<CanonicalKey, SourceRow>();
  /** Of keys that come again, which few do. */
  const lastWith = new Map<CanonicalKey, SourceRow>();
  let nullRows = 0;
  for (const [request, { keys }] of requests.entries()) {
    for (let row = 0; row < keys.rows; row++) {
      const key = keys.canonical(row);
      if (key === undefined) {
        nullRows += 1;
        continue;
      }
      const source = sourceRow(request, row);
      const first = firstWith.get(key);
      if (first === undefined) firstWith.set(key, source);
      else if (!laterWins) drop(source);
      else {
        drop(lastWith.get(key) ?? first);
        lastWith.set(key, source);
      }
    }
  }
  const parts = requests.map(({ chunk }, index) => ({ chunk, keep: masks[index] }));
  return { parts, firstWith, nullRows };
}
