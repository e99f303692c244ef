/**
 * What NULLs take. A fixed-size value is as large in memory when it is NULL as when it is not, so the columns that a source
 * leaves out can take more than all that it sends: four bytes of key make four megabytes of NULL where the table has a vector
 * of a million floats.
 */
import { columnLayout } from './column-layout.ts';
import type { Field, Schema } from './schema.ts';

const bit = 1 / 8;

/** Of one row of all columns of the table that the source does not bring, rounded up. */
export function nullBytesPerRow(source: Schema, table: Schema): number {
  const brought = new Set(source.fields.filter(({ type }) => type.kind !== 'null').map(({ name }) => name));
  return Math.ceil(nullBytes(table.fields.filter(({ name }) => !brought.has(name))));
}

const nullBytes = (fields: readonly Field[]): number =>
  fields.reduce((bytes, field) => bytes + bit + valueBytes(field), 0);

function valueBytes(field: Field): number {
  const layout = columnLayout(field);
  switch (layout.form) {
    case 'empty':
      return 0;
    case 'bits':
      return bit;
    case 'fixed':
      return layout.widthBytes;
    case 'variable':
    case 'list':
      return layout.offsetBytes;
    case 'fixed_size_list':
      return layout.listSize * nullBytes(field.children);
    case 'struct':
      return nullBytes(field.children);
  }
}
