/**
 * Whether commits changed rows, by what their transactions say they did. A transaction is in the manifest of the version it
 * made or, from writers that do not repeat it there, in a file the manifest names.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readManifest } from '../manifest/manifest-files.ts';
import { transactionIn } from '../manifest/manifest-sections.ts';
import { type Operation, operationOf } from './operation.ts';

/** An index also drops one; a rewrite is a compaction; the last one changes settings and metadata. */
const keepingRows: ReadonlySet<Operation | 'unknown'> = new Set([
  'createIndex',
  'rewrite',
  'reserveFragments',
  'updateConfig',
]);

/** Each version costs the reading of its manifest, 0.05 to 0.1 ms; past so many, working out what changed costs less. */
const mostVersions = 64;
/** To read a table again takes longer: 1 ms for each thousand rows. */
export const mostVersionsFollowed = 1_024;

/** What all commits after version `after` up to version `through` did to the rows: compaction and indexes change none. */
export function rowChangeBetween(versionsFolder: string, after: number, through: number): 'none' | 'some' | 'unknown' {
  const operations = operationsBetween(versionsFolder, after, through);
  if (operations.some((operation) => operation !== undefined && !keepingRows.has(operation))) return 'some';
  return operations.includes(undefined) ? 'unknown' : 'none';
}

/** Whether every row is where it was: as `rowChangeBetween`, but nothing was tidied either. */
export const keepsEveryPlace = (versionsFolder: string, after: number, through: number): boolean =>
  operationsBetween(versionsFolder, after, through).every(
    (operation) => operation !== undefined && operation !== 'rewrite' && keepingRows.has(operation),
  );

const operationsBetween = (
  versionsFolder: string,
  after: number,
  through: number,
): readonly (Operation | 'unknown' | undefined)[] =>
  transactionsBetween(versionsFolder, after, through).map((transaction) =>
    readable(() => transaction && operationOf(transaction)),
  );

function readable<Result>(read: () => Result): Result | undefined {
  try {
    return read();
  } catch {
    // Pruned meanwhile, or in a form that is not known here.
    return undefined;
  }
}

/** Of each version after `after` up to `through`, oldest first; undefined for one that cannot be read, or for all at once. */
export function transactionsBetween(
  versionsFolder: string,
  after: number,
  through: number,
  most = mostVersions,
): readonly (Uint8Array | undefined)[] {
  if (through < after || through - after > most) return [undefined];
  const versions = Array.from({ length: through - after }, (_, index) => after + 1 + index);
  return versions.map((version) => readable(() => readTransaction(versionsFolder, version)));
}

function readTransaction(versionsFolder: string, version: number): Uint8Array | undefined {
  const found = readManifest(versionsFolder, version);
  if (found === undefined) return undefined;
  const transaction = transactionIn(found.bytes);
  if (typeof transaction !== 'string') return transaction;
  return readFileSync(join(dirname(versionsFolder), '_transactions', transaction));
}
