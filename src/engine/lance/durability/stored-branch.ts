/**
 * What a new branch on an object store needs beside what the engine makes of it. The engine makes its first version, then the record
 * that it exists, and neither says where the indexes are that its parent has inherited. So a crash leaves one of two things: a first
 * version without a record, which is no branch, or a branch whose indexes cannot be found.
 */
import { basename, join } from 'node:path';
import type { BranchName } from '../../../kernel/ids.ts';
import { branchManifest } from '../../../lance-format/manifest/manifest-changes.ts';
import {
  branchFolder,
  branchRecord,
  manifestNames,
  versionOfManifestKey,
  versionOfManifestName,
} from '../../../lance-format/manifest/manifest-files.ts';
import type { BranchMirror } from '../store/branch-mirror.ts';
import { type Confirm, ConfirmedRemovals } from './confirmed-removals.ts';

export interface NewBranch {
  readonly name: BranchName;
  readonly parent: BranchName | undefined;
  /** The branch begins at it. */
  readonly version: number;
}

/** Mirrors are not asked: they may be of earlier branches of these names, which another replica has deleted. */
type DatasetInStore = Pick<BranchMirror, 'store' | 'datasetPrefix'>;

/** Of all versions of the branch: another program may have committed to it by now. Changes nothing where all is in place. */
export async function placeStoredIndexes(
  dataset: DatasetInStore,
  { name, parent, version }: NewBranch,
  confirm?: Confirm,
): Promise<void> {
  const [keys, ofParent] = await Promise.all([manifestsOf(dataset, name), storedManifest(dataset, parent, version)]);
  if (ofParent === undefined) return;
  for (const key of keys) {
    const made = await dataset.store.get(key);
    const placed = made && branchManifest(made, ofParent);
    if (made === undefined || placed === undefined || placed.equals(made)) continue;
    await new ConfirmedRemovals(confirm).next();
    await dataset.store.put(key, placed);
  }
}

/** Completes a branch that was being made when its process ended; returns its versions. None without a record of it. */
export async function completeStoredBranch(dataset: DatasetInStore, name: BranchName): Promise<readonly number[]> {
  const record = await dataset.store.get(branchRecord(dataset.datasetPrefix, name));
  if (record === undefined) return [];
  const { parentBranch, parentVersion } = JSON.parse(record.toString()) as BranchRecord;
  await placeStoredIndexes(dataset, { name, parent: parentBranch ?? undefined, version: parentVersion });
  return (await manifestsOf(dataset, name)).map(versionOf).sort((a, b) => a - b);
}

/** Lance writes it like this. */
interface BranchRecord {
  readonly parentBranch?: BranchName | null;
  readonly parentVersion: number;
}

/**
 * To be called before the branch is made: versions that a create or a delete has left which was cut short would be in the way of the
 * engine. Recovery leaves them, because the record may come yet if the process before has only stood still. What they name is removed
 * as other orphan files are.
 */
export async function clearStoredBranch(dataset: DatasetInStore, name: BranchName, confirm: Confirm): Promise<void> {
  const left = await manifestsOf(dataset, name);
  if (left.length === 0) return;
  if ((await dataset.store.get(branchRecord(dataset.datasetPrefix, name))) !== undefined) return;
  await new ConfirmedRemovals(confirm).forEach(left, (keys) => dataset.store.delete(keys));
}

async function manifestsOf({ store, datasetPrefix }: DatasetInStore, branch: BranchName): Promise<readonly string[]> {
  const prefix = join(branchFolder(datasetPrefix, branch), '_versions/');
  const listed = await Array.fromAsync(store.list({ prefix }));
  return listed.flatMap(({ key }) => (versionOfManifestKey(prefix, key) === undefined ? [] : key));
}

const versionOf = (key: string): number => versionOfManifestName(basename(key)) ?? 0;

async function storedManifest(
  { store, datasetPrefix }: DatasetInStore,
  branch: BranchName | undefined,
  version: number,
): Promise<Buffer | undefined> {
  for (const file of manifestNames(version)) {
    const bytes = await store.get(join(branchFolder(datasetPrefix, branch), '_versions', file));
    if (bytes !== undefined) return bytes;
  }
  return undefined;
}
