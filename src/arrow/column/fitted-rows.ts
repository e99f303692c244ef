/**
 * Rewrites the columns of a source that are laid out otherwise than the table's: structs whose fields come in another order or in
 * part, values whose type in the table has room for more (only a source that may extend the table has such), and fields of Arrow's type
 * Null. A program that has seen no value of a field sends it so, as pyarrow does with a list of `None`. What is not there becomes NULL
 * in every row.
 *
 * The schema of the result points into copies of both schema messages, as the footer of a file does (`ipc-file.ts`): so no type or
 * metadata is lost, also none that this code does not know.
 */
import { Builder } from 'flatbuffers';
import { LancegateError } from '../../kernel/errors.ts';
import { paired } from '../../kernel/paired.ts';
import { copyOf, type IpcFile, writeFile } from '../format/ipc-file.ts';
import type { FlatTable } from '../format/message.ts';
import { addField, addOffsets, CopiedSchema, fieldOf, finishSchema } from '../schema/copied-schema.ts';
import { refuseColumn } from '../schema/field-path.ts';
import { absentFields, childNamed, fittedSchema, isFitted, isNull, isOtherType } from '../schema/fitted-schema.ts';
import { schemaMessage } from '../schema/read-schema.ts';
import {
  bytesOfBits,
  childrenOf,
  columnLayout,
  type Field,
  type IpcChunk,
  type Schema,
  typeName,
} from '../schema/schema.ts';
import { withTypesOf } from '../schema/wider-types.ts';
import { allRows, BatchPlan } from './batch-plan.ts';
import { type ColumnData, hasUnexpectedNull, readColumns } from './column-data.ts';
import { widenedValues } from './widened-values.ts';

export const isEncoded = ({ dictionary, children }: Field): boolean =>
  dictionary !== undefined || children.some(isEncoded);

/**
 * NULLs inside structs and lists may take so much. A list can have more items than rows, and the body's reservation does not cover them.
 */
const mostInnerBytes = 64 * 2 ** 20;

/**
 * Lays out the columns of the chunk as those of the table, which its schema fits (`checkColumnsFit`): answers the same chunk if none needs
 * to be rewritten, else a new one, uncompressed. The reservation of the old one covers both. Throws `InvalidInput` on invalid
 * buffers, and `TableSchemaValidationError` for NULL where the table allows none, and for a field that the source does not send and that
 * is dictionary-encoded: its dictionary is not in the source.
 */
export function fitRows(chunk: IpcChunk, table: Schema, tableFile: IpcFile): IpcChunk {
  if (isFitted(chunk.schema, table)) return chunk;
  const { fields } = chunk.schema;
  const schema = fittedSchema(withTypesOf(chunk.schema, table), table);
  const fittedOf = new Map(schema.fields.map((field) => [field.name, field]));
  const filler = new Filler();
  const batches = readColumns(chunk).map(({ rows, columns }) => {
    const plan = new BatchPlan();
    for (const [sent, data] of paired(fields, columns)) {
      const field = fittedOf.get(sent.name);
      if (field === undefined) continue;
      const fitted = filler.column(data, sent, field);
      plan.addColumn(field, [{ data: fitted, runs: allRows(rows) }]);
    }
    return plan.message(rows);
  });
  const dictionaries = chunk.dictionaries.map((block) => copyOf(chunk.file, block));
  const made = writeFile(fittedMessage(chunk.file, fields, fittedOf, tableFile), dictionaries, batches);
  const decodedBytes = Math.max(chunk.decodedBytes, made.file.length);
  return { ...made, schema, rows: chunk.rows, decodedBytes, release: chunk.release };
}

class Filler {
  #innerBytes = 0;

  column(data: ColumnData, field: Field, target: Field): ColumnData {
    if (field === target) return data;
    const fitted = this.#fit(data, field, target, [target.name]);
    if (!target.nullable && fitted.validity !== undefined) throw unexpectedNull([target.name]);
    return fitted;
  }

  #fit(data: ColumnData, field: Field, target: Field, path: readonly string[]): ColumnData {
    if (isNull(field)) return isNull(target) ? data : this.#nulls(target, data.length, path);
    if (field.dictionary !== undefined) return data;
    if (isOtherType(field, target)) return this.#widened(data, field, target, path);
    const sent = paired(field.children, data.children);
    const children = target.children.map((child, i) => {
      const inner = [...path, child.name];
      const isStruct = field.type.kind === 'struct';
      const [own, values] = (isStruct ? sent.find(([{ name }]) => name === child.name) : sent[i]) ?? [];
      if (own === undefined || values === undefined) {
        if (isEncoded(child))
          throw refuseColumn(inner, 'is missing in the source, and dictionary-encoded in the table');
        return nulls(child, data.length, child.nullable);
      }
      const made = this.#fit(values, own, child, inner);
      if (hasUnexpectedNull(child, made, target, data)) throw unexpectedNull(inner);
      return made;
    });
    return { ...data, children };
  }

  #widened(data: ColumnData, field: Field, target: Field, path: readonly string[]): ColumnData {
    if (path.length > 1) {
      this.#innerBytes += data.length * nullBytes([target]);
      if (this.#innerBytes > mostInnerBytes)
        throw refuseColumn(path, `has too many values to be made ${typeName(target)}: send it with the table's type`);
    }
    return widenedValues(data, field.type, target.type);
  }

  #nulls(target: Field, length: number, path: readonly string[]): ColumnData {
    if (path.length > 1) {
      this.#innerBytes += length * nullBytes([target]);
      if (this.#innerBytes > mostInnerBytes) {
        throw refuseColumn(
          path,
          `is of type null ${length} times inside another column: send it with the table's type`,
        );
      }
    }
    if (isEncoded(target))
      throw refuseColumn(path, 'is of type null, and dictionary-encoded in the table: send it typed');
    return nulls(target, length, true);
  }
}

const unexpectedNull = (path: readonly string[]): LancegateError =>
  refuseColumn(path, 'holds a NULL, and the table does not allow it');

/** A field without NULL has none inside a struct that is NULL: what it holds there counts for nothing. */
export function nulls(field: Field, length: number, hasNulls = true): ColumnData {
  const { offsetBytes, valueBits = 0, childValues = 0 } = columnLayout(field);
  return {
    length,
    validity: hasNulls && length > 0 ? new Uint8Array(bytesOfBits(length)) : undefined,
    bytes: new Uint8Array(bytesOfBits(length * valueBits)),
    offsets: new Uint32Array(offsetBytes === 0 ? 0 : length + 1),
    children: field.children.map((child) => nulls(child, length * childValues, child.nullable)),
  };
}

function fittedMessage(
  sourceFile: IpcFile,
  fields: readonly Field[],
  fittedOf: ReadonlyMap<string, Field>,
  tableFile: IpcFile,
): Buffer {
  const builder = new Builder();
  const source = new CopiedSchema(builder, schemaMessage(sourceFile));
  const table = new CopiedSchema(builder, schemaMessage(tableFile));
  const [sent, stored] = [named(source.fields), named(table.fields)];
  const offsets = fields.flatMap((field) => {
    const target = fittedOf.get(field.name);
    if (target === undefined) return [];
    const [own, inTable] = [sent.get(field.name), stored.get(field.name)];
    if (field === target && own !== undefined) return source.at(own);
    if (inTable !== undefined) return writtenField({ builder, source, table }, field, own, inTable);
    throw new LancegateError('Internal', 'a column of the source is not in the table');
  });
  return finishSchema(builder, offsets);
}

const named = (tables: Iterable<FlatTable>): ReadonlyMap<string, FlatTable> =>
  new Map([...tables].map((table) => [table.text(fieldOf.name) ?? '', table]));

interface FieldsToWrite {
  readonly builder: Builder;
  readonly source: CopiedSchema;
  readonly table: CopiedSchema;
}

/** Writes a field as the table declares it, with the dictionaries of the source. `field` is that of the source as it was sent. */
function writtenField(
  to: FieldsToWrite,
  field: Field | undefined,
  own: FlatTable | undefined,
  target: FlatTable,
): number {
  const { builder, source, table } = to;
  if (field === undefined || own === undefined || isNull(field)) return table.at(target);
  const sent = [...own.tables(fieldOf.children)];
  const byName = named(sent);
  const offsets = [...target.tables(fieldOf.children)].map((child, i) => {
    const name = child.text(fieldOf.name) ?? '';
    return field.type.kind === 'struct'
      ? writtenField(to, childNamed(field, name), byName.get(name), child)
      : writtenField(to, field.children[i], sent[i], child);
  });
  const children = addOffsets(builder, offsets);
  const dictionary = source.at(own.table(fieldOf.dictionary));
  return addField(builder, { ...table.partsOf(target), children, dictionary });
}

/**
 * Counts the memory that one row takes in the columns of the table that the source does not send, and in fields of structs. It can
 * be more than all that the source sends: a fixed-size value takes its full size when it is NULL, so if the table has a vector of a
 * million floats, a key of four bytes makes four megabytes of NULL.
 */
export function nullBytesPerRow(source: Schema, table: Schema): number {
  const sent = new Map(
    source.fields.filter(({ type }) => type.kind !== 'null').map((field) => [field.name, field] as const),
  );
  // What has another type than in the table is there in both types for a while.
  const columns = table.fields.filter((target) => {
    const field = sent.get(target.name);
    return field === undefined || holdsOtherType(field, target);
  });
  const inside = absentFields(source, table).map(({ field }) => field);
  return Math.ceil(nullBytes([...columns, ...inside]));
}

const holdsOtherType = (field: Field, target: Field): boolean =>
  isOtherType(field, target) ||
  (field.type.kind !== 'struct' &&
    paired(field.children, target.children).some(([child, other]) => holdsOtherType(child, other)));

/** A NULL in each field takes a bit, and what its offsets, its value and its children take. */
const nullBytes = (fields: readonly Field[]): number =>
  fields.reduce((bytes, field) => {
    const { offsetBytes, valueBits = 0, childValues = 0 } = columnLayout(field);
    return bytes + 1 / 8 + offsetBytes + valueBits / 8 + childValues * nullBytes(childrenOf(field));
  }, 0);
