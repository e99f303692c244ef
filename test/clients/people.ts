/** A small table that many tests share: rows that are easy to read, of types that JavaScript does not blur. */
import { Field, Float64, Int32, makeData, Schema, Struct, Table, Utf8, vectorFromArray } from 'apache-arrow';
import type { Row } from './connections.ts';

const fields = {
  id: new Field('id', new Int32(), true),
  name: new Field('name', new Utf8(), true),
  score: new Field('score', new Float64(), true),
};

export const peopleSchema = new Schema(Object.values(fields));

interface Person extends Row {
  readonly id: number | null;
  readonly name: string | null;
  readonly score: number | null;
}

export const person = (id: number | null, name: string | null, score: number | null): Person => ({ id, name, score });

/** Some of the columns, in the order in which they are named; a column that a row lacks is NULL. */
export function peopleTable(
  rows: readonly Partial<Person>[],
  columns: readonly (keyof typeof fields)[] = ['id', 'name', 'score'],
): Table {
  const schema = new Schema(columns.map((column) => fields[column]));
  const children = columns.map((column) => {
    const values = rows.map((row) => row[column] ?? null);
    return vectorFromArray(values, fields[column].type).data[0] ?? makeData({ type: fields[column].type });
  });
  return new Table(schema, makeData({ type: new Struct(schema.fields), length: rows.length, children }) as never);
}
