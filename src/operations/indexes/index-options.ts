/** Reads the body of `create_index` and `create_scalar_index` as the options of an index, and bounds every one of them. */
import Type, { type Static } from 'typebox';
import {
  distanceTypes,
  type IndexOptions,
  type ScalarIndexType,
  type TextOptions,
  type VectorIndexType,
  type VectorOptions,
} from '../../engine/port/index-spec.ts';
import { invalidInput, LancegateError } from '../../kernel/errors.ts';

const count = (minimum: number, maximum: number) => Type.Optional(Type.Integer({ minimum, maximum }));
const flag = Type.Optional(Type.Boolean());
const name = Type.Optional(Type.String({ maxLength: 64 }));
const refused = Type.Optional(Type.Unknown());

/** As LanceDB and the specification name them, which call the distance differently. */
export const CreateIndexBody = Type.Object({
  column: Type.String({ maxLength: 4_096 }),
  index_type: Type.String({ maxLength: 64 }),
  name: Type.Optional(Type.String({ maxLength: 1_024 })),
  replace: flag,
  distance_type: name,
  metric_type: name,
  num_partitions: count(1, 1_000_000),
  target_partition_size: count(1, 2 ** 31),
  num_sub_vectors: count(1, 65_536),
  num_bits: count(1, 9),
  sample_rate: count(2, 65_536),
  max_iterations: count(1, 10_000),
  m: count(4, 1_024),
  ef_construction: count(4, 10_000),
  lance_tokenizer: name,
  base_tokenizer: name,
  language: name,
  with_position: flag,
  max_token_length: count(1, 65_536),
  lower_case: flag,
  stem: flag,
  remove_stop_words: flag,
  custom_stop_words: Type.Optional(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 10_000 })),
  ascii_folding: flag,
  min_ngram_length: count(1, 128),
  max_ngram_length: count(1, 128),
  prefix_only: flag,
  block_size: count(128, 256),
  split_identifiers: flag,
  split_on_numerics: flag,
  preserve_original: flag,
  index_operators: flag,
  document_granularity: refused,
});

/** Routes whose path names the index have this body. */
export const IndexNameBody = Type.Object({ index_name: Type.Optional(Type.String()) });

export function requireSameIndex({ index_name: given }: Static<typeof IndexNameBody>, index: string): void {
  if (given !== undefined && given !== index) {
    throw invalidInput('index_name: the body names another index than the path');
  }
}

type IndexBody = Static<typeof CreateIndexBody>;

const scalarTypes: readonly ScalarIndexType[] = ['BTREE', 'BITMAP', 'LABEL_LIST', 'FM'];
const vectorTypes: readonly VectorIndexType[] = ['IVF_FLAT', 'IVF_PQ', 'IVF_RQ', 'IVF_HNSW_PQ', 'IVF_HNSW_SQ'];
/** Lance has them, and its binding for this service has not. */
const unsupportedTypes = ['IVF_SQ', 'IVF_HNSW_FLAT', 'ZONEMAP', 'NGRAM', 'BLOOM_FILTER', 'RTREE'];

/** `InvalidInput`; `Unsupported` for a type that the engine cannot build here. `isScalar`: vectors are refused. */
export function parseIndexOptions(body: IndexBody, isScalar: boolean): IndexOptions {
  const type = body.index_type.toUpperCase();
  if (type === 'FTS' || type === 'INVERTED') return { type: 'FTS', text: textOptions(body) };
  const scalarType = scalarTypes.find((known) => known === type);
  if (scalarType !== undefined) return { type: scalarType };
  if (unsupportedTypes.includes(type)) {
    throw new LancegateError('Unsupported', `index_type: this service cannot build an index of type ${type}`);
  }
  const vectorType = vectorTypes.find((known) => known === type);
  if (vectorType === undefined) {
    const known = [...scalarTypes, 'FTS', ...(isScalar ? [] : vectorTypes)];
    throw invalidInput(`index_type: it must be one of ${known.join(', ')}`);
  }
  if (isScalar) throw invalidInput(`index_type: ${type} is an index of vectors; use create_index`);
  return { type: vectorType, vector: vectorOptions(vectorType, body) };
}

function vectorOptions(type: VectorIndexType, body: IndexBody): VectorOptions {
  const named = (body.distance_type ?? body.metric_type ?? 'l2').toLowerCase();
  const distance = distanceTypes.find((known) => known === (named === 'euclidean' ? 'l2' : named));
  if (distance === undefined) throw invalidInput(`distance_type: it must be one of ${distanceTypes.join(', ')}`);
  const { m, ef_construction: efConstruction, num_bits: numBits } = body;
  if (type === 'IVF_PQ' && numBits !== undefined && numBits !== 4 && numBits !== 8) {
    throw invalidInput('num_bits: it must be 4 or 8');
  }
  const isGraph = type === 'IVF_HNSW_PQ' || type === 'IVF_HNSW_SQ';
  // The engine has these defaults.
  if (isGraph && (efConstruction ?? 300) < (m ?? 20)) throw invalidInput('ef_construction: it must be at least m');
  return {
    distance,
    numPartitions: body.num_partitions,
    sampleRate: body.sample_rate,
    maxIterations: body.max_iterations,
    ...(type === 'IVF_PQ' || type === 'IVF_HNSW_PQ' ? { numSubVectors: body.num_sub_vectors } : {}),
    ...(type === 'IVF_PQ' || type === 'IVF_RQ' ? { numBits } : {}),
    ...(isGraph ? { m, efConstruction } : {}),
  };
}

/** Those that need a dictionary read it from a path made of their name. */
const tokenizers = ['simple', 'whitespace', 'raw', 'ngram', 'icu', 'icu/split'];

/** The engine ends the process where it is asked for another one. */
const languages = [
  ...['Arabic', 'Danish', 'Dutch', 'English', 'Finnish', 'French', 'German', 'Greek', 'Hungarian', 'Italian'],
  ...['Norwegian', 'Portuguese', 'Romanian', 'Russian', 'Spanish', 'Swedish', 'Tamil', 'Turkish'],
];

/** The defaults are LanceDB's. */
function textOptions(body: IndexBody): TextOptions {
  refuseOtherTexts(body);
  const { base_tokenizer: baseTokenizer = 'simple', min_ngram_length: min = 3, max_ngram_length: max = 3 } = body;
  const wanted = body.language ?? 'English';
  const language = languages.find((each) => each.toLowerCase() === wanted.toLowerCase());
  if (language === undefined) throw invalidInput(`language: it must be one of ${languages.join(', ')}`);
  if (!tokenizers.includes(baseTokenizer)) {
    throw invalidInput(`base_tokenizer: it must be one of ${tokenizers.join(', ')}`);
  }
  if (min > max) throw invalidInput('max_ngram_length: it must be at least min_ngram_length');
  const { block_size: blockSize = 128 } = body;
  if (blockSize !== 128 && blockSize !== 256) throw invalidInput('block_size: it must be 128 or 256');
  return {
    baseTokenizer,
    language,
    withPosition: body.with_position ?? false,
    maxTokenLength: body.max_token_length ?? 40,
    lowerCase: body.lower_case ?? true,
    stem: body.stem ?? true,
    removeStopWords: body.remove_stop_words ?? true,
    customStopWords: body.custom_stop_words,
    asciiFolding: body.ascii_folding ?? true,
    minNgramLength: min,
    maxNgramLength: max,
    prefixOnly: body.prefix_only ?? false,
    blockSize,
  };
}

const codeOptions = ['split_identifiers', 'split_on_numerics', 'preserve_original', 'index_operators'] as const;

/** What is not honoured is refused: an index of code, or of parts of documents. */
function refuseOtherTexts(body: IndexBody): void {
  const { lance_tokenizer: tokenizer = 'text' } = body;
  if (tokenizer.toLowerCase() !== 'text') throw invalidInput('lance_tokenizer: this service knows text only');
  const code = codeOptions.find((option) => body[option] === true);
  const other = code ?? (body.document_granularity === undefined ? undefined : 'document_granularity');
  if (other !== undefined) throw invalidInput(`${other}: this service cannot build an index with it`);
}
