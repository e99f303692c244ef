/**
 * A clone of one version: a dataset of its own whose files are hard links to those of the source. Lance never changes a file, so both
 * share the space, and whatever is pruned or dropped of the one leaves the other whole. The engine's shallow clone names the files
 * of the source where they are, and loses its rows with them; it has no other kind.
 */
import { constants } from 'node:fs';
import { copyFile, link, mkdir, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import { LancegateError } from '../../../kernel/errors.ts';
import {
  branchFolder,
  indexFolders,
  namesIn,
  readWholeVersion,
  storedFiles,
} from '../../../lance-format/manifest/manifest-files.ts';
import { ifNotReplaceable } from '../../../lance-format/manifest/next-manifest.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { requireBoundedColumns } from '../../../lance-format/manifest/stored-columns.ts';
import { cloneManifest } from '../../../lance-format/shadow/clone-manifest.ts';
import { Durability, type FileSync } from '../durability/durability.ts';
import type { Fresh } from './version-commit.ts';

interface CloneRequest {
  readonly rootPath: string;
  /** Of the source's dataset, and of the one that comes to be. */
  readonly from: string;
  readonly to: string;
  readonly branch: string | undefined;
  readonly version: number;
}

/** Durable when it resolves. What fails leaves files at `to`. `TableVersionNotFound`, `Unsupported`. */
export async function cloneVersion(request: CloneRequest, sync: FileSync, fresh: Fresh): Promise<void> {
  const { rootPath, from, to, branch, version } = request;
  const folder = branchFolder(from, branch);
  const source = readWholeVersion(folder, version);
  if (source === undefined) throw new LancegateError('TableVersionNotFound', `the table has no version ${version}`);
  const manifest = clonedManifest(source.bytes, fresh);
  for (const { path, within } of filesOf(source.bytes, folder)) {
    if (!path.startsWith(rootPath + sep)) throw notCloneable('it has files outside the storage root');
    await linkOrCopy(path, join(to, within));
  }
  const draft = join(to, '_versions', `.tmp_${fresh.uuid()}`);
  await mkdir(dirname(draft), { recursive: true });
  await writeFile(draft, manifest);
  await link(draft, join(to, '_versions', basename(source.path)));
  await rm(draft);
  await new Durability(sync, { rootPath, datasetPath: to, branch: undefined }, version).sync(version);
}

/** `Unsupported`; throws `UnboundedColumns`. */
export function clonedManifest(bytes: Buffer, fresh: Fresh): Buffer {
  requireBoundedColumns(bytes);
  try {
    return cloneManifest(bytes, fresh.nowMs());
  } catch (error) {
    throw ifNotReplaceable(error, notCloneable('it has features that this service cannot carry over', error));
  }
}

export const notCloneable = (why: string, cause?: unknown): LancegateError =>
  new LancegateError('Unsupported', `this service does not clone the table: ${why}`, { cause });

interface ClonedFile {
  readonly path: string;
  /** In the folder of the dataset. */
  readonly within: string;
}

/** But for the transaction: the clone's version was made by none. */
function filesOf(bytes: Buffer, folder: string): readonly ClonedFile[] {
  const manifest = parseManifest(bytes);
  const named = manifest.files.filter(({ kind }) => kind !== 'transaction');
  const stored = storedFiles({ ...manifest, files: named }, folder);
  if (stored.length < named.length) throw notCloneable('it has files on another storage');
  const unlisted = indexFolders(manifest, folder).flatMap((each) =>
    namesIn(each).map((name) => ({ path: join(each, name), within: join('_indices', basename(each), name) })),
  );
  return [...stored.map(({ path }, index) => ({ path, within: withinDataset(named[index]!) })), ...unlisted];
}

function withinDataset({ kind, path }: ReturnType<typeof parseManifest>['files'][number]): string {
  switch (kind) {
    case 'data':
      return join('data', path);
    case 'deletions':
      return join('_deletions', path);
    case 'index':
      return join('_indices', path);
    case 'rowIds':
    case 'transaction':
      throw notCloneable('it has files of identifiers of rows');
  }
}

/** Where a file has as many links as it can have, or the file system has none. */
const needsCopy: ReadonlySet<string> = new Set(['EMLINK', 'EXDEV', 'EPERM', 'ENOTSUP']);

async function linkOrCopy(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  try {
    await link(from, to);
  } catch (error) {
    if (!needsCopy.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    await copyFile(from, to, constants.COPYFILE_EXCL);
  }
}
