/** Makes a branch: the engine does, and what it says of the indexes of the new branch is put right. */
import { renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { BranchName } from '../../../kernel/ids.ts';
import { branchManifest } from '../../../lance-format/manifest/branch-manifest.ts';
import { branchFolder, manifestNames, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { NativeTable } from '../native/native.ts';
import type { BranchMirror } from '../store/branch-mirror.ts';

interface NewBranch {
  readonly name: BranchName;
  readonly parent: BranchName | undefined;
  /** At which it begins. */
  readonly version: number;
}

export async function createBranch(
  dataset: NativeTable,
  name: BranchName,
  from: { branch: BranchName | undefined; version: number | undefined },
): Promise<NewBranch> {
  const branches = await dataset.branches();
  const made = await branches.create(name, from.branch ?? null, from.version ?? null);
  try {
    return { name, parent: from.branch, version: await made.version() };
  } finally {
    made.close();
  }
}

/** On a file system. */
export function placeIndexes(datasetPath: string, { name, parent, version }: NewBranch): void {
  const read = (branch: BranchName | undefined) =>
    readManifest(join(branchFolder(datasetPath, branch), '_versions'), version);
  const [made, ofParent] = [read(name), read(parent)];
  const placed = made && ofParent && branchManifest(made.bytes, ofParent.bytes);
  if (placed === undefined) return;
  const draft = join(dirname(made!.path), `.tmp-${basename(made!.path)}`);
  writeFileSync(draft, placed);
  renameSync(draft, made!.path);
}

type DatasetInStore = Pick<BranchMirror, 'store' | 'datasetPrefix'>;

/** On an object store, and not in mirrors: they may be of earlier branches of these names, which another replica has deleted. */
export async function placeStoredIndexes(dataset: DatasetInStore, { name, parent, version }: NewBranch): Promise<void> {
  const [made, ofParent] = await Promise.all([name, parent].map((branch) => storedManifest(dataset, branch, version)));
  const placed = made && ofParent && branchManifest(made.bytes, ofParent.bytes);
  if (placed !== undefined) await dataset.store.put(made!.key, placed);
}

async function storedManifest(
  { store, datasetPrefix }: DatasetInStore,
  branch: BranchName | undefined,
  version: number,
): Promise<{ readonly key: string; readonly bytes: Buffer } | undefined> {
  for (const file of manifestNames(version)) {
    const key = join(branchFolder(datasetPrefix, branch), '_versions', file);
    const bytes = await store.get(key);
    if (bytes !== undefined) return { key, bytes };
  }
  return undefined;
}
