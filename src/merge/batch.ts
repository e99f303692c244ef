import { canConcat, concatRows, type RowsOf } from '../arrow/column/concat-rows.ts';
import type { FieldPath } from '../arrow/schema/field-path.ts';
import type { AbsentField } from '../arrow/schema/fitted-schema.ts';
import { schemaFingerprint } from '../arrow/schema/read-schema.ts';
import type { IpcChunk } from '../arrow/schema/schema.ts';
import type { HeadCommits } from '../engine/port/dataset.ts';
import type { MergeSpec } from '../engine/port/merge-spec.ts';
import type { PreparedRows } from '../engine/port/row-address.ts';
import type { Some } from '../kernel/some.ts';
import type { Keys } from '../keys/key-columns.ts';
import type { KeyDigests, KeyHasher } from '../keys/key-hasher.ts';
import { KeySet } from '../keys/key-table.ts';
import type { ToldOfRules } from '../table/row-faults.ts';
import { requireTime, type WriteRequest } from '../write/write.ts';
import type { MergeRowsResult } from './merge-command.ts';

/** Rows to be merged that were received and checked. */
export interface MergeOfRows extends Pick<WriteRequest, 'branch' | 'scope'> {
  /** There is at least one; all are columns of the table and of the source. */
  readonly on: readonly FieldPath[];
  readonly spec: Omit<MergeSpec, 'on'>;
  readonly chunk: IpcChunk;
  /** No key twice, NULL aside. */
  readonly keys: Keys;
  readonly digests: KeyDigests;
  /** Fields of structs that the client did not send: NULL in `chunk`, and to be completed by what the table holds. */
  readonly absent: readonly AbsentField[];
  /** Rows that are older than what has their key are left out. */
  readonly versionColumn: FieldPath | undefined;
  /** Rows that delete the rows of their keys. No key is among `keys` too, and nothing but keys and versions counts of them. */
  readonly marked?: MergeOfRows | undefined;
}

/** A merge that waits for the branch's lock. */
export interface MergeRequest extends WriteRequest, MergeOfRows {
  readonly kind: 'merge';
  /** What its answer says besides its counts. */
  readonly told: Told;
}

export type Told = ToldOfRules & Pick<MergeRowsResult, 'numDuplicateRows'>;

/** A source beyond this size gains nothing from a batch: its own rows cost more than its commit. */
const maxBatchableRows = 10_000;

/**
 * Equal for merges that may share a commit; undefined for one that is committed alone: merges that delete by source or
 * update under a filter (what a row becomes depends on the one before it), dictionary columns (a file holds each
 * dictionary once) and large sources.
 */
export function batchKey(request: MergeRequest): string | undefined {
  const { spec, chunk, on, table, absent, versionColumn, marked, transactionId, bounds } = request;
  if (Math.max(chunk.rows, marked?.chunk.rows ?? 0) > maxBatchableRows || !canConcat([chunk])) return undefined;
  if (spec.whenNotMatchedBySourceDelete !== false || typeof spec.whenMatchedUpdateAll !== 'boolean') return undefined;
  const { whenMatchedUpdateAll, whenNotMatchedInsertAll, useIndex } = spec;
  const flags = [whenMatchedUpdateAll, whenNotMatchedInsertAll, useIndex];
  // Rows that are completed by what the table holds, and tombstones of marked ones, depend on the merge before. A write with bounds is committed alone.
  const alone = absent.length === 0 && marked === undefined && bounds === undefined ? undefined : transactionId;
  const paths = [...on, ...(versionColumn === undefined ? [] : [versionColumn])].map(({ segments }) => segments);
  return JSON.stringify([table.id, on.length, paths, flags, schemaFingerprint(chunk), alone]);
}

/** One row for each key. NULL is no key: such rows are all kept. */
interface DistinctRows {
  readonly parts: readonly RowsOf[];
  /** Every key of the batch that is not NULL. */
  readonly keys: KeySet;
  /** The number of the key of each row, request by request; -1 stands for NULL. */
  readonly keyOf: readonly Int32Array[];
  /** The first request that has the key, key by key. */
  readonly firstRequest: Uint32Array;
  readonly nullRows: number;
}

/**
 * The merges of one commit. They are applied as if one after the other, in their order: rows with one key end as its last
 * update left it, or with inserts alone as its first insert did. So one row for each key is written.
 */
export class Batch {
  /** They have the same table, branch, key columns and flags. */
  readonly requests: Some<MergeOfRows>;
  /**
   * Whether keys alone decide what is written: the merges have no filters, delete nothing, and have few rows. Any other merge
   * is the only one of its batch.
   */
  readonly isByKeys: boolean;
  readonly hasher: KeyHasher;
  readonly first: MergeOfRows;
  /** Whether rows whose keys the table has are updated, all or those that a filter lets through. */
  readonly updates: boolean;
  /** Whether rows whose keys the table does not have are inserted. */
  readonly inserts: boolean;
  /** A filter makes it none: what a row becomes depends on the row then. */
  readonly isUpsert: boolean;
  readonly numRows: number;
  #distinct: DistinctRows | undefined;
  #chunk: IpcChunk | undefined;
  #prepared: { readonly parts: readonly RowsOf[] | undefined; readonly rows: PreparedRows } | undefined;

  constructor(requests: Some<MergeOfRows>, isByKeys: boolean, hasher: KeyHasher) {
    this.requests = requests;
    this.isByKeys = isByKeys;
    this.hasher = hasher;
    this.first = requests[0];
    const { whenMatchedUpdateAll, whenNotMatchedInsertAll } = this.first.spec;
    this.updates = whenMatchedUpdateAll !== false;
    this.inserts = whenNotMatchedInsertAll;
    this.isUpsert = whenMatchedUpdateAll === true && whenNotMatchedInsertAll;
    this.numRows = requests.reduce((sum, { chunk }) => sum + chunk.rows, 0);
  }

  /** A batch without rows changes nothing, unless its merge deletes by source. */
  get changesNothing(): boolean {
    return this.numRows === 0 && this.first.spec.whenNotMatchedBySourceDelete === false;
  }

  /** Whether every field of its structs was sent. A batch that is not complete has one merge. */
  get isComplete(): boolean {
    return this.requests.every(({ absent }) => absent.length === 0);
  }

  /** Decides by what the table holds, which is read before it is merged. */
  get needsStored(): boolean {
    const { versionColumn, marked } = this.first;
    return !this.isComplete || versionColumn !== undefined || marked !== undefined;
  }

  /** As `requireTime` of `write/write.ts`. */
  requireTime(): void {
    requireTime(this.requests);
  }

  get hasNullKey(): boolean {
    return this.requests.some(({ keys }) => keys.hasNull);
  }

  get hasSpellings(): boolean {
    return this.requests.some(({ keys }) => keys.hasSpellings);
  }

  /** The keys of a batch by keys. */
  get keys(): KeySet {
    return this.#rows.keys;
  }

  get numKeys(): number {
    return this.requests.length === 1 ? this.numRows - this.numNullRows : this.#rows.keys.size;
  }

  get numNullRows(): number {
    if (this.requests.length > 1) return this.#rows.nullRows;
    const { keys } = this.first;
    if (!keys.hasNull) return 0;
    let nullRows = 0;
    for (let row = 0; row < keys.rows; row++) if (keys.isNull(row)) nullRows += 1;
    return nullRows;
  }

  /** Returns the number in `keys` of the key of each row of a request; -1 stands for NULL. */
  keyOf(request: number): Int32Array {
    return this.#rows.keyOf[request]!;
  }

  /** Whether an earlier request of the batch has the key. */
  hasEarlier(key: number, request: number): boolean {
    return this.#rows.firstRequest[key]! < request;
  }

  /** All rows as one source. Throws `FaultyPart` with the number of a request whose values are malformed. */
  chunk(): IpcChunk {
    this.#chunk ??= this.requests.length === 1 ? this.first.chunk : concatRows(this.#rows.parts);
    return this.#chunk;
  }

  /** One row for each key that `isWanted`, and for each NULL, for which -1 stands. */
  select(isWanted: (key: number) => boolean): readonly RowsOf[] {
    return this.#rows.parts.map(({ chunk, keep: kept }, request) => {
      const keep = new Uint8Array(chunk.rows);
      for (const [row, key] of this.keyOf(request).entries()) if (kept?.[row] !== 0 && isWanted(key)) keep[row] = 1;
      return { chunk, keep };
    });
  }

  /** The rows of these parts, in their order, with the numbers of their keys: -1 for NULL. */
  rowsOf(parts: readonly RowsOf[]): readonly { readonly source: number; readonly key: number }[] {
    const keys = parts.flatMap(({ keep }, request) => [...this.keyOf(request).filter((_, row) => keep?.[row] !== 0)]);
    return keys.map((key, source) => ({ source, key }));
  }

  /** The rows to write: one for each key, and all of NULL. */
  get parts(): readonly RowsOf[] {
    return this.#rows.parts;
  }

  /**
   * Begins to write these rows; those of an earlier attempt are taken again if they are the same. `whole` are the same rows with what
   * the head has in other columns, and so never those of an earlier attempt.
   */
  prepare(dataset: HeadCommits, parts: readonly RowsOf[], whole?: IpcChunk): PreparedRows {
    if (whole !== undefined) {
      this.discard();
      const rows = dataset.prepareRows(whole);
      this.#prepared = { parts: undefined, rows };
      return rows;
    }
    if (this.#prepared?.parts !== undefined && areEqual(this.#prepared.parts, parts)) return this.#prepared.rows;
    this.discard();
    const isWhole = parts === this.#rows.parts || parts.every(({ keep }) => keep?.includes(0) !== true);
    const rows = dataset.prepareRows(isWhole ? this.chunk() : concatRows(parts));
    this.#prepared = { parts, rows };
    return rows;
  }

  /** The owner calls this when the batch is committed, or will not be. */
  discard(): void {
    this.#prepared?.rows.discard();
    this.#prepared = undefined;
  }

  get #rows(): DistinctRows {
    this.#distinct ??= distinctRows(this);
    return this.#distinct;
  }
}

const areEqual = (some: readonly RowsOf[], others: readonly RowsOf[]): boolean =>
  some === others ||
  some.every(({ keep }, index) => {
    const other = others[index]?.keep;
    return keep === other || (keep !== undefined && other !== undefined && Buffer.compare(keep, other) === 0);
  });

function distinctRows({ requests, first, numRows, updates: laterWins }: Batch): DistinctRows {
  const keys = new KeySet(first.digests.wordsPerKey, numRows);
  const keyOf: Int32Array[] = [];
  const firstRequest = new Uint32Array(numRows);
  const kept = new KeptRows(requests, numRows);
  let nullRows = 0;
  for (const [request, { keys: source, digests }] of requests.entries()) {
    const keyOfRow = new Int32Array(source.rows).fill(-1);
    keyOf.push(keyOfRow);
    for (let row = 0; row < source.rows; row++) {
      if (source.isNull(row)) {
        nullRows += 1;
        continue;
      }
      const newKey = keys.size;
      const key = keys.add(digests, row);
      keyOfRow[row] = key;
      if (key === newKey) firstRequest[key] = request;
      if (key === newKey || laterWins) kept.keep(key, request, row, key === newKey);
      else kept.drop(request, row);
    }
  }
  return { parts: kept.parts, keys, keyOf, firstRequest, nullRows };
}

/** It decides which row of each key is kept. */
class KeptRows {
  readonly #requests: readonly MergeOfRows[];
  readonly #masks: (Uint8Array | undefined)[];
  /** The request and the row of it that are kept so far, key by key. */
  readonly #request: Uint32Array;
  readonly #row: Uint32Array;

  constructor(requests: readonly MergeOfRows[], mostKeys: number) {
    this.#requests = requests;
    this.#masks = requests.map(() => undefined);
    this.#request = new Uint32Array(mostKeys);
    this.#row = new Uint32Array(mostKeys);
  }

  get parts(): readonly RowsOf[] {
    return this.#requests.map(({ chunk }, request) => ({ chunk, keep: this.#masks[request] }));
  }

  /** This row instead of the one that was kept, if there was one. */
  keep(key: number, request: number, row: number, isNew: boolean): void {
    if (!isNew) this.drop(this.#request[key]!, this.#row[key]!);
    this.#request[key] = request;
    this.#row[key] = row;
  }

  drop(request: number, row: number): void {
    this.#masks[request] ??= new Uint8Array(this.#requests[request]!.chunk.rows).fill(1);
    this.#masks[request][row] = 0;
  }
}
