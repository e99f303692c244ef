/** Where the files are that a manifest names. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FileKind, FileReference, Manifest } from '../manifest/parse-manifest.ts';
import { MalformedFile } from '../wire-reader.ts';

/** A file by its absolute path. */
export interface StoredFile {
  readonly kind: FileKind;
  readonly path: string;
  readonly sizeBytes: number | undefined;
}

/** Where the files are; those on other storage are left out. `branchFolder` is the dataset's, or of a branch in it. */
export function storedFiles(manifest: Manifest, branchFolder: string): readonly StoredFile[] {
  return manifest.files.flatMap((file) => locate(manifest, branchFolder, file));
}

export function indexFolders(manifest: Manifest, branchFolder: string): readonly string[] {
  return manifest.indexFolders.flatMap((folder) => locate(manifest, branchFolder, folder)).map(({ path }) => path);
}

/** undefined on other storage. */
export function deletionsPath(manifest: Manifest, branchFolder: string, deletions: FileReference): string | undefined {
  return locate(manifest, branchFolder, deletions)[0]?.path;
}

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

function localPath(base: string): string | undefined {
  if (base.startsWith('/')) return base;
  return base.startsWith('file:///') ? fileURLToPath(base) : undefined;
}
