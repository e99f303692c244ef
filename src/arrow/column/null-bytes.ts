/**
 * The memory of NULLs. A fixed-size value takes its full size when it is NULL, so the columns that a source leaves out can take
 * more than all that it sends: if the table has a vector of a million floats, a key of four bytes makes four megabytes of NULL.
 */

import type { Field, Schema } from '../schema/schema.ts';
import { columnLayout } from './column-layout.ts';

const bit = 1 / 8;

/** For one row, in all columns of the table that the source does not send; rounded up. */
export function nullBytesPerRow(source: Schema, table: Schema): number {
  const sent = new Set(source.fields.filter(({ type }) => type.kind !== 'null').map(({ name }) => name));
  return Math.ceil(nullBytes(table.fields.filter(({ name }) => !sent.has(name))));
}

const nullBytes = (fields: readonly Field[]): number =>
  fields.reduce((bytes, field) => bytes + bit + nullValueBytes(field), 0);

function nullValueBytes(field: Field): number {
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
