import { type DataType, elementOf, type Field, typeName } from '../../arrow/schema/schema.ts';
import type { IndexOptions, VectorIndexType, VectorOptions } from '../../engine/port/index-spec.ts';
import { invalidInput } from '../../kernel/errors.ts';

/** `InvalidInput` where an index of this type cannot be of the column. The engine refuses a few more types of values. */
export function requireIndexable(field: Field, path: string, options: IndexOptions): void {
  const fits = 'vector' in options ? isVector(field) : takes[options.type](field);
  if (!fits || field.dictionary !== undefined) {
    throw invalidInput(`column ${path} of type ${typeName(field)} cannot have an index of type ${options.type}`);
  }
  if ('vector' in options) requireVector(field, path, options.type, options.vector);
}

type ValueKinds = readonly DataType['kind'][];
const texts: ValueKinds = ['utf8', 'large_utf8'];
const bytes: ValueKinds = ['binary', 'large_binary'];
const lists: ValueKinds = ['list', 'large_list'];
const nested: ValueKinds = [...lists, 'fixed_size_list', 'struct', 'map', 'null'];

const takes: Readonly<Record<Exclude<IndexOptions['type'], VectorIndexType>, (field: Field) => boolean>> = {
  BTREE: ({ type }) => ![...nested, ...bytes].includes(type.kind),
  BITMAP: ({ type }) => ![...nested, 'float'].includes(type.kind),
  LABEL_LIST: ({ type }) => lists.includes(type.kind),
  FM: ({ type }) => [...texts, ...bytes].includes(type.kind),
  FTS: ({ type, children: [item] }) =>
    texts.includes(type.kind) || (lists.includes(type.kind) && item !== undefined && texts.includes(item.type.kind)),
};

/** One vector, or several in each row. */
function isVector({ type, children: [item] }: Field): boolean {
  if (type.kind === 'list') return item !== undefined && item.type.kind === 'fixed_size_list' && isVector(item);
  if (type.kind !== 'fixed_size_list' || item === undefined) return false;
  return item.type.kind === 'float' || isByte(item.type);
}

const isByte = (type: DataType): boolean => type.kind === 'int' && type.bitWidth === 8 && !type.signed;

function requireVector(field: Field, path: string, type: VectorIndexType, { distance, numSubVectors }: VectorOptions) {
  const isMany = field.type.kind === 'list';
  const vector = isMany ? elementOf(field) : field;
  const dimension = vector.type.kind === 'fixed_size_list' ? vector.type.listSize : 0;
  if (isMany && distance !== 'cosine') {
    throw invalidInput(`distance_type: column ${path} has several vectors in a row, which only cosine can compare`);
  }
  if (isByte(elementOf(vector).type) !== (distance === 'hamming')) {
    throw invalidInput('distance_type: hamming is for vectors of uint8, and these for hamming');
  }
  if (distance === 'hamming' && type !== 'IVF_FLAT') {
    throw invalidInput(`distance_type: an index of type ${type} does not know hamming; IVF_FLAT does`);
  }
  if (numSubVectors !== undefined && dimension % numSubVectors !== 0) {
    throw invalidInput(`num_sub_vectors: it must divide the dimension of column ${path}, ${dimension}`);
  }
}
