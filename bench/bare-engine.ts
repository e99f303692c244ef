import { connect } from '@lancedb/lancedb';

interface NativeMerge {
  whenMatchedUpdateAll(): NativeMerge;
  whenNotMatchedInsertAll(): NativeMerge;
  execute(file: Buffer): Promise<{ version: number }>;
}
interface NativeTable {
  mergeInsert(on: string[]): NativeMerge;
  countRows(): Promise<number>;
}
interface NativeConnection {
  createTable(name: string, file: Buffer, mode: string, namespace: string[]): Promise<NativeTable>;
}

export interface BareTable {
  upsert(file: Buffer): Promise<unknown>;
  countRows(): Promise<number>;
}

/**
 * The peer: Lance in process, given the bytes in the form it takes fastest, with no checks, no turns, no fsync and no
 * network. A team without a service between would write like this, at best.
 */
export async function createBare(folder: string, name: string, file: Buffer): Promise<BareTable> {
  const { inner } = (await connect(folder)) as unknown as { inner: NativeConnection };
  const table = await inner.createTable(name, file, 'create', []);
  return {
    upsert: (source) => table.mergeInsert(['id']).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(source),
    countRows: () => table.countRows(),
  };
}
