/** Reads of a version what no one has read yet. */
import { ownSql } from '../../../kernel/checked-sql.ts';
import type { ToTry } from '../../port/reader-work.ts';
import { rowAddress } from '../../port/row-address.ts';
import { type NativeTable, queryOf } from './native.ts';
import { countByScan } from './native-query.ts';

/** One query reads the ends of so many fragments. */
const fragmentsAtOnce = 256;

/**
 * Why the version cannot be read; undefined where it can. Of each fragment that is to be tried the first and the last row are read, and
 * then the rows of all that it has are counted: a count alone takes as long as a manifest has rows that no file has. An index is opened.
 */
export async function versionFault(table: NativeTable, { fragments, indexes }: ToTry): Promise<string | undefined> {
  for (let start = 0; start < fragments.length; start += fragmentsAtOnce) {
    await readEnds(table, fragments.slice(start, start + fragmentsAtOnce));
  }
  const rows = await table.countRows();
  if (fragments.length > 0 && (await countByScan(table, ownSql(`${rowAddress} >= 0`))) !== rows) {
    return 'its fragments have other rows than their files';
  }
  for (const name of indexes) await table.indexStats(name);
  return undefined;
}

async function readEnds(table: NativeTable, fragments: ToTry['fragments']): Promise<void> {
  const ends = fragments.flatMap(({ id, rows }) => {
    const first = BigInt(id) << 32n;
    return [first, first + BigInt(Math.max(0, rows - 1))];
  });
  const batches = await queryOf(table, ownSql(`${rowAddress} IN (${ends.join(', ')})`)).execute();
  while ((await batches.next()) !== null);
}
