import type { BranchName } from '../../../kernel/ids.ts';
import type { StoredBranch } from '../../port/engine.ts';
import type { NativeBranches, NativeTable } from '../native/native.ts';

export async function branchesOf(dataset: NativeTable): Promise<readonly StoredBranch[]> {
  const branches = await dataset.branches();
  return Promise.all(
    Object.entries(await branches.list()).map(async ([name, { parentBranch, parentVersion, manifestSize }]) => ({
      name: name as BranchName,
      parentBranch: (parentBranch ?? undefined) as BranchName | undefined,
      parentVersion,
      createdAtSeconds: await createdAtSeconds(branches, name),
      manifestBytes: manifestSize,
    })),
  );
}

/** The engine's listing has no times; a branch begins with a version of its own, which has one (in microseconds). */
async function createdAtSeconds(branches: NativeBranches, name: string): Promise<number> {
  const table = await branches.checkout(name);
  try {
    const versions = await table.listVersions();
    return Math.floor(Math.min(...versions.map(({ timestamp }) => timestamp)) / 1_000_000);
  } finally {
    table.close();
  }
}

/** Returns the version at which the new branch begins. */
export async function createBranch(
  dataset: NativeTable,
  name: BranchName,
  from: { branch: BranchName | undefined; version: number | undefined },
): Promise<number> {
  const branches = await dataset.branches();
  const made = await branches.create(name, from.branch ?? null, from.version ?? null);
  try {
    return await made.version();
  } finally {
    made.close();
  }
}
