import { type NativeIndex, type NativeTable, plainIndexName } from '../native/native.ts';

/** The caches that a dataset was opened with. */
export interface DatasetCaches {
  areReplaced(): boolean;
  /** Whether an index of so many bytes can be kept, which may take other caches than these. */
  makeRoom(column: string, bytes: number): boolean;
  /** The newest version, with the caches there are now. */
  open(): Promise<NativeTable>;
}

/** As `Dataset.warmIndex`. `warmShadow` reads the index for the shadows of the branch, and is false if there can be none. */
export async function warmIndex(
  table: NativeTable,
  caches: DatasetCaches | undefined,
  column: string,
  warmShadow: (name: string) => Promise<boolean>,
): Promise<boolean> {
  const name = plainIndexName(column);
  const index = (await table.listIndices()).find((each) => each.name === name);
  if (index === undefined || caches === undefined) return true;
  if (!caches.makeRoom(column, bytesInMemory(index))) return false;
  if (await warmShadow(name)) return true;
  const other = await caches.open();
  await other.prewarmIndex(name).finally(() => other.close());
  return true;
}

/** Keys are stored packed; in memory each takes its row's address beside it, and numbers eight bytes. */
const bytesInMemory = ({ sizeBytes = 0, numIndexedRows = 0 }: NativeIndex): number => sizeBytes + 16 * numIndexedRows;
