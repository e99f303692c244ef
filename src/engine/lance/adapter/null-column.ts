import { Field, Int32, Schema, Table, tableToIPC } from 'apache-arrow';

/** As an IPC file: one nullable column, of whole numbers. */
export function schemaOfNullColumn(name: string): Buffer {
  const empty = new Table(new Schema([new Field(name, new Int32(), true)]));
  return Buffer.from(tableToIPC(empty, 'file'));
}
