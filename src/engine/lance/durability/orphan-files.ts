/** Finds the files of a dataset that its manifests name, and removes those that none names. */
import { type Dirent, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { codeOf } from '../../../kernel/errors.ts';
import { branchFolder, namesIn, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import {
  areKnownToEngine,
  type FileKind,
  type Manifest,
  parseManifest,
  showFlags,
} from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';

export interface OrphanSearch {
  readonly datasetPath: string;
  readonly branch: string | undefined;
  readonly acknowledgedVersion: number;
  readonly machineStartedAtMs: number;
}

/** Folders of a branch, and the names of what commits write there; files of other names belong to other programs. */
const commitFiles: readonly (readonly [folder: string, name: RegExp, kind?: FileKind])[] = [
  ['data', /\.lance$|^\.tmp/, 'data'],
  ['_deletions', /\.(arrow|bin)$|^\.tmp/, 'deletions'],
  ['_transactions', /\.txn$|^\.tmp/, 'transaction'],
  ['_versions', /\.manifest(#\d+|-[\da-f-]{36})$|^\.tmp/],
  ['_indices', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'index'],
];

/** As the engine does, with some days to spare: no commit takes so long. */
export const orphanAfterMs = 7 * 24 * 3_600_000;

/** Whether a commit may have written something of this name into this folder of a branch. */
export const isOfCommits = (folder: string, name: string): boolean =>
  commitFiles.some(([within, pattern]) => within === folder && pattern.test(name));

/**
 * Removes what commits have left that were cut short: files that no manifest of any branch names, written after the
 * acknowledged version and before the machine started. Returns how many. If a manifest of the dataset cannot be read, it might
 * name any file, so nothing is removed.
 */
export async function removeOrphanFiles(search: OrphanSearch): Promise<number> {
  const candidates = [...candidatesOf(search)];
  if (candidates.length === 0) return 0;
  const named = await namedFiles(search.datasetPath).catch(undefinedIfMalformed);
  const orphans = named === undefined ? [] : candidates.filter(({ key }) => !named.has(key));
  for (const { path } of orphans) rmSync(path, { recursive: true });
  return orphans.length;
}

function* candidatesOf({ datasetPath, branch, ...search }: OrphanSearch) {
  const folder = branchFolder(datasetPath, branch);
  const acknowledged = readManifest(join(folder, '_versions'), search.acknowledgedVersion);
  const sinceMs = acknowledged === undefined ? Number.POSITIVE_INFINITY : statSync(acknowledged.path).mtimeMs;
  for (const { path, key } of filesOfCommits(folder)) {
    const { mtimeMs } = statSync(path);
    if (mtimeMs >= sinceMs && mtimeMs < search.machineStartedAtMs) yield { path, key };
  }
}

/** What commits wrote in the folder of a branch, whether a version names it or not. `key` is undefined for what none names. */
function* filesOfCommits(folder: string) {
  for (const [within, pattern, kind] of commitFiles) {
    for (const name of namesIn(join(folder, within))) {
      const key = kind === undefined ? undefined : keyOf(kind, name);
      if (pattern.test(name)) yield { path: join(folder, within, name), key };
    }
  }
}

function undefinedIfMalformed(error: unknown): undefined {
  if (!(error instanceof MalformedFile)) throw error;
}

/**
 * The keys of the files that the manifests of a dataset name, of any branch or detached.
 * Names are compared, not paths: every data file, deletion vector and index has a unique name, and several paths may lead to one
 * dataset. Throws `MalformedFile` for a manifest that cannot be read, or has unknown feature flags.
 *
 * Reads the manifests one by one and yields to the event loop after each.
 */
async function namedFiles(datasetPath: string): Promise<ReadonlySet<string | undefined>> {
  const named = new Set<string>();
  for (const folder of [datasetPath, ...foldersUnder(join(datasetPath, 'tree'))]) {
    for (const name of namesIn(join(folder, '_versions'))) {
      const path = join(folder, '_versions', name);
      if (!name.endsWith('.manifest')) continue;
      for (const { kind, path: file } of filesOf(knownManifest(path))) named.add(keyOf(kind, file));
      await nextTurn();
    }
  }
  return named;
}

function knownManifest(path: string): Manifest {
  const manifest = parseManifest(readFileSync(path));
  if (areKnownToEngine(manifest.featureFlags)) return manifest;
  throw new MalformedFile(`feature flags ${showFlags(manifest.featureFlags)} are not known`);
}

const filesOf = ({ files, indexFolders }: Manifest) => [...files, ...indexFolders];

/** An index is a folder and is removed as a whole. */
const keyOf = (kind: FileKind, path: string): string => `${kind}/${kind === 'index' ? path.split('/', 1)[0] : path}`;

/** Every folder, since a branch may be called `data`: one without manifests adds nothing. */
function* foldersUnder(folder: string): Generator<string> {
  yield folder;
  for (const entry of entriesOf(folder)) if (entry.isDirectory()) yield* foldersUnder(join(folder, entry.name));
}

function entriesOf(folder: string): readonly Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}
