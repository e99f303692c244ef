/** Makes a branch: the engine does, and what it says of the indexes of the new branch is put right. */
import { renameSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { BranchName } from '../../../kernel/ids.ts';
import { branchManifest } from '../../../lance-format/manifest/branch-manifest.ts';
import { branchFolder, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { NewBranch } from '../durability/stored-branch.ts';
import type { NativeTable } from '../native/native.ts';

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

/** On a file system; `placeStoredIndexes` does it on an object store. */
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
