/** Which buffers the columns of a record batch have, by their types. */
import type { DataType, Field } from '../schema/schema.ts';

export type ColumnLayout =
  | { readonly form: 'empty' }
  | { readonly form: 'bits' }
  | { readonly form: 'fixed'; readonly widthBytes: number }
  | { readonly form: 'variable' | 'list'; readonly offsetBytes: 4 | 8 }
  | { readonly form: 'fixed_size_list'; readonly listSize: number }
  | { readonly form: 'struct' };

const intervalBytes = { year_month: 4, day_time: 8, month_day_nano: 16 } as const;

function valueLayout(type: DataType): ColumnLayout {
  switch (type.kind) {
    case 'null':
      return { form: 'empty' };
    case 'bool':
      return { form: 'bits' };
    case 'int':
    case 'float':
    case 'decimal':
      return { form: 'fixed', widthBytes: type.bitWidth / 8 };
    case 'date':
      return { form: 'fixed', widthBytes: type.unit === 'day' ? 4 : 8 };
    case 'time':
      return { form: 'fixed', widthBytes: type.unit === 's' || type.unit === 'ms' ? 4 : 8 };
    case 'timestamp':
    case 'duration':
      return { form: 'fixed', widthBytes: 8 };
    case 'interval':
      return { form: 'fixed', widthBytes: intervalBytes[type.unit] };
    case 'fixed_size_binary':
      return { form: 'fixed', widthBytes: type.byteWidth };
    case 'utf8':
    case 'binary':
      return { form: 'variable', offsetBytes: 4 };
    case 'large_utf8':
    case 'large_binary':
      return { form: 'variable', offsetBytes: 8 };
    case 'list':
    case 'map':
      return { form: 'list', offsetBytes: 4 };
    case 'large_list':
      return { form: 'list', offsetBytes: 8 };
    case 'fixed_size_list':
      return { form: 'fixed_size_list', listSize: type.listSize };
    case 'struct':
      return { form: 'struct' };
  }
}

/** A dictionary-encoded column lies in its batches as its indices. */
export const columnLayout = (field: Field): ColumnLayout =>
  field.dictionary === undefined
    ? valueLayout(field.type)
    : { form: 'fixed', widthBytes: field.dictionary.index.bitWidth / 8 };

/** How many buffers a column has, those of its children not counted. */
export const ownBuffers = { empty: 0, bits: 2, fixed: 2, variable: 3, list: 2, fixed_size_list: 1, struct: 1 } as const;
