/** Pages of the versions of a branch, wherever it is stored. */
import { readFile } from 'node:fs/promises';
import { basename, join, posix } from 'node:path';
import {
  branchFolder,
  listVersions,
  manifestNames,
  readManifest,
  versionOfManifestKey,
} from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import type { StoredVersion, VersionPage } from '../../port/dataset.ts';
import type { VersionsFolder } from '../head/dataset-head.ts';
import type { NativeTable } from '../native/native.ts';
import type { BranchMirror } from '../store/branch-mirror.ts';
import type { StoredObject } from '../store/object-store.ts';
import { versionsOf } from './engine-upkeep.ts';

/** Reads only the manifests of the page, so its cost is bounded. A version that is pruned meanwhile is left out. */
export async function storedPage(folder: VersionsFolder, page: VersionPage): Promise<readonly StoredVersion[]> {
  const { path, branch } = folder;
  const found: StoredVersion[] = [];
  for (const version of cut(listVersions(path), page)) {
    for (const name of manifestNames(version)) {
      const bytes = await readFile(join(path, name)).catch(noneIfMissing);
      if (bytes === undefined) continue;
      const { committedAtMs } = parseManifest(bytes);
      found.push({ version, committedAtMs, manifestPath: pathOf(branch, name), manifestBytes: bytes.length });
    }
  }
  return found;
}

/**
 * Of a branch on an object store: a listing of its manifests, and a look into those of the page that the mirror does not have. The
 * newest versions are the first in a listing, so a page of them lists no more.
 */
export async function mirroredPage(
  mirror: BranchMirror,
  branch: string | undefined,
  page: VersionPage,
): Promise<readonly StoredVersion[]> {
  const manifests = (await manifestsOfPage(mirror, page)) ?? (await manifestsIn(mirror));
  const found: StoredVersion[] = [];
  const versions = cut(
    manifests
      .keys()
      .toArray()
      .sort((a, b) => a - b),
    page,
  );
  for (let start = 0; start < versions.length; start += readAtOnce) {
    const part = versions.slice(start, start + readAtOnce).map(async (version) => {
      const { key, bytes: manifestBytes, tag: manifestTag } = manifests.get(version)!;
      const bytes = readManifest(mirror.versionsFolder, version)?.bytes ?? (await mirror.store.get(key));
      if (bytes === undefined) return [];
      const manifestPath = pathOf(branch, basename(key));
      return [{ version, committedAtMs: parseManifest(bytes).committedAtMs, manifestPath, manifestBytes, manifestTag }];
    });
    found.push(...(await Promise.all(part)).flat());
  }
  return found;
}

const readAtOnce = 16;
/** Of programs that are about to commit. */
const filesBeside = 16;

/** Enough of them for the page; undefined where that cannot be known without all. */
async function manifestsOfPage(mirror: BranchMirror, { after, limit, order }: VersionPage) {
  if (after !== undefined && limit === 1 && order === 'ascending') {
    const next = await manifestsIn(mirror, 1, manifestNames(after + 1)[0]);
    return next.size > 0 ? next : undefined;
  }
  if (after !== undefined || order !== 'descending') return undefined;
  const most = limit + filesBeside;
  const manifests = await manifestsIn(mirror, most);
  const areNewestFirst = manifests.entries().every(([version, { key }]) => basename(key) === manifestNames(version)[0]);
  return areNewestFirst && manifests.size >= limit ? manifests : undefined;
}

async function manifestsIn(mirror: BranchMirror, most?: number, name = ''): Promise<ReadonlyMap<number, StoredObject>> {
  const folder = `${mirror.prefix}_versions/`;
  const objects = await Array.fromAsync(
    mirror.store.list({ prefix: `${folder}${name}`, ...(most !== undefined && { most }) }),
  );
  return new Map(
    objects.flatMap((each) => {
      const version = versionOfManifestKey(folder, each.key);
      return version === undefined ? [] : [[version, each] as const];
    }),
  );
}

/** On object stores that this service has no adapter for, only the engine can list. */
export async function enginePage(
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
