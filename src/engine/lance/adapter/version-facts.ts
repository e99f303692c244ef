import { readFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import type { BranchName } from '../../../kernel/ids.ts';
import { branchFolder, listVersions, manifestNames } from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import type { StoredBranch, StoredVersion, TableStatistics, VersionPage } from '../../port/engine.ts';
import type { NativeBranches, NativeTable } from '../native/native.ts';
import { versionsOf } from './engine-upkeep.ts';

/**
 * One page of the versions of a branch. On a file system only the manifests of that page are read, so its cost is bounded.
 * `datasetPath` is undefined on object stores.
 */
export const versionPageOf = (
  table: NativeTable,
  datasetPath: string | undefined,
  branch: string | undefined,
  page: VersionPage,
): Promise<readonly StoredVersion[]> =>
  datasetPath === undefined ? enginePage(table, branch, page) : storedPage(datasetPath, branch, page);

/** A version that is pruned meanwhile is left out. */
async function storedPage(
  datasetPath: string,
  branch: string | undefined,
  page: VersionPage,
): Promise<readonly StoredVersion[]> {
  const folder = join(branchFolder(datasetPath, branch), '_versions');
  const found: StoredVersion[] = [];
  for (const version of cut(listVersions(folder), page)) {
    for (const name of manifestNames(version)) {
      const bytes = await readFile(join(folder, name)).catch(noneIfMissing);
      if (bytes === undefined) continue;
      const { committedAtMs } = parseManifest(bytes);
      found.push({ version, committedAtMs, manifestPath: pathOf(branch, name), manifestBytes: bytes.length });
    }
  }
  return found;
}

/** On object stores only the engine can list: it reads every manifest, 0.1 ms each. */
async function enginePage(
  table: NativeTable,
  branch: string | undefined,
  page: VersionPage,
): Promise<readonly StoredVersion[]> {
  const committedAtMs = new Map((await versionsOf(table)).map((facts) => [facts.version, facts.committedAtMs]));
  return cut([...committedAtMs.keys()], page).map((version) => ({
    version,
    committedAtMs: committedAtMs.get(version) ?? 0,
    manifestPath: pathOf(branch, manifestNames(version)[0]),
    manifestBytes: undefined,
  }));
}

function cut(ascending: readonly number[], { after, limit, order }: VersionPage): readonly number[] {
  const isLater = (version: number): boolean =>
    after === undefined || (order === 'ascending' ? version > after : version < after);
  return (order === 'ascending' ? ascending : ascending.toReversed()).filter(isLater).slice(0, limit);
}

const pathOf = (branch: string | undefined, name: string): string =>
  posix.join(branchFolder('', branch), '_versions', name);

function noneIfMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

export async function statisticsOf(table: NativeTable): Promise<TableStatistics> {
  const { totalBytes, numRows, numIndices, fragmentStats } = await table.stats();
  const { numFragments, numSmallFragments, lengths } = fragmentStats;
  return {
    bytes: totalBytes,
    rows: numRows,
    indexes: numIndices,
    fragments: numFragments,
    smallFragments: numSmallFragments,
    fragmentRows: lengths,
  };
}

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
