import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { connect } from '@lancedb/lancedb';

export interface KeyCount {
  readonly rows: number;
  /** Rows whose key another row has already. */
  readonly duplicates: number;
}

/** Reads the keys of a table from its folder, as any reader of Lance would. With `storageOptions` from its URL on an object store. */
export async function countKeys(
  tableFolder: string,
  storageOptions: Readonly<Record<string, string>> = {},
): Promise<KeyCount> {
  const connection = await connect(dirname(tableFolder), { storageOptions });
  const table = await connection.openTable(basename(tableFolder, '.lance'));
  const keys: BigInt64Array[] = [];
  for await (const batch of table.query().select(['id'])) keys.push(batch.getChild('id')?.toArray() as BigInt64Array);
  const sorted = Float64Array.from(keys.flatMap((part) => [...part]).map(Number)).sort();
  let duplicates = 0;
  for (let i = 1; i < sorted.length; i++) if (sorted[i] === sorted[i - 1]) duplicates++;
  return { rows: sorted.length, duplicates };
}

/** What a folder takes on disk, in bytes; a file that goes while it is looked at counts as gone. */
export async function bytesOnDisk(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const sizes = entries
    .filter((entry) => entry.isFile())
    .map((entry) =>
      stat(join(entry.parentPath, entry.name)).then(
        ({ size }) => size,
        () => 0,
      ),
    );
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
