/**
 * The columns of a table that is only declared. It has none, unless the property `lancegate.schema` names them, in the form
 * in which a describe answers a schema: the SDKs of LanceDB compare rows with it before they send them.
 */
import { readLanceSchema } from '../arrow/schema/lance-json.ts';
import type { Schema } from '../arrow/schema/schema.ts';
import { emptyFile } from '../arrow/schema/schema-bytes.ts';
import { checkStorable } from '../arrow/schema/schema-rules.ts';
import { chunkOfFile } from '../arrow/stream/ipc-chunks.ts';
import type { TableRecord } from '../catalog/port.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { BranchName, Properties } from '../kernel/ids.ts';
import { requireBoundedJson } from '../kernel/json-bounds.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { TableMaker } from './table-maker.ts';

export const columnsProperty = 'lancegate.schema';

/** `InvalidInput`. */
export function declaredColumns(properties: Properties): Schema {
  const text = properties[columnsProperty];
  if (text === undefined) return { fields: [], metadata: new Map() };
  requireBoundedJson(text, columnsProperty);
  const schema = readLanceSchema(parsed(text), columnsProperty);
  checkStorable(schema);
  emptyFile(schema.fields); // refuses a type that could not be shown as text
  return schema;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidInput(`${columnsProperty}: it is not JSON`); // translated: it names the property
  }
}

interface DeclaredDeps {
  readonly access: TableAccess;
  readonly locks: TableLocks;
  readonly maker: TableMaker;
}

/**
 * Before its first rows a table that is declared with columns is made of them, in a version of its own: then the rows come
 * into it as into any other. One without columns stays as it is, and its first rows make it.
 */
export async function madeOfColumns(
  { access, locks, maker }: DeclaredDeps,
  table: TableRecord,
  { branch }: { readonly branch: BranchName | undefined },
  { signal }: RequestScope,
): Promise<TableRecord> {
  if (table.state === 'created' || branch !== undefined) return table;
  if (declaredColumns(table.properties).fields.length === 0) return table;
  const release = await locks.lockExclusive(table.ref, signal);
  try {
    const record = await access.find(table.ref);
    const { fields } = declaredColumns(record.properties);
    if (record.state === 'created' || fields.length === 0) return record;
    await using creation = await maker.beginDeclared(record);
    const written = await creation.write([chunkOfFile(emptyFile(fields))], signal);
    const outcome = { mode: 'create', num_inserted_rows: '0' };
    await creation.publish(written, { operation: 'create_table', outcome, answer: undefined });
  } finally {
    release();
  }
  return access.find(table.ref);
}
