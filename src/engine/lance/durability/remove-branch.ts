import { readFileSync, rmdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { branchFolder, branchRecord, branchRecords, namesIn } from '../../../lance-format/manifest/manifest-files.ts';
import type { FileSync } from './file-sync.ts';

/** What a branch has of its own; folders of other branches may lie beside them. */
const ownFolders = ['_versions', '_transactions', '_deletions', '_indices', 'data'];

/** False for a record that is missing or torn. */
export function isReadableRecord(path: string): boolean {
  try {
    JSON.parse(readFileSync(path, 'utf8'));
    return true;
  } catch (error) {
    if (error instanceof SyntaxError || isAny(error, 'ENOENT')) return false;
    throw error;
  }
}

/** Takes a branch out that the engine cannot, because it is not whole. The record goes first: it is what names the branch. */
export async function removeBranch(datasetPath: string, branch: string, sync: FileSync): Promise<void> {
  rmSync(branchRecord(datasetPath, branch), { force: true });
  removeUnfinishedRecords(datasetPath, branch);
  await sync.folder(branchRecords(datasetPath)).catch(ignoreMissing);
  const folder = branchFolder(datasetPath, branch);
  for (const name of ownFolders) rmSync(join(folder, name), { recursive: true, force: true });
  removeEmpty(folder, datasetPath);
}

/** The engine writes a record under a name that begins with its own, escaped once more, and renames it. */
function removeUnfinishedRecords(datasetPath: string, branch: string): void {
  const begins = `${encodeURIComponent(encodeURIComponent(branch))}.json.tmp.`;
  const folder = branchRecords(datasetPath);
  for (const name of namesIn(folder)) if (name.startsWith(begins)) rmSync(join(folder, name));
}

function removeEmpty(folder: string, datasetPath: string): void {
  try {
    for (let empty = folder; empty !== datasetPath; empty = dirname(empty)) rmdirSync(empty);
  } catch (error) {
    if (!isAny(error, 'ENOTEMPTY', 'EEXIST', 'ENOENT')) throw error;
  }
}

function ignoreMissing(error: unknown): void {
  if (!isAny(error, 'ENOENT')) throw error;
}

const isAny = (error: unknown, ...codes: readonly string[]): boolean =>
  codes.includes((error as NodeJS.ErrnoException).code ?? '');
