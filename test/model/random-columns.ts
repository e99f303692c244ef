/** Schemas of random tables: some columns that can be keys, structs with keys inside, and a payload. */
import { type Column, keyTypes, type ScalarType } from './columns.ts';
import type { Random } from './random.ts';

/** Spelled to hurt: case alone tells two apart, and some need quotes in SQL or in a field path. */
const keyNames = ['id', 'Id', 'ID', 'the key', 'select', 'target', 'größe', "it's", 'k-1', 'region'];
const fieldNames = ['k', 'K', 'a.b', 'tick`ed', 'a b', 'x', 'from'];
const structNames = ['meta', 'Meta', 'the struct', 'source'];

const column = (name: string, type: Column['type'], nullable = true, fields: readonly Column[] = []): Column => ({
  name,
  type,
  nullable,
  fields,
});

const keyColumn = (random: Random, name: string): Column => {
  const type: ScalarType = random.chance(50) ? random.pick(['int32', 'int64', 'utf8']) : random.pick(keyTypes);
  return column(name, type, random.chance(80));
};

function structColumn(random: Random, name: string, depth: number): Column {
  const names = random.sample(fieldNames, 1 + random.int(3));
  const fields = names.map((of) => keyColumn(random, of));
  const inner = depth > 0 && random.chance(35) ? [structColumn(random, 'in', depth - 1)] : [];
  const list = random.chance(20) ? [column('items', 'list')] : [];
  return column(name, 'struct', random.chance(75), [...fields, ...inner, ...list]);
}

export function randomColumns(random: Random): readonly Column[] {
  const keys = random.sample(keyNames, 1 + random.int(3)).map((name) => keyColumn(random, name));
  const structs = random.sample(
    structNames,
    random.weighted([
      [30, 0],
      [60, 1],
      [10, 2],
    ]),
  );
  const payload = [column('n', 'int64'), column('t', 'utf8'), column('flag', 'bool'), column('items', 'list')];
  const columns = [
    ...keys,
    ...structs.map((name) => structColumn(random, name, 2)),
    ...random.sample(payload, 1 + random.int(payload.length)),
  ];
  return random.sample(columns, columns.length);
}
