/** One key column of a chunk: its values over all batches, which rows are NULL, dictionaries resolved. */
import { openBatch, openDictionary } from '../arrow/column/batch-buffers.ts';
import { bitAt, type NestedColumn, readNestedColumn } from '../arrow/column/column-data.ts';
import { type FieldPath, formatFieldPath, resolveFieldChain } from '../arrow/schema/field-path.ts';
import { type Field, type IpcChunk, typeName } from '../arrow/schema/schema.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { concatenateValues, type KeyValues, pickValues, valuesOf } from './key-values.ts';

export interface KeyColumn {
  readonly path: FieldPath;
  readonly field: Field;
  readonly values: KeyValues;
  /** One byte for each row, 1 where the key is NULL; undefined where none is. */
  readonly nulls: Uint8Array | undefined;
}

function isKeyType(field: Field): boolean {
  switch (field.type.kind) {
    case 'null':
    case 'list':
    case 'large_list':
    case 'fixed_size_list':
    case 'map':
    case 'struct':
    case 'interval':
      return false;
    default:
      return true;
  }
}

interface Values {
  readonly values: KeyValues;
  /** One byte for each value, 1 where it is NULL. */
  readonly nulls: Uint8Array;
}

function joined(columns: readonly NestedColumn[], field: Field): Values {
  const values = concatenateValues(columns.map(({ data }) => valuesOf(data, field)));
  const nulls = new Uint8Array(columns.reduce((sum, { data }) => sum + data.length, 0));
  let start = 0;
  for (const { data, validities } of columns) {
    for (const bits of validities) markNulls(nulls.subarray(start, start + data.length), bits);
    start += data.length;
  }
  return { values, nulls };
}

function markNulls(nulls: Uint8Array, bits: Uint8Array): void {
  for (let i = 0; i < nulls.length; i++) if (!bitAt(bits, i)) nulls[i] = 1;
}

function readDictionary(chunk: IpcChunk, field: Field, id: bigint): Values {
  const plain: Field = { ...field, dictionary: undefined };
  const batches = chunk.dictionaries
    .map((block) => openDictionary(chunk.file, block))
    .filter((dictionary) => dictionary.id === id);
  return joined(
    batches.map(({ values }) => readNestedColumn(values, [plain], [plain])),
    plain,
  );
}

function readIndices(values: KeyValues, signed: boolean): (row: number) => number {
  if (values.form !== 'fixed') throw new Error('indices have one width');
  const { bytes, widthBytes } = values;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (widthBytes) {
    case 1:
      return signed ? (row) => view.getInt8(row) : (row) => view.getUint8(row);
    case 2:
      return signed ? (row) => view.getInt16(2 * row, true) : (row) => view.getUint16(2 * row, true);
    case 4:
      return signed ? (row) => view.getInt32(4 * row, true) : (row) => view.getUint32(4 * row, true);
    default:
      return (row) => Number(signed ? view.getBigInt64(8 * row, true) : view.getBigUint64(8 * row, true));
  }
}

/** Replaces indices by what they stand for; a NULL in the dictionary is a NULL in the column. */
function resolveIndices(indices: KeyValues, nulls: Uint8Array, field: Field, dictionary: Values): KeyValues {
  const indexAt = readIndices(indices, field.dictionary?.index.signed ?? true);
  const size = dictionary.nulls.length;
  const picks = new Uint32Array(nulls.length);
  for (let row = 0; row < picks.length; row++) {
    if (nulls[row] === 1) continue;
    const index = indexAt(row);
    if (index < 0 || index >= size) throw invalidInput(`index ${index} lies outside a dictionary of ${size} values`);
    picks[row] = index;
    nulls[row] = dictionary.nulls[index]!;
  }
  // Null rows pick value 0, which an empty dictionary does not have.
  return size === 0
    ? { form: 'fixed', widthBytes: 1, bytes: new Uint8Array(nulls.length) }
    : pickValues(dictionary.values, picks);
}

function readColumn(chunk: IpcChunk, chain: readonly Field[], path: FieldPath): KeyColumn {
  const field = chain.at(-1)!;
  const columns = chunk.batches.map((block) =>
    readNestedColumn(openBatch(chunk.file, block), chunk.schema.fields, chain),
  );
  const { values, nulls } = joined(columns, field);
  if (field.dictionary !== undefined) {
    const dictionary = readDictionary(chunk, field, field.dictionary.id);
    return { path, field, values: resolveIndices(values, nulls, field, dictionary), nulls };
  }
  const hasNull = columns.some(({ validities }) => validities.length > 0);
  return { path, field, values, nulls: hasNull ? nulls : undefined };
}

/** Throws `TableColumnNotFound`; `InvalidInput` for a type that cannot be a key and for invalid buffers. */
export function readKeyColumn(chunk: IpcChunk, path: FieldPath): KeyColumn {
  const shown = formatFieldPath(path);
  const chain = resolveFieldChain(chunk.schema, path);
  const field = chain?.at(-1);
  if (chain === undefined || field === undefined) {
    throw new LancegateError('TableColumnNotFound', `the source has no column ${shown}`);
  }
  if (!isKeyType(field)) throw invalidInput(`column ${shown} of type ${typeName(field)} cannot be a key`);
  if (isMisread(path)) throw invalidInput(`column ${shown} cannot be a key: its name is * or holds a double quote`);
  try {
    return readColumn(chunk, chain, path);
  } catch (error) {
    if (!(error instanceof LancegateError)) throw error;
    throw new LancegateError(error.kind, `key column ${shown}: ${error.message}`, { cause: error.cause });
  }
}

/** The engine reads the names of keys as SQL, but for those in structs, which never reach it. */
const isMisread = ({ segments }: FieldPath): boolean => segments.length === 1 && /^\*$|"/.test(segments[0] ?? '');
