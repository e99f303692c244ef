/** Reads of a version what no one has read yet. */
import { ownSql } from '../../../kernel/checked-sql.ts';
import type { ToTry } from '../../port/reader-work.ts';
import { rowAddress } from '../../port/row-address.ts';
import { type NativeTable, queryOf } from './native.ts';
import { countByScan } from './native-query.ts';

/** Of more, as many are read that are as far apart as can be. */
const mostFragments = 256;

/**
 * Why the version cannot be read; undefined where it can. Of the fragments that are to be tried the first and the last row are read, and
 * then the rows of all that it has are counted: a count takes as long as the rows are many that the manifest alone has. An index is opened.
 */
export async function versionFault(table: NativeTable, { fragments, indexes }: ToTry): Promise<string | undefined> {
  const step = Math.max(1, fragments.length / mostFragments);
  for (let at = 0; at < fragments.length; at += step) {
    await readEnds(table, fragments[Math.floor(at)]!);
  }
  const rows = await table.countRows();
  if (fragments.length > 0 && (await countByScan(table, ownSql(`${rowAddress} >= 0`))) !== rows) {
    return 'its fragments have other rows than their files';
  }
  for (const name of indexes) await table.indexStats(name);
  return undefined;
}

async function readEnds(table: NativeTable, { id, rows }: ToTry['fragments'][number]): Promise<void> {
  const first = BigInt(id) << 32n;
  const last = first + BigInt(Math.max(0, rows - 1));
  const batches = await queryOf(table, ownSql(`${rowAddress} IN (${first}, ${last})`)).execute();
  while ((await batches.next()) !== null);
}
