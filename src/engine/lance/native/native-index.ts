/** An index spec as the engine's own object, and back from what the engine says of a stored index. */
import { Index } from '@lancedb/lancedb';
import type {
  Distance,
  IndexOptions,
  IndexSpec,
  TextOptions,
  VectorIndexType,
  VectorOptions,
} from '../../port/index-spec.ts';
import { type NativeIndex, type NativeTable, requireTemporaryFolder } from './native.ts';
import { isPanic } from './translate-errors.ts';

/**
 * The number of partitions that was asked for. The engine does not record it; so the lift writes it among the hints of the stored
 * index, and an index that is built again has as many.
 */
export const partitionsHint = 'lancegate.ivf.num_partitions';

/** Builds the index in place of the one of this name; one commit of the engine. `StorageUnavailable` as `newSession`. */
export async function buildNativeIndex(
  table: Pick<NativeTable, 'createIndex'>,
  { name, column, options }: IndexSpec,
): Promise<void> {
  try {
    await table.createIndex(nativeForm(options), column, true, undefined, name);
  } catch (error) {
    if (isPanic(error)) requireTemporaryFolder(); // it works in one, and on a full disk it panics
    throw error;
  }
}

/** The public class wraps it. */
function nativeForm(options: IndexOptions): unknown {
  const form: object = publicForm(options);
  return 'inner' in form ? form.inner : undefined;
}

function publicForm(options: IndexOptions): Index {
  switch (options.type) {
    case 'BTREE':
      return Index.btree();
    case 'BITMAP':
      return Index.bitmap();
    case 'LABEL_LIST':
      return Index.labelList();
    case 'FM':
      return Index.fm();
    case 'FTS':
      return textForm(options.text);
    default:
      return vectorForm(options);
  }
}

function vectorForm({ type, vector }: Extract<IndexOptions, { type: VectorIndexType }>): Index {
  const { distance: distanceType, ...given } = vector;
  const options = { ...given, distanceType } as object;
  switch (type) {
    case 'IVF_FLAT':
      return Index.ivfFlat(options);
    case 'IVF_PQ':
      return Index.ivfPq(options);
    case 'IVF_RQ':
      return Index.ivfRq(options);
    case 'IVF_HNSW_PQ':
      return Index.hnswPq(options);
    case 'IVF_HNSW_SQ':
      return Index.hnswSq(options);
  }
}

function textForm({ lowerCase: lowercase, minNgramLength, maxNgramLength, ...rest }: TextOptions): Index {
  const names = { lowercase, ngramMinLength: minNgramLength, ngramMaxLength: maxNgramLength };
  return Index.fts({ ...rest, ...names } as object);
}

/** The engine's listing spells types in another way than its statistics and every client. */
const typeNames: Readonly<Record<string, string>> = {
  BTree: 'BTREE',
  Bitmap: 'BITMAP',
  LabelList: 'LABEL_LIST',
  Fm: 'FM',
  IvfFlat: 'IVF_FLAT',
  IvfSq: 'IVF_SQ',
  IvfPq: 'IVF_PQ',
  IvfRq: 'IVF_RQ',
  IvfHnswPq: 'IVF_HNSW_PQ',
  IvfHnswSq: 'IVF_HNSW_SQ',
  IvfHnswFlat: 'IVF_HNSW_FLAT',
  ZoneMap: 'ZONEMAP',
  NGram: 'NGRAM',
  BloomFilter: 'BLOOM_FILTER',
  RTree: 'RTREE',
};

/** As clients spell it. */
export const typeOfIndex = (indexType: string): string => typeNames[indexType] ?? indexType.toUpperCase();

/** The types that this service knows how to build. */
const builtTypes: readonly IndexOptions['type'][] = [
  ...(['BTREE', 'BITMAP', 'LABEL_LIST', 'FM', 'FTS'] as const),
  ...(['IVF_FLAT', 'IVF_PQ', 'IVF_RQ', 'IVF_HNSW_PQ', 'IVF_HNSW_SQ'] as const),
];

/** How to build the index again; undefined for one that this service does not know how to build. */
export function specOf({ name, indexType, columns, indexDetails }: NativeIndex): IndexSpec | undefined {
  const [column] = columns;
  const type = builtTypes.find((each) => each === typeOfIndex(indexType));
  if (type === undefined || column === undefined || columns.length !== 1) return undefined;
  const options = optionsOf(type, (indexDetails ?? {}) as StoredDetails);
  return options && { name, column, options };
}

function optionsOf(type: IndexOptions['type'], details: StoredDetails): IndexOptions | undefined {
  switch (type) {
    case 'BTREE':
    case 'BITMAP':
    case 'LABEL_LIST':
    case 'FM':
      return { type };
    case 'FTS': {
      const text = textOf(details);
      return text && { type, text };
    }
    default: {
      const vector = vectorOf(type, details);
      return vector && { type, vector };
    }
  }
}

/** The engine's JSON of what an index was built with. */
interface StoredDetails {
  readonly metric_type?: string;
  readonly compression?: { readonly num_bits?: number; readonly num_sub_vectors?: number };
  readonly hnsw?: { readonly construction_ef?: number; readonly max_connections?: number };
  readonly runtime_hints?: Readonly<Record<string, string>>;
  readonly [option: string]: unknown;
}

const distances: Readonly<Record<string, Distance>> = { L2: 'l2', COSINE: 'cosine', DOT: 'dot', HAMMING: 'hamming' };

/** Earlier releases recorded nothing of a vector index, so its distance is not known. */
function vectorOf(type: VectorIndexType, details: StoredDetails): VectorOptions | undefined {
  const { metric_type: metric = '', compression = {}, hnsw, runtime_hints: hints = {} } = details;
  const distance = distances[metric];
  if (distance === undefined) return undefined;
  const number = (text: string | undefined) => (text === undefined ? undefined : Number(text));
  return {
    distance,
    numPartitions: number(hints[partitionsHint]),
    numSubVectors: compression.num_sub_vectors,
    numBits: type === 'IVF_PQ' || type === 'IVF_RQ' ? compression.num_bits : undefined,
    sampleRate: number(hints['lance.ivf.sample_rate']),
    maxIterations: number(hints['lance.ivf.max_iters']),
    m: hnsw?.max_connections,
    efConstruction: hnsw?.construction_ef,
  };
}

/** The binding cannot build one again that has a tokenizer of code, or is over parts of documents. */
function textOf(details: StoredDetails): TextOptions | undefined {
  const { lance_tokenizer: kind = 'text', custom_stop_words: stopWords } = details;
  const unknown = ['index_operators', 'preserve_original', 'split_identifiers', 'split_on_numerics'];
  const { base_tokenizer: baseTokenizer, language } = details;
  if (kind !== 'text' || unknown.some((name) => details[name] === true)) return undefined;
  if (typeof baseTokenizer !== 'string' || typeof language !== 'string') return undefined;
  const number = (name: string, otherwise: number) => Number(details[name] ?? otherwise);
  return {
    baseTokenizer,
    language,
    withPosition: details.with_position === true,
    maxTokenLength: number('max_token_length', 40),
    lowerCase: details.lower_case !== false,
    stem: details.stem !== false,
    removeStopWords: details.remove_stop_words !== false,
    customStopWords: Array.isArray(stopWords) ? stopWords.map(String) : undefined,
    asciiFolding: details.ascii_folding !== false,
    minNgramLength: number('min_ngram_length', 3),
    maxNgramLength: number('max_ngram_length', 3),
    prefixOnly: details.prefix_only === true,
    blockSize: number('block_size', 128),
  };
}
