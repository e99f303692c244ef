import { type Dirent, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import {
  branchFolder,
  indexFolders,
  listVersions,
  readManifest,
  storedFiles,
} from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';

export interface LeftoverSearch {
  readonly datasetPath: string;
  readonly branch: string | undefined;
  readonly acknowledgedVersion: number;
  readonly machineStartedAtMs: number;
}

/** Folders of a branch, and the names of what commits put there; whatever else lies there is not ours to judge. */
const commitFiles: readonly (readonly [folder: string, name: RegExp])[] = [
  ['data', /\.lance$|^\.tmp/],
  ['_deletions', /\.(arrow|bin)$|^\.tmp/],
  ['_transactions', /\.txn$|^\.tmp/],
  ['_versions', /\.manifest#\d+$|^\.tmp/],
  ['_indices', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/],
];

/**
 * Removes what commits have left behind that were cut short: files no manifest of any branch names, written after the
 * acknowledged version and before the machine started. Returns how many went. While a manifest of the dataset cannot be
 * read, nobody knows what it names, so nothing goes.
 */
export function removeLeftovers(search: LeftoverSearch): number {
  const candidates = [...candidatesOf(search)];
  if (candidates.length === 0) return 0;
  const named = namedByAnyVersion(search.datasetPath);
  if (named === undefined) return 0;
  const leftovers = candidates.filter((path) => !named.has(path));
  for (const path of leftovers) rmSync(path, { recursive: true });
  return leftovers.length;
}

function* candidatesOf({ datasetPath, branch, ...search }: LeftoverSearch): Generator<string> {
  const folder = branchFolder(datasetPath, branch);
  const acknowledged = readManifest(join(folder, '_versions'), search.acknowledgedVersion);
  const sinceMs = acknowledged === undefined ? Number.POSITIVE_INFINITY : statSync(acknowledged.path).mtimeMs;
  for (const path of filesOfCommits(folder)) {
    const { mtimeMs } = statSync(path);
    if (mtimeMs >= sinceMs && mtimeMs < search.machineStartedAtMs) yield path;
  }
}

/** What commits put in the folder of a branch, whether a version names it or not. */
export function* filesOfCommits(folder: string): Generator<string> {
  for (const [name, pattern] of commitFiles) {
    for (const entry of entriesOf(join(folder, name)))
      if (pattern.test(entry.name)) yield join(folder, name, entry.name);
  }
}

function namedByAnyVersion(datasetPath: string): ReadonlySet<string> | undefined {
  const named = new Set<string>();
  try {
    for (const folder of [datasetPath, ...foldersUnder(join(datasetPath, 'tree'))]) addNamed(folder, named);
    return named;
  } catch (error) {
    if (error instanceof MalformedFile) return undefined;
    throw error;
  }
}

function addNamed(folder: string, named: Set<string>): void {
  const versionsFolder = join(folder, '_versions');
  for (const version of listVersions(versionsFolder)) {
    const manifest = parseManifest(readManifest(versionsFolder, version)?.bytes ?? Buffer.of());
    for (const { kind, path } of storedFiles(manifest, folder)) named.add(kind === 'index' ? join(path, '..') : path);
    for (const path of indexFolders(manifest, folder)) named.add(path);
  }
}

/** Every folder, since a branch may be called `data`: one without manifests adds nothing. */
export function* foldersUnder(folder: string): Generator<string> {
  yield folder;
  for (const entry of entriesOf(folder)) if (entry.isDirectory()) yield* foldersUnder(join(folder, entry.name));
}

function entriesOf(folder: string): readonly Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
