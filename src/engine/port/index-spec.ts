/** Indexes as plain data: what a client asks for, what a builder process gets, and what a stored index says of itself. */

/** Over one column, without options. */
export type ScalarIndexType = 'BTREE' | 'BITMAP' | 'LABEL_LIST' | 'FM';
export type VectorIndexType = 'IVF_FLAT' | 'IVF_PQ' | 'IVF_RQ' | 'IVF_HNSW_PQ' | 'IVF_HNSW_SQ';

export const distanceTypes = ['l2', 'cosine', 'dot', 'hamming'] as const;
export type Distance = (typeof distanceTypes)[number];

/** Without one, the engine chooses by the rows and the dimension. */
export interface VectorOptions {
  readonly distance: Distance;
  readonly numPartitions?: number | undefined;
  readonly numSubVectors?: number | undefined;
  readonly numBits?: number | undefined;
  readonly sampleRate?: number | undefined;
  readonly maxIterations?: number | undefined;
  readonly m?: number | undefined;
  readonly efConstruction?: number | undefined;
}

/** How texts become tokens. */
export interface TextOptions {
  readonly baseTokenizer: string;
  readonly language: string;
  readonly withPosition: boolean;
  readonly maxTokenLength: number;
  readonly lowerCase: boolean;
  readonly stem: boolean;
  readonly removeStopWords: boolean;
  /** In place of those of the language. */
  readonly customStopWords?: readonly string[] | undefined;
  readonly asciiFolding: boolean;
  readonly minNgramLength: number;
  readonly maxNgramLength: number;
  readonly prefixOnly: boolean;
  readonly blockSize: number;
}

export type IndexOptions =
  | { readonly type: ScalarIndexType }
  | { readonly type: VectorIndexType; readonly vector: VectorOptions }
  | { readonly type: 'FTS'; readonly text: TextOptions };

export interface IndexSpec {
  readonly name: string;
  /** The canonical text of its path. */
  readonly column: string;
  readonly options: IndexOptions;
}

/** What the engine calls the index of a column if it is given no name. */
export const plainIndexName = (column: string): string => `${column}_idx`;

/** The index on a merge key that maintenance builds by itself. */
export const btreeOn = (column: string): IndexSpec => ({
  name: plainIndexName(column),
  column,
  options: { type: 'BTREE' },
});
