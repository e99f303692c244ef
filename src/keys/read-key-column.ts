/** One key column of a chunk: its values over all batches, which rows are NULL, dictionaries resolved. */

import { type BatchBuffers, openBatch, openDictionary } from '../arrow/column/batch-buffers.ts';
import { bitAt } from '../arrow/column/bitmap.ts';
import { type ColumnPosition, firstChildPosition, positionAfter } from '../arrow/column/column-layout.ts';
import { type FieldPath, formatFieldPath, resolveFieldChain } from '../arrow/schema/field-path.ts';
import type { IpcChunk } from '../arrow/schema/ipc-chunk.ts';
import type { Field, Schema } from '../arrow/schema/schema.ts';
import { typeName } from '../arrow/schema/type-name.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { concatenateValues, countValues, type KeyValues, pickValues, readValues } from './key-values.ts';

export interface KeyColumn {
  readonly path: FieldPath;
  readonly field: Field;
  readonly values: KeyValues;
  /** One byte for each row, 1 where the key is NULL; undefined where none is. */
  readonly nulls: Uint8Array | undefined;
}

/** A field and the structs around it, outermost first, with the position of each in a batch. */
type Located = readonly { readonly field: Field; readonly at: ColumnPosition }[];

function locate(schema: Schema, chain: readonly Field[]): Located {
  let siblings = schema.fields;
  let at: ColumnPosition = { node: 0, buffer: 0 };
  return chain.map((field) => {
    for (const sibling of siblings.slice(0, siblings.indexOf(field))) at = positionAfter(sibling, at);
    const located = { field, at };
    siblings = field.children;
    at = firstChildPosition(field, at);
    return located;
  });
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

function markNulls(nulls: Uint8Array, firstRow: number, batch: BatchBuffers, located: Located): boolean {
  let any = false;
  for (const { at } of located) {
    const node = batch.node(at.node);
    // The engine, too, ignores the bitmap of a column that counts no nulls.
    if (node.nulls === 0) continue;
    any = true;
    const bitmap = batch.buffer(at.buffer);
    for (let row = 0; row < node.length; row++) if (!bitAt(bitmap, row)) nulls[firstRow + row] = 1;
  }
  return any;
}

interface DictionaryValues {
  readonly values: KeyValues;
  readonly nulls: Uint8Array;
}

function readDictionary(chunk: IpcChunk, field: Field, id: bigint): DictionaryValues {
  const plain: Field = { ...field, dictionary: undefined };
  const at: ColumnPosition = { node: 0, buffer: 0 };
  const batches = chunk.dictionaries
    .map((block) => openDictionary(chunk.file, block))
    .filter((dictionary) => dictionary.id === id)
    .map((dictionary) => dictionary.values);
  const values = concatenateValues(batches.map((batch) => readValues(batch, plain, at)));
  const nulls = new Uint8Array(countValues(values));
  let row = 0;
  for (const batch of batches) {
    markNulls(nulls, row, batch, [{ field: plain, at }]);
    row += batch.rows;
  }
  return { values, nulls };
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
function resolveIndices(indices: KeyValues, nulls: Uint8Array, field: Field, dictionary: DictionaryValues): KeyValues {
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

function readLocated(chunk: IpcChunk, located: Located, path: FieldPath): KeyColumn {
  const { field, at } = located.at(-1)!;
  const batches = chunk.batches.map((block) => openBatch(chunk.file, block));
  const values = concatenateValues(batches.map((batch) => readValues(batch, field, at)));
  const nulls = new Uint8Array(chunk.rows);
  let row = 0;
  let anyNull = false;
  for (const batch of batches) {
    anyNull = markNulls(nulls, row, batch, located) || anyNull;
    row += batch.rows;
  }
  if (field.dictionary === undefined) return { path, field, values, nulls: anyNull ? nulls : undefined };
  const dictionary = readDictionary(chunk, field, field.dictionary.id);
  return { path, field, values: resolveIndices(values, nulls, field, dictionary), nulls };
}

/** Throws `TableColumnNotFound`; `InvalidInput` for a type that cannot be a key and for values that lie. */
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
    return readLocated(chunk, locate(chunk.schema, chain), path);
  } catch (error) {
    if (!(error instanceof LancegateError)) throw error;
    throw new LancegateError(error.kind, `key column ${shown}: ${error.message}`, { cause: error.cause });
  }
}

/** The engine reads the names of keys as SQL, but for those in structs, which never reach it. */
const isMisread = ({ segments }: FieldPath): boolean => segments.length === 1 && /^\*$|"/.test(segments[0] ?? '');
