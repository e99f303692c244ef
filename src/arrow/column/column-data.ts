/**
 * The columns of a batch, decompressed, as the buffers they are. Batches that were only checked for structure become safe
 * to copy from: offsets, UTF-8 and NULLs where the schema has none are checked here, over all values, also those that no
 * row refers to, as the engine's library does. Dictionary-encoded columns are not read.
 */
import { invalidInput, LancegateError } from '../../kernel/errors.ts';
import { formatFieldPath } from '../schema/field-path.ts';
import type { IpcChunk } from '../schema/ipc-chunk.ts';
import type { Field } from '../schema/schema.ts';
import { type BatchBuffers, type BatchNode, openBatch } from './batch-buffers.ts';
import { bitAt, countZeros } from './bitmap.ts';
import { columnLayout, ownBuffers } from './column-layout.ts';
import { isText, readOffsets, requireUtf8 } from './variable-values.ts';

export interface ColumnData {
  readonly length: number;
  /** A bit for each value, zero where it is NULL; undefined where none is. */
  readonly validity: Uint8Array | undefined;
  /** Bits, values of one width, or what the offsets of texts and the like point into; empty for other layouts. */
  readonly bytes: Uint8Array;
  /** Of values of no fixed width and of lists: one more than there are values; empty for other layouts. */
  readonly offsets: Uint32Array;
  readonly children: readonly ColumnData[];
}

export interface BatchData {
  readonly rows: number;
  readonly columns: readonly ColumnData[];
}

type Values = Pick<ColumnData, 'bytes' | 'offsets' | 'children'>;

const noBytes = new Uint8Array(0);
const noOffsets = new Uint32Array(0);

/** Takes the nodes and buffers of a batch in the order of the format: a column, then its children. */
class BatchCursor {
  readonly #batch: BatchBuffers;
  #nextNode = 0;
  #nextBuffer = 0;

  constructor(batch: BatchBuffers) {
    this.#batch = batch;
  }

  column(field: Field): ColumnData {
    const node = this.#batch.node(this.#nextNode++);
    const { length } = node;
    if (field.type.kind === 'null') {
      return { length, validity: onlyNulls(length), bytes: noBytes, offsets: noOffsets, children: [] };
    }
    const validity = checkedNulls(this.#buffer(), node);
    const column = { length, validity, ...this.#values(field, length) };
    for (const [i, child] of field.children.entries()) requireValues(child, column.children[i]!, field, column);
    return column;
  }

  /** The bits of a struct, whose children come next: zero where it is NULL; undefined where it nowhere is. */
  struct(): Uint8Array | undefined {
    return checkedNulls(this.#buffer(), this.#batch.node(this.#nextNode++));
  }

  skip(field: Field): void {
    this.#nextNode += 1;
    this.#nextBuffer += ownBuffers[columnLayout(field).form];
    // The children of a dictionary-encoded column are its dictionary's.
    if (field.dictionary === undefined) for (const child of field.children) this.skip(child);
  }

  #values(field: Field, length: number): Values {
    const layout = columnLayout(field);
    switch (layout.form) {
      case 'empty':
        return { bytes: noBytes, offsets: noOffsets, children: [] };
      case 'bits':
      case 'fixed':
        return { bytes: this.#buffer(), offsets: noOffsets, children: [] };
      case 'variable':
        return this.#variable(field, layout.offsetBytes, length);
      case 'list':
        return this.#list(field, layout.offsetBytes, length);
      case 'fixed_size_list':
      case 'struct':
        return { bytes: noBytes, offsets: noOffsets, children: field.children.map((child) => this.column(child)) };
    }
  }

  #variable(field: Field, offsetBytes: 4 | 8, length: number): Values {
    const packed = this.#buffer();
    const bytes = this.#buffer();
    const offsets = readOffsets(packed, offsetBytes, length, bytes.length);
    if (isText(field.type)) requireUtf8(bytes, offsets);
    return { bytes, offsets, children: [] };
  }

  #list(field: Field, offsetBytes: 4 | 8, length: number): Values {
    const packed = this.#buffer();
    const children = field.children.map((child) => this.column(child));
    const offsets = readOffsets(packed, offsetBytes, length, children[0]?.length ?? 0);
    return { bytes: noBytes, offsets, children };
  }

  #buffer(): Uint8Array {
    return this.#batch.buffer(this.#nextBuffer++);
  }
}

/** A count of zero means that the bitmap is to be ignored, to the engine too. It refuses other counts that are wrong. */
function checkedNulls(bitmap: Uint8Array, { length, nulls }: BatchNode): Uint8Array | undefined {
  if (nulls === 0) return undefined;
  const found = countZeros(bitmap, 0, length);
  if (found !== nulls) throw invalidInput(`it counts ${nulls} nulls and holds ${found}`);
  return bitmap;
}

/** A column of type null has no bitmap, and nothing but NULL. */
const onlyNulls = (length: number): Uint8Array | undefined =>
  length === 0 ? undefined : new Uint8Array(Math.ceil(length / 8));

const isNull = ({ validity }: ColumnData, index: number): boolean => validity !== undefined && !bitAt(validity, index);

/** A field declared without NULL may hold one only in a struct or fixed-size list that is NULL itself. */
function requireValues(field: Field, data: ColumnData, parent: Field, around: ColumnData): void {
  if (field.nullable || data.validity === undefined) return;
  const layout = columnLayout(parent);
  if (layout.form === 'list') throw unexpectedNull();
  const perParent = layout.form === 'fixed_size_list' ? layout.listSize : 1;
  for (let i = 0; i < data.length; i++) {
    if (isNull(data, i) && !isNull(around, Math.floor(i / perParent))) throw unexpectedNull();
  }
}

const unexpectedNull = () => invalidInput('it holds a NULL where its schema has none');

function readColumn(cursor: BatchCursor, field: Field): ColumnData {
  try {
    const column = cursor.column(field);
    if (!field.nullable && column.validity !== undefined) throw unexpectedNull();
    return column;
  } catch (error) {
    if (!(error instanceof LancegateError)) throw error;
    const shown = formatFieldPath({ segments: [field.name] });
    throw new LancegateError(error.kind, `column ${shown}: ${error.message}`, { cause: error.cause });
  }
}

/**
 * All columns of a chunk without dictionaries, batch by batch. Uncompressed buffers are views of the chunk. Throws
 * `InvalidInput` naming the column for invalid buffers; a caller may want that check alone.
 */
export const readColumns = (chunk: IpcChunk): BatchData[] =>
  chunk.batches.map((block) => {
    const batch = openBatch(chunk.file, block);
    const cursor = new BatchCursor(batch);
    return { rows: batch.rows, columns: chunk.schema.fields.map((field) => readColumn(cursor, field)) };
  });

/** One column, perhaps inside structs, and the bits of those structs and its own; none where nothing is NULL. */
export interface NestedColumn {
  readonly data: ColumnData;
  readonly validities: readonly Uint8Array[];
}

/** The last field of `chain`, which leads from one of `fields` inwards. No other column is decompressed. */
export function readNestedColumn(batch: BatchBuffers, fields: readonly Field[], chain: readonly Field[]): NestedColumn {
  const cursor = new BatchCursor(batch);
  const validities: (Uint8Array | undefined)[] = [];
  let siblings = fields;
  for (const [depth, field] of chain.entries()) {
    for (const sibling of siblings.slice(0, siblings.indexOf(field))) cursor.skip(sibling);
    siblings = field.children;
    if (depth < chain.length - 1) validities.push(cursor.struct());
  }
  const data = cursor.column(chain.at(-1)!);
  return { data, validities: [...validities, data.validity].filter((bits) => bits !== undefined) };
}
