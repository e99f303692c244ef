/**
 * Whether commits changed rows, by what their transactions say they did. A transaction is in the manifest of the version it
 * made or, from writers that do not repeat it there, in a file the manifest names. Its operation is the one field of it
 * between 100 and 199 (Lance's `protos/transaction.proto`).
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { RowChange } from '../port.ts';
import { parseManifest } from './manifest.ts';
import { readManifest } from './manifest-files.ts';
import type { MovedRows } from './moved-rows.ts';
import { WireReader } from './wire-reader.ts';

const rewrite = 104;
/** CreateIndex (also its removal), Rewrite (compaction), ReserveFragments, UpdateConfig (settings and metadata). */
const keepingRows: ReadonlySet<number> = new Set([103, rewrite, 107, 110]);
const firstOperation = 100;

/** Each version costs the reading of its manifest; past so many, working out what changed costs less. */
const mostVersions = 64;

/** Of all commits after version `after` up to version `through`; `moved` knows of some that they changed none. */
export function rowChangeBetween(versionsFolder: string, after: number, through: number, moved?: MovedRows): RowChange {
  if (through < after || through - after > mostVersions) return 'unknown';
  let isKnown = true;
  for (let version = after + 1; version <= through; version++) {
    const change = rowChangeOf(versionsFolder, version, moved);
    if (change === 'some') return 'some';
    if (change === 'unknown') isKnown = false;
  }
  return isKnown ? 'none' : 'unknown';
}

/** Whether every row is where it was: as `rowChangeBetween`, but nothing was tidied either. */
export function keepsEveryPlace(versionsFolder: string, after: number, through: number): boolean {
  if (through < after || through - after > mostVersions) return false;
  for (let version = after + 1; version <= through; version++) {
    const operation = transactionAt(versionsFolder, version)?.operation;
    if (operation === undefined || operation === rewrite || !keepingRows.has(operation)) return false;
  }
  return true;
}

/** Of the transaction that made the version; undefined where that cannot be read. */
export function transactionIdAt(versionsFolder: string, version: number): string | undefined {
  return transactionAt(versionsFolder, version)?.id;
}

function rowChangeOf(versionsFolder: string, version: number, moved: MovedRows | undefined): RowChange {
  const { id, operation } = transactionAt(versionsFolder, version) ?? {};
  if (operation === undefined) return 'unknown';
  const keepsRows = keepingRows.has(operation) || (id !== undefined && moved?.has(id) === true);
  return keepsRows ? 'none' : 'some';
}

function transactionAt(versionsFolder: string, version: number): Transaction | undefined {
  return readable(() => {
    const transaction = readTransaction(versionsFolder, version);
    return transaction && parseTransaction(new WireReader(transaction));
  });
}

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
): readonly (Uint8Array | undefined)[] {
  if (through < after || through - after > mostVersions) return [undefined];
  const versions = Array.from({ length: through - after }, (_, index) => after + 1 + index);
  return versions.map((version) => readable(() => readTransaction(versionsFolder, version)));
}

function readTransaction(versionsFolder: string, version: number): Uint8Array | undefined {
  const found = readManifest(versionsFolder, version);
  if (found === undefined) return undefined;
  const { transaction, files } = parseManifest(found.bytes);
  if (transaction !== undefined) return transaction;
  const file = files.find(({ kind }) => kind === 'transaction');
  return file && readFileSync(join(dirname(versionsFolder), '_transactions', file.path));
}

interface Transaction {
  readonly id: string | undefined;
  readonly operation: number | undefined;
}

function parseTransaction(reader: WireReader): Transaction {
  let id: string | undefined;
  let operation: number | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 2) id = reader.text();
    else reader.skip();
    if (field >= firstOperation) operation = field;
  }
  return { id, operation };
}
