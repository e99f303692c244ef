/**
 * Whether this engine may read and write the newest version of a branch: checked when a dataset is opened, and when its folder
 * has changed since (`HeadWatch.look`). The engine itself checks too late, or never: with the manifest in memory it counts
 * rows whose files are missing, and commits to a folder that has lost its versions.
 *
 * Throws `TableDamaged`, which names what is missing or torn, with the path in `internal` for the log alone, and
 * `InvalidTableState` for a table of a newer Lance with features that this engine does not know, and `UnboundedColumns`.
 */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { codeOf, LancegateError } from '../../../kernel/errors.ts';
import {
  branchFolder,
  branchRecord,
  listVersions,
  readManifest,
  storedFiles,
} from '../../../lance-format/manifest/manifest-files.ts';
import {
  areKnownToEngine,
  type FileKind,
  type ManifestOutline,
  outlineOf,
  parseManifest,
  showFlags,
} from '../../../lance-format/manifest/parse-manifest.ts';
import { rowIdsFlag } from '../../../lance-format/manifest/row-identity.ts';
import { requireBoundedColumns } from '../../../lance-format/manifest/stored-columns.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';

interface BranchPath {
  readonly datasetPath: string;
  readonly branch: string | undefined;
}

export interface BranchState {
  readonly version: number;
  /** Why this engine must not write to it; undefined where it may. */
  readonly writeRefusal: LancegateError | undefined;
  /** Its rows have ids of their own: the engine takes no row by its address, but finds it by a condition. */
  readonly hasRowIds: boolean;
}

/** `allFiles`: also looks for the files of the rows, one listing for each folder. undefined if nothing is stored at all. */
export async function inspectBranch(at: BranchPath, allFiles: boolean): Promise<BranchState | undefined> {
  const folder = branchFolder(at.datasetPath, at.branch);
  const versionsFolder = join(folder, '_versions');
  const newest = listVersions(versionsFolder).at(-1);
  if (newest === undefined) {
    if (isAnythingLeft(at, folder)) throw damaged('its versions are missing', versionsFolder);
    return undefined;
  }
  const file = readManifest(versionsFolder, newest);
  if (file === undefined) return inspectBranch(at, allFiles); // pruned since the listing, so there is a newer one
  if (file.bytes.length === 0) throw damaged(`the manifest of version ${newest} is empty`, file.path);
  const state = stateIn(newest, file);
  if (allFiles) await requireFiles(newest, file, folder);
  return state;
}

/** The manifest of its newest version alone says it. */
export function stateIn(
  version: number,
  { path, bytes }: { readonly path: string; readonly bytes: Buffer },
): BranchState {
  const outline = unlessTorn(version, path, () => {
    requireBoundedColumns(bytes);
    return outlineOf(bytes);
  });
  requireReadable(outline);
  const hasRowIds = ((outline.readerFlags | outline.writerFlags) & rowIdsFlag) !== 0n;
  return { version, writeRefusal: writeRefusalOf(outline), hasRowIds };
}

/** The dataset was open until now. */
export const nothingLeft = (datasetPath: string): LancegateError => damaged('its folder is missing', datasetPath);

const foldersOfDatasets = ['_versions', '_transactions', 'data'];

/** A folder without any of these is no table. */
const isAnythingLeft = ({ datasetPath, branch }: BranchPath, folder: string): boolean =>
  branch === undefined
    ? foldersOfDatasets.some((name) => existsSync(join(folder, name)))
    : existsSync(branchRecord(datasetPath, branch));

function unlessTorn<Result>(version: number, path: string, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    if (error instanceof MalformedFile) throw damaged(`the manifest of version ${version} is torn`, path, error);
    throw error;
  }
}

function requireReadable({ readerFlags, indexNames }: ManifestOutline): void {
  if (!areKnownToEngine(readerFlags)) {
    throw ofNewerLance(`needs its readers to know feature flag ${showFlags(readerFlags)}`);
  }
  if (indexNames.includes('__lance_mem_wal')) {
    throw refused(
      'the table may have rows in a write-ahead log (index __lance_mem_wal), which this service does not read',
    );
  }
}

const writeRefusalOf = ({ writerFlags }: ManifestOutline): LancegateError | undefined =>
  areKnownToEngine(writerFlags)
    ? undefined
    : ofNewerLance(`needs its writers to know feature flag ${showFlags(writerFlags)}`);

const ofNewerLance = (need: string): LancegateError =>
  refused(`the table was written by a newer version of Lance and ${need}, which this engine does not`);

const refused = (message: string): LancegateError => new LancegateError('InvalidTableState', message);

const whatIsMissing: Readonly<Partial<Record<FileKind, string>>> = {
  data: 'data files are missing',
  deletions: 'deletion vectors are missing',
};

async function requireFiles(version: number, file: { path: string; bytes: Buffer }, folder: string): Promise<void> {
  const needed = unlessTorn(version, file.path, () => storedFiles(parseManifest(file.bytes), folder));
  const listings = new Map<string, ReadonlySet<string>>();
  for (const { kind, path } of needed) {
    const state = whatIsMissing[kind];
    if (state === undefined) continue;
    const parent = dirname(path);
    const names = listings.get(parent) ?? (await namesOf(parent));
    listings.set(parent, names);
    // A concurrent writer may have added the file after the listing.
    if (!names.has(basename(path)) && !existsSync(path) && isStillThere(file.path)) throw damaged(state, path);
  }
}

/** False if the version was pruned during the check: its files go before its manifest. */
const isStillThere = (manifestPath: string): boolean => existsSync(manifestPath);

async function namesOf(folder: string): Promise<ReadonlySet<string>> {
  try {
    return new Set(await readdir(folder));
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return new Set();
    throw error;
  }
}

const damaged = (state: string, path: string, cause?: unknown): LancegateError =>
  new LancegateError('TableDamaged', `the table is damaged on storage: ${state}`, { cause, internal: { path } });
