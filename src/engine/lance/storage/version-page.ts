import { basename, posix } from 'node:path';
import { branchFolder, manifestNames, versionOfManifestKey } from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import type { StoredVersion, VersionPage } from '../../port/dataset.ts';
import type { ObjectStore, StoredObject } from '../store/object-store.ts';

interface PagedBranch {
  readonly store: ObjectStore;
  /** All keys of the branch begin with it; it ends with a slash. */
  readonly prefix: string;
  readonly branch: string | undefined;
  /** The bytes of a manifest; undefined where it is gone. */
  readonly read: (version: number, key: string) => Promise<Buffer | undefined>;
}

const readAtOnce = 16;
/** A listing may have so many files of programs that are about to commit. */
const filesBeside = 16;

/**
 * By a listing of the manifests, and a look into those of the page alone. The newest versions are the first in a listing, so a page of
 * them lists no more. A version that is pruned meanwhile is left out.
 */
export async function versionPage(branch: PagedBranch, page: VersionPage): Promise<readonly StoredVersion[]> {
  const manifests = (await manifestsOfPage(branch, page)) ?? (await manifestsOf(branch));
  const versions = cut(
    [...manifests.keys()].sort((a, b) => a - b),
    page,
  );
  const found: StoredVersion[] = [];
  for (let start = 0; start < versions.length; start += readAtOnce) {
    const part = versions.slice(start, start + readAtOnce);
    found.push(...(await Promise.all(part.map((version) => rowOf(branch, version, manifests.get(version))))).flat());
  }
  return found;
}

async function rowOf(
  { branch, read }: PagedBranch,
  version: number,
  object: StoredObject | undefined,
): Promise<readonly StoredVersion[]> {
  if (object === undefined) return [];
  const { key, bytes, tag } = object;
  const manifest = await read(version, key);
  if (manifest === undefined) return [];
  const { committedAtMs } = parseManifest(manifest);
  const manifestPath = posix.join(branchFolder('', branch), '_versions', basename(key));
  return [{ version, committedAtMs, manifestPath, manifestBytes: bytes, manifestTag: tag }];
}

/** Lists enough of them for the page; undefined where that cannot be known without all. */
async function manifestsOfPage(branch: PagedBranch, { after, limit, order }: VersionPage) {
  if (after !== undefined && limit === 1 && order === 'ascending') {
    const next = await manifestsOf(branch, 1, manifestNames(after + 1)[0]);
    return next.size > 0 ? next : undefined;
  }
  if (after !== undefined || order !== 'descending') return undefined;
  const most = limit + filesBeside;
  const manifests = await manifestsOf(branch, most);
  const areNewestFirst = manifests.entries().every(([version, { key }]) => basename(key) === manifestNames(version)[0]);
  return areNewestFirst && manifests.size >= limit ? manifests : undefined;
}

async function manifestsOf(
  { store, prefix }: PagedBranch,
  most?: number,
  name = '',
): Promise<ReadonlyMap<number, StoredObject>> {
  const folder = `${prefix}_versions/`;
  const objects = await Array.fromAsync(
    store.list({ prefix: `${folder}${name}`, ...(most !== undefined && { most }) }),
  );
  return new Map(
    objects.flatMap((each) => {
      const version = versionOfManifestKey(folder, each.key);
      return version === undefined ? [] : [[version, each] as const];
    }),
  );
}

function cut(ascending: readonly number[], { after, limit, order }: VersionPage): readonly number[] {
  const isLater = (version: number): boolean =>
    after === undefined || (order === 'ascending' ? version > after : version < after);
  return (order === 'ascending' ? ascending : ascending.toReversed()).filter(isLater).slice(0, limit);
}
