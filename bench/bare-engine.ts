import { existsSync, readdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, Index } from '@lancedb/lancedb';

interface NativeMerge {
  whenMatchedUpdateAll(): NativeMerge;
  whenNotMatchedInsertAll(): NativeMerge;
  execute(file: Buffer): Promise<{ version: number }>;
}
interface NativeTable {
  mergeInsert(on: string[]): NativeMerge;
  add(file: Buffer, mode: 'append'): Promise<unknown>;
  countRows(): Promise<number>;
}
interface NativeConnection {
  createTable(name: string, file: Buffer, mode: string, namespace: string[]): Promise<NativeTable>;
}

export interface BareTable {
  upsert(file: Buffer): Promise<unknown>;
  append(file: Buffer): Promise<unknown>;
  /** The same table as another program has it open. */
  again(): Promise<Pick<BareTable, 'append'>>;
  /** A BTREE on the key. */
  buildIndex(): Promise<void>;
  /** What it takes to make the last upsert survive a power cut: the engine itself does not. */
  sync(): Promise<void>;
  countRows(): Promise<number>;
}

/**
 * The peer: Lance in process, given the bytes in the form it takes fastest, with no checks, no locks, no fsync and no
 * network. A team without a service between would write like this, at best.
 */
export async function createBare(folder: string, name: string, file: Buffer): Promise<BareTable> {
  const database = await connect(folder);
  const { inner } = database as unknown as { inner: NativeConnection };
  const table = await inner.createTable(name, file, 'create', []);
  const sync = newFileSync(join(folder, `${name}.lance`));
  await sync();
  return {
    sync,
    upsert: (source) => table.mergeInsert(['id']).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(source),
    append: (source) => table.add(source, 'append'),
    again: async () => {
      const other = await (await connect(folder)).openTable(name);
      const { inner: opened } = other as unknown as { inner: NativeTable };
      return { append: (source) => opened.add(source, 'append') };
    },
    buildIndex: async () => (await database.openTable(name)).createIndex('id', { config: Index.btree() }),
    countRows: () => table.countRows(),
  };
}

const parts = ['data', '_deletions', '_transactions', '_versions'];

/** Syncs the files that were not there the last time, and the folders that hold them. */
function newFileSync(folder: string): () => Promise<void> {
  const known = new Set<string>();
  return async () => {
    const folders = parts.map((part) => join(folder, part)).filter((path) => existsSync(path));
    const files = folders.flatMap((path) => readdirSync(path).map((name) => join(path, name)));
    const fresh = files.filter((path) => !known.has(path));
    await Promise.all(fresh.map(syncPath));
    await Promise.all(folders.map(syncPath));
    for (const path of fresh) known.add(path);
  };
}

async function syncPath(path: string): Promise<void> {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
