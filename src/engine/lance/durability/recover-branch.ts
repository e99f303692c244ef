/**
 * Brings a branch back to what was acknowledged, after a process that wrote to it ended without closing it. It runs before
 * anything else opens the branch, and works on files, since the engine cannot open a branch whose newest manifest is torn.
 *
 * Everything up to the acknowledged version was synced, so it is there; if it is not, the disk has lost it, and nothing is
 * touched. Each later version is checked by itself, oldest first. An intact one stays, also without an acknowledgement: it may be
 * the work of another program. Of any other the manifest is removed, newest first, so that a crash of the recovery leaves a
 * shorter list of the same kind.
 *
 * Orphan files are removed only after the machine itself went down, and only those that are older than its start: their
 * writers are gone. Otherwise another program may be about to commit them, and would then have a version that cannot be read;
 * pruning removes them later, when they have grown old.
 */

import { existsSync, readFileSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { codeOf } from '../../../kernel/errors.ts';
import type { BranchName } from '../../../kernel/ids.ts';
import { faultOfFile, type Scrutiny } from '../../../lance-format/check/intact.ts';
import {
  branchFolder,
  branchRecord,
  branchRecords,
  isBranchName,
  listVersions,
  namesIn,
  readManifest,
  stagingFolder,
  storedFiles,
} from '../../../lance-format/manifest/manifest-files.ts';
import { type Manifest, parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { ifNotReplaceable } from '../../../lance-format/manifest/replaceable.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import type { Recovery } from '../../port/engine.ts';
import type { BranchMirror } from '../store/branch-mirror.ts';
import { Durability, type FileSync, ignoreMissing } from './durability.ts';
import { type OrphanSearch, removeOrphanFiles } from './orphan-files.ts';
import { completeStoredBranch } from './stored-branch.ts';

interface SuspectBranch extends Scrutiny, OrphanSearch {
  readonly rootPath: string;
}

interface CheckedVersion {
  readonly version: number;
  /** undefined: intact. */
  readonly fault: string | undefined;
}

export async function recoverBranch(suspect: SuspectBranch, sync: FileSync): Promise<Recovery> {
  const { acknowledgedVersion } = suspect;
  if (acknowledgedVersion === 0) return recoverNewBranch(suspect, sync);
  const folder = branchFolder(suspect.datasetPath, suspect.branch);
  const versionsFolder = join(folder, '_versions');
  const versions = listVersions(versionsFolder);
  const damage = faultOfAcknowledged(suspect, versions);
  if (damage !== undefined) return { ...nothingRecovered(acknowledgedVersion), damage };
  const checked = checkNewer(suspect, versions);
  const kept = checked.filter(({ fault }) => fault === undefined).map(({ version }) => version);
  const removed = checked.flatMap(({ version, fault }) => (fault === undefined ? [] : { version, reason: fault }));
  for (const { version } of removed.toReversed()) await removeVersion(versionsFolder, version, sync);
  const version = kept.at(-1) ?? acknowledgedVersion;
  removeBrokenHint(versionsFolder);
  rmSync(stagingFolder(folder), { recursive: true, force: true });
  const removedFiles = suspect.outlivedPowerCut ? await removeOrphanFiles(suspect) : 0;
  await new Durability(sync, suspect, acknowledgedVersion).sync(version);
  return { version, kept, removed, removedFiles, damage: undefined };
}

/** No answer has named the branch: it stays if it is intact, both its versions and the record that it exists, else it goes. */
async function recoverNewBranch(suspect: SuspectBranch, sync: FileSync): Promise<Recovery> {
  const { datasetPath, branch = '' } = suspect;
  if (!isBranchName(branch)) return nothingRecovered(0);
  const versions = listVersions(join(branchFolder(datasetPath, branch), '_versions'));
  const isIntact = versions.length > 0 && checkNewer(suspect, versions).every(({ fault }) => fault === undefined);
  if (isIntact && isReadableRecord(branchRecord(datasetPath, branch))) {
    const version = versions.at(-1) ?? 0;
    await new Durability(sync, { ...suspect, branch: undefined }, 0).branchMade(branch, version);
    return { ...nothingRecovered(version), kept: versions };
  }
  await removeBranch(datasetPath, branch, sync);
  return { ...nothingRecovered(0), removed: [{ version: 0, reason: 'the branch was not made completely' }] };
}

/**
 * On an object store, where a commit of the process before may still be on its way: it takes the number that it would take. A branch
 * that was being made is completed, and nothing is removed.
 */
export async function recoverMirrored(
  mirror: BranchMirror,
  branch: BranchName | undefined,
  acknowledgedVersion: number,
): Promise<Recovery> {
  if (acknowledgedVersion === 0) {
    const made = branch === undefined ? [] : await completeStoredBranch(mirror, branch);
    return { ...nothingRecovered(made.at(-1) ?? 0), kept: made };
  }
  await mirror.open();
  const last = await mirror.refresh();
  if (last < acknowledgedVersion) {
    return { ...nothingRecovered(last), damage: `the manifest of version ${acknowledgedVersion} is missing` };
  }
  await mirror.fence(last).catch((error: unknown) => ifNotReplaceable(error, undefined));
  const version = await mirror.refresh();
  const kept = Array.from({ length: Math.max(0, last - acknowledgedVersion) }, (_, at) => acknowledgedVersion + 1 + at);
  return { ...nothingRecovered(version), kept };
}

const nothingRecovered = (version: number): Recovery => ({
  version,
  kept: [],
  removed: [],
  removedFiles: 0,
  damage: undefined,
});

/** Also a fault: the acknowledged version is gone, and no newer one is intact. */
function faultOfAcknowledged(suspect: SuspectBranch, versions: readonly number[]): string | undefined {
  const { acknowledgedVersion } = suspect;
  if (versions.includes(acknowledgedVersion)) {
    return faultOf(suspect, acknowledgedVersion, new Set(), false);
  }
  if (checkNewer(suspect, versions).some(({ fault }) => fault === undefined)) return undefined;
  return `the manifest of version ${acknowledgedVersion} is missing`;
}

/** They come oldest first. A later version is not intact while it needs a file that an earlier one left torn. */
function checkNewer(suspect: SuspectBranch, versions: readonly number[]): readonly CheckedVersion[] {
  const { acknowledgedVersion, outlivedPowerCut } = suspect;
  const known = new Set<string>();
  const base = versions.findLast((version) => version <= acknowledgedVersion);
  if (base !== undefined) faultOf(suspect, base, known, false);
  return versions
    .filter((version) => version > acknowledgedVersion)
    .map((version) => ({ version, fault: faultOf(suspect, version, known, outlivedPowerCut) }));
}

/** undefined for an intact version, whose files are added to `known`. Files that are there already are not checked. */
function faultOf(
  suspect: SuspectBranch,
  version: number,
  known: Set<string>,
  outlivedPowerCut: boolean,
): string | undefined {
  const folder = branchFolder(suspect.datasetPath, suspect.branch);
  try {
    const manifest = intactManifest(join(folder, '_versions'), version);
    const files = storedFiles(manifest, folder).filter(({ path }) => !known.has(path));
    for (const file of files) {
      if (file.kind === 'transaction' && version === suspect.acknowledgedVersion) continue;
      // Files of the branch this one was made from were durable before.
      const isOwn = file.path.startsWith(folder + sep);
      const fault = faultOfFile(file, manifest, { outlivedPowerCut: outlivedPowerCut && isOwn });
      if (fault !== undefined) return `${file.path.slice(folder.length + 1)} ${fault}`;
    }
    for (const { path } of files) known.add(path);
    return undefined;
  } catch (error) {
    if (!(error instanceof MalformedFile)) throw error;
    return `its manifest: ${error.message}`;
  }
}

function intactManifest(versionsFolder: string, version: number): Manifest {
  const found = readManifest(versionsFolder, version);
  if (found === undefined) throw new MalformedFile('missing');
  const manifest = parseManifest(found.bytes);
  if (manifest.version !== version) throw new MalformedFile(`says it is of version ${manifest.version}`);
  return manifest;
}

async function removeVersion(versionsFolder: string, version: number, sync: FileSync): Promise<void> {
  const found = readManifest(versionsFolder, version);
  if (found === undefined) return;
  rmSync(found.path);
  await sync.folder(versionsFolder);
}

/** The engine finds the newest version without the hint, and writes a new one with the next commit. */
function removeBrokenHint(versionsFolder: string): void {
  const path = join(versionsFolder, 'latest_version_hint.json');
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return;
  if (!listVersions(versionsFolder).includes(hintedVersion(path) ?? -1)) rmSync(path);
}

function hintedVersion(path: string): number | undefined {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as { version?: number }).version;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** What a branch has of its own; next to it may lie the folders of other branches. */
const ownFolders = ['_versions', '_transactions', '_deletions', '_indices', 'data'];

/** False for a record that is missing or torn, or could not be made because its name is too long. */
function isReadableRecord(path: string): boolean {
  try {
    JSON.parse(readFileSync(path, 'utf8'));
    return true;
  } catch (error) {
    if (error instanceof SyntaxError || isAny(error, 'ENOENT', 'ENAMETOOLONG')) return false;
    throw error;
  }
}

/** Removes a branch that the engine cannot remove, because it is not intact. The record goes first: it names the branch. */
async function removeBranch(datasetPath: string, branch: string, sync: FileSync): Promise<void> {
  const record = branchRecord(datasetPath, branch);
  if (existsSync(record)) rmSync(record); // false for a name that is too long, too
  removeUnfinishedRecords(datasetPath, branch);
  await sync.folder(branchRecords(datasetPath)).catch(ignoreMissing);
  const folder = branchFolder(datasetPath, branch);
  for (const name of ownFolders) rmSync(join(folder, name), { recursive: true, force: true });
  removeEmpty(folder, datasetPath);
}

/** The engine writes a record under a name that begins with its own, escaped once more, and renames it. */
function removeUnfinishedRecords(datasetPath: string, branch: string): void {
  const begins = `${encodeURIComponent(encodeURIComponent(branch))}.json.tmp.`;
  const folder = branchRecords(datasetPath);
  for (const name of namesIn(folder)) if (name.startsWith(begins)) rmSync(join(folder, name));
}

function removeEmpty(folder: string, datasetPath: string): void {
  if (!existsSync(folder)) return; // a storage that is read-only would refuse to remove it, too
  try {
    for (let empty = folder; empty !== datasetPath; empty = dirname(empty)) rmdirSync(empty);
  } catch (error) {
    if (!isAny(error, 'ENOTEMPTY', 'EEXIST', 'ENOENT')) throw error;
  }
}

const isAny = (error: unknown, ...codes: readonly string[]): boolean => codes.includes(codeOf(error) ?? '');
