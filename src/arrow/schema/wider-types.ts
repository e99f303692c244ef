/** Which types hold every value of others, exactly. docs/protocol.md has the list for users. */
import { isDeepStrictEqual } from 'node:util';
import { isNull, isOtherType } from './fitted-schema.ts';
import type { DataType, Field, Schema } from './schema.ts';

/** A float has each integer up to so many bits. */
const longestInt = { 16: 0, 32: 16, 64: 32 } as const;

/** Whether each value of the one type is also one of the other. */
function isWithin(some: DataType, wide: DataType): boolean {
  if (some.kind === 'int' && wide.kind === 'int')
    return some.signed === wide.signed ? some.bitWidth <= wide.bitWidth : wide.signed && some.bitWidth < wide.bitWidth;
  if (some.kind === 'int' && wide.kind === 'float') return some.bitWidth <= longestInt[wide.bitWidth];
  if (some.kind === 'float' && wide.kind === 'float') return some.bitWidth <= wide.bitWidth;
  if (some.kind === 'decimal' && wide.kind === 'decimal')
    return some.scale === wide.scale && some.precision <= wide.precision && some.bitWidth <= wide.bitWidth;
  if (some.kind === 'utf8' || some.kind === 'binary')
    return wide.kind === some.kind || wide.kind === `large_${some.kind}`;
  return isDeepStrictEqual(some, wide);
}

/** What has room for two types neither of which holds the other, the narrowest first. */
const numbers: readonly DataType[] = [
  ...([16, 32, 64] as const).map((bitWidth) => ({ kind: 'int', bitWidth, signed: true }) as const),
  ...([32, 64] as const).map((bitWidth) => ({ kind: 'float', bitWidth }) as const),
];

/** The narrowest type that has room for both; undefined where there is none. */
export function typeForBoth(some: DataType, other: DataType): DataType | undefined {
  if (isWithin(some, other)) return other;
  if (isWithin(other, some)) return some;
  return numbers.find((each) => isWithin(some, each) && isWithin(other, each));
}

const isStruct = ({ type, dictionary }: Field): boolean => type.kind === 'struct' && dictionary === undefined;

/** Lays the schema out with the types of the table where these hold all of its values. Columns of type Null that the table lacks go. */
export function withTypesOf(source: Schema, table: Schema): Schema {
  const byName = new Map(table.fields.map((field) => [field.name, field]));
  const fields = source.fields.flatMap((field) => {
    const target = byName.get(field.name);
    if (target !== undefined) return typedAs(field, target);
    return isNull(field) ? [] : field;
  });
  const isSame = fields.length === source.fields.length && fields.every((field, i) => field === source.fields[i]);
  return isSame ? source : { ...source, fields };
}

function typedAs(field: Field, target: Field): Field {
  if (field.dictionary !== undefined || target.dictionary !== undefined) return field;
  const children = field.children.map((child, i) => {
    const other = isStruct(field) ? target.children.find(({ name }) => name === child.name) : target.children[i];
    return other === undefined ? child : typedAs(child, other);
  });
  const areSame = children.every((child, i) => child === field.children[i]);
  const isNarrower = isOtherType(field, target) && !isNull(field) && isWithin(field.type, target.type);
  if (isNarrower) return { ...field, type: target.type };
  return areSame ? field : { ...field, children };
}
