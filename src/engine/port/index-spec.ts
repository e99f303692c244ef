/** Indexes as plain data: what a client asks for, what a builder process gets, and what a stored index says of itself. */

import { createHash } from 'node:crypto';

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
  /** They take the place of those of the language. */
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

export const longestIndexNameBytes = 255;

/** Names stand in paths of requests; those with two underscores are the engine's own. */
export const isIndexName = (name: string): boolean =>
  !/[/\\]|\p{Cc}|^(\.{0,2}$|__)/u.test(name) && Buffer.byteLength(name) <= longestIndexNameBytes;

/** The index of a column that is given no name: as the engine calls it, save where that is no name of an index. */
export function plainIndexName(column: string): string {
  const name = `${column}_idx`;
  if (isIndexName(name)) return name;
  const known = column.replace(/[/\\]|\p{Cc}/gu, '_').replace(/^_+/, '');
  const others = createHash('sha256').update(column).digest('hex').slice(0, 8); // `a/b` and `a_b` have indexes of their own
  return `${Array.from(known).slice(0, 50).join('')}_${others}_idx`;
}

/** The index on a merge key that maintenance builds by itself. */
export const btreeOn = (column: string): IndexSpec => ({
  name: plainIndexName(column),
  column,
  options: { type: 'BTREE' },
});
