/** Knows the paths of the files of a dataset and its branches: of manifests, and what they name. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MalformedFile } from '../protobuf.ts';
import { type FileKind, type FileReference, type Manifest, parseManifest } from './parse-manifest.ts';

/** A branch is a dataset of its own inside the dataset's folder; names with `/` lie deeper. */
export const branchFolder = (datasetPath: string, branch: string | undefined): string =>
  branch === undefined ? datasetPath : join(datasetPath, 'tree', branch);

/** The engine accepts no other name; made into a path, it could be that of another branch. */
export const isBranchName = (name: string): boolean =>
  name.split('/').every((segment) => /^[\p{Alphabetic}\p{N}._-]+$/u.test(segment) && !/^\.+$/.test(segment));

/** A dataset keeps one file per branch there. */
export const branchRecords = (datasetPath: string): string => join(datasetPath, '_refs', 'branches');

/** The file says that a branch exists, and from where. */
export const branchRecord = (datasetPath: string, branch: string): string =>
  join(branchRecords(datasetPath), `${encodeURIComponent(branch)}.json`);

/**
 * This service has files there that are not part of a dataset or branch with this folder. Branches have their folders below
 * the same; none can have a name with this sign in it.
 */
export const stagingFolder = (folder: string): string => join(folder, 'lancegate=staging');

const largestVersion = 2n ** 64n - 1n;
const digits = /^(\d{1,20})\.manifest$/;

/**
 * A version's manifest can have two names: what is left up to the largest version (so that a listing begins with the
 * newest), or, in datasets begun by early releases of Lance, the version itself.
 */
export const manifestNames = (version: number): readonly [string, string] => [
  `${largestVersion - BigInt(version)}.manifest`,
  `${version}.manifest`,
];

/** Names the manifest of `version`, by the scheme of the one before it, which is at this path. */
export const nextManifestName = (path: string, version: number): string =>
  manifestNames(version)[manifestNames(version - 1).indexOf(basename(path)) === 1 ? 1 : 0];

/** Answers undefined for a name that is not a manifest's. */
export function versionOfManifestName(name: string): number | undefined {
  const text = digits.exec(name)?.[1];
  if (text === undefined) return undefined;
  const number = BigInt(text);
  if (number > largestVersion) return undefined;
  // No dataset has half of all versions, so which scheme a name follows shows in its size.
  return Number(number > largestVersion / 2n ? largestVersion - number : number);
}

/** Answers as `versionOfManifestName`, of a key right below the prefix: a branch of another program may lie deeper there. */
export const versionOfManifestKey = (prefix: string, key: string): number | undefined =>
  key.startsWith(prefix) ? versionOfManifestName(key.slice(prefix.length)) : undefined;

/** Reads at once: a manifest was just written or is about to be used, so it is in memory. Answers undefined where there is none. */
export function readManifest(
  versionsFolder: string,
  version: number,
): { readonly path: string; readonly bytes: Buffer } | undefined {
  for (const name of manifestNames(version)) {
    const path = join(versionsFolder, name);
    try {
      return { path, bytes: readFileSync(path) };
    } catch (error) {
      if (!isNoFile(error)) throw error;
    }
  }
  return undefined;
}

/** The versions ascend; a folder that is missing has none. */
export function listVersions(versionsFolder: string): readonly number[] {
  return namesIn(versionsFolder)
    .map(versionOfManifestName)
    .filter((version) => version !== undefined)
    .sort((a, b) => a - b);
}

/** Lists what a folder holds: nothing where it is missing. */
export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (isNoFile(error)) return [];
    throw error;
  }
}

const isNoFile = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT';

/** Its path is absolute. */
export interface StoredFile {
  readonly kind: FileKind;
  readonly path: string;
  readonly sizeBytes: number | undefined;
}

/** Those on other storage are left out. `branchFolder` is the dataset's, or of a branch in it. */
export const storedFiles = (manifest: Manifest, branchFolder: string): readonly StoredFile[] =>
  manifest.files.flatMap((file) => locate(manifest, branchFolder, file));

export const indexFolders = (manifest: Manifest, branchFolder: string): readonly string[] =>
  manifest.indexFolders.flatMap((folder) => locate(manifest, branchFolder, folder)).map(({ path }) => path);

/** Reads the manifest of a version whose files are all there: a removal that a crash cut off leaves one without its files. */
export function readWholeVersion(branchFolder: string, version: number): ReturnType<typeof readManifest> {
  const found = readManifest(join(branchFolder, '_versions'), version);
  if (found === undefined) return undefined;
  const manifest = parseManifest(found.bytes);
  const stored = storedFiles(manifest, branchFolder).filter(({ kind }) => kind !== 'transaction');
  const paths = [...stored.map(({ path }) => path), ...indexFolders(manifest, branchFolder)];
  return paths.every((path) => existsSync(path)) ? found : undefined;
}

/** Gives the path of a deletion vector; undefined where that lies on other storage. */
export const deletionsPath = (manifest: Manifest, branchFolder: string, deletions: FileReference): string | undefined =>
  locate(manifest, branchFolder, deletions)[0]?.path;

function locate({ bases }: Manifest, branchFolder: string, file: FileReference): StoredFile[] {
  const { kind, path, baseId, sizeBytes } = file;
  if (baseId === undefined) return [{ kind, path: join(branchFolder, folderOf[kind], path), sizeBytes }];
  const base = bases.get(baseId);
  if (base === undefined) throw new MalformedFile(`no base path ${baseId}`);
  const root = localPath(base.path);
  if (root === undefined) return [];
  return [{ kind, path: join(root, base.isDatasetRoot ? folderOf[kind] : '', path), sizeBytes }];
}

const folderOf: Readonly<Record<FileKind, string>> = {
  data: 'data',
  deletions: '_deletions',
  transaction: '_transactions',
  index: '_indices',
  rowIds: '',
};

/** Answers the path that a base path names; undefined on other storage. */
export function localPath(base: string): string | undefined {
  if (base.startsWith('/')) return base;
  return base.startsWith('file:///') ? fileURLToPath(base) : undefined;
}
