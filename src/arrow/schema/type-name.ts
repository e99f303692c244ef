/** How types are named to people, in errors. Not a wire format: that is `lance-schema-json.ts`. */
import type { DataType, Field } from './schema.ts';

const timestampName = (unit: string, timezone: string | undefined): string =>
  timezone === undefined ? `timestamp(${unit})` : `timestamp(${unit}, ${timezone})`;

const childNames = (children: readonly Field[]): string =>
  children.map((child) => `${child.name}: ${typeName(child)}`).join(', ');

function valueTypeName(type: DataType, children: readonly Field[]): string {
  switch (type.kind) {
    case 'int':
      return `${type.signed ? 'int' : 'uint'}${type.bitWidth}`;
    case 'float':
      return `float${type.bitWidth}`;
    case 'decimal':
      return `decimal${type.bitWidth}(${type.precision}, ${type.scale})`;
    case 'date':
      return type.unit === 'day' ? 'date32' : 'date64';
    case 'time':
    case 'duration':
    case 'interval':
      return `${type.kind}(${type.unit})`;
    case 'timestamp':
      return timestampName(type.unit, type.timezone);
    case 'fixed_size_binary':
      return `fixed_size_binary(${type.byteWidth})`;
    case 'fixed_size_list':
      return `fixed_size_list<${children.map(typeName).join()}>(${type.listSize})`;
    case 'list':
    case 'large_list':
    case 'map':
      return `${type.kind}<${children.map(typeName).join()}>`;
    case 'struct':
      return `struct<${childNames(children)}>`;
    case 'null':
    case 'bool':
    case 'binary':
    case 'utf8':
    case 'large_binary':
    case 'large_utf8':
      return type.kind;
  }
}

/** Such as `int64`, `timestamp(us, UTC)`, `list<utf8>`, `dictionary<int8, utf8>`. */
export function typeName(field: Field): string {
  const name = valueTypeName(field.type, field.children);
  if (field.dictionary === undefined) return name;
  const { signed, bitWidth } = field.dictionary.index;
  return `dictionary<${signed ? 'int' : 'uint'}${bitWidth}, ${name}>`;
}
