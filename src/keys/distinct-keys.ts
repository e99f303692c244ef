import { setImmediate } from 'node:timers/promises';
import { type FieldPath, formatFieldPath } from '../arrow/schema/field-path.ts';
import type { IpcChunk } from '../arrow/schema/schema.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { type Keys, readKeys } from './key-columns.ts';
import type { KeyDigests, KeyHasher } from './key-hasher.ts';
import { KeySet } from './key-table.ts';

/** The keys of a source that holds none twice, NULL aside. */
export interface DistinctKeys {
  readonly keys: Keys;
  readonly digests: KeyDigests;
}

/** Keys are hashed and compared on the event loop (P10). */
const mostBytesOfOneKey = 64 * 2 ** 10;
const mostBytesOfAllKeys = 256 * 2 ** 20;
/** Some milliseconds of work, after which other requests have the event loop. */
const rowsPerSlice = 1 << 16;

/** Like `readKeys`; throws `InvalidInput` for a key that is too long or there twice, and `BodyTooLarge`. */
export async function readDistinctKeys(
  chunk: IpcChunk,
  on: readonly FieldPath[],
  hasher: KeyHasher,
): Promise<DistinctKeys> {
  const keys = readKeys(chunk, on);
  requireShort(keys, on);
  const digests = await hasher.digest(keys);
  const duplicate = await findDuplicate(keys, digests);
  if (duplicate === undefined) return { keys, digests };
  const { row, firstRow } = duplicate;
  throw invalidInput(
    `the source holds a key twice: ${columnsOf(on)} = ${keys.show(row)} in rows ${firstRow} and ${row}`,
  );
}

const columnsOf = (on: readonly FieldPath[]): string => on.map(formatFieldPath).join(', ');

function requireShort(keys: Keys, on: readonly FieldPath[]): void {
  const { allBytes, longest } = keys.measure();
  if (longest.bytes > mostBytesOfOneKey) {
    throw invalidInput(
      `the key ${columnsOf(on)} of row ${longest.row} has ${longest.bytes} bytes; a key can have ${mostBytesOfOneKey}`,
    );
  }
  if (allBytes <= mostBytesOfAllKeys) return;
  throw new LancegateError(
    'BodyTooLarge',
    `the keys ${columnsOf(on)} have ${allBytes} bytes, and those of one merge can have ${mostBytesOfAllKeys}: send fewer rows at a time`,
  );
}

/** The first row whose key an earlier row has, too. */
export async function findDuplicate(
  keys: Keys,
  digests: KeyDigests,
): Promise<{ readonly row: number; readonly firstRow: number } | undefined> {
  const known = new KeySet(digests.wordsPerKey, keys.rows);
  const rowOf = new Uint32Array(keys.rows);
  for (let row = 0; row < keys.rows; row++) {
    if (row % rowsPerSlice === rowsPerSlice - 1) await setImmediate();
    if (keys.isNull(row)) continue;
    const newKey = known.size;
    const key = known.add(digests, row);
    if (key === newKey) rowOf[key] = row;
    else if (keys.isEqual(rowOf[key]!, row)) return { row, firstRow: rowOf[key]! };
  }
  return undefined;
}
