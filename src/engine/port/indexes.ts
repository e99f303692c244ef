/** An index of one version. Where Lance does not say, undefined. */
export interface IndexDescription {
  readonly name: string;
  /** Its first segment has this id. */
  readonly uuid: string | undefined;
  /** Field paths. */
  readonly columns: readonly string[];
  /** As clients spell it, such as `BTREE` or `IVF_PQ`. */
  readonly type: string;
  readonly typeUrl: string | undefined;
  readonly indexedRows: number | undefined;
  readonly unindexedRows: number | undefined;
  readonly bytes: number | undefined;
  readonly segments: number | undefined;
  readonly createdAtMs: number | undefined;
  readonly formatVersion: number | undefined;
  /** JSON. */
  readonly details: string | undefined;
}

export interface IndexStatistics {
  readonly indexedRows: number;
  readonly unindexedRows: number;
  readonly type: string;
  /** Only a vector index has one. */
  readonly distanceType: string | undefined;
  readonly parts: number | undefined;
}

/** The indexes of a version. */
export interface IndexReads {
  list(): Promise<readonly IndexDescription[]>;
  /** undefined if there is no such index. */
  statistics(name: string): Promise<IndexStatistics | undefined>;
  /** Into the memory of the operating system; nothing on object stores. Rejects with the signal's reason. */
  readFiles(uuid: string, signal: AbortSignal): Promise<void>;
}

export interface Indexed {
  readonly indexes: IndexReads;
}
