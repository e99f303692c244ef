/**
 * Brings a branch back to what was acknowledged, after a process that wrote to it ended without saying so. It runs before
 * anybody else opens the branch, and works on files, since the engine cannot open a branch whose newest manifest is torn.
 *
 * Up to the acknowledged version everything was synced, so it is there; if it is not, the disk has lost it, and nothing is
 * touched. Each later version is looked at by itself, oldest first: one whose files are all as they were written stays,
 * also without an acknowledgement (it may be the work of another program, and is wholly there); any other goes, by its
 * manifest, newest first, so that a crash in here leaves a shorter list of the same kind.
 *
 * Files that no version names are removed only after the machine itself went down, and only those that are older than its
 * start: their writers are gone. Otherwise a program outside this service may be about to commit them, which would leave it
 * with a version that cannot be read; pruning takes them later, when they have grown old.
 */
import { readFileSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
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
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import type { Recovery } from '../../port/engine.ts';
import { Durability, type FileSync } from './durability.ts';
import { removeLeftovers } from './orphan-files.ts';

export interface SuspectBranch extends Scrutiny {
  readonly rootPath: string;
  readonly datasetPath: string;
  readonly branch: string | undefined;
  readonly acknowledgedVersion: number;
  readonly machineStartedAtMs: number;
}

interface Judgement {
  readonly version: number;
  /** undefined: sound. */
  readonly fault: string | undefined;
}

export async function recoverBranch(suspect: SuspectBranch, sync: FileSync): Promise<Recovery> {
  if (suspect.acknowledgedVersion === 0) return recoverNewBranch(suspect, sync);
  const versionsFolder = join(branchFolder(suspect.datasetPath, suspect.branch), '_versions');
  const versions = listVersions(versionsFolder);
  const damage = faultOfAcknowledged(suspect, versions);
  if (damage !== undefined) return damaged(suspect, damage);
  const judged = judgeNewer(suspect, versions);
  const unsound = judged.filter(({ fault }) => fault !== undefined);
  await removeVersions(versionsFolder, unsound, sync);
  const sound = judged.filter(({ fault }) => fault === undefined).map(({ version }) => version);
  const version = sound.at(-1) ?? suspect.acknowledgedVersion;
  removeBrokenHint(versionsFolder);
  rmSync(stagingFolder(branchFolder(suspect.datasetPath, suspect.branch)), { recursive: true, force: true });
  const removedFiles = suspect.outlivedPowerCut ? removeLeftovers(suspect) : 0;
  await new Durability(sync, suspect, suspect.acknowledgedVersion).sync(version);
  return { version, kept: sound, removed: unsound.map(toRemoved), removedFiles, damage: undefined };
}

/** Nobody was told of the branch: it stays if it is whole, both its versions and the record that it exists, else it goes. */
async function recoverNewBranch(suspect: SuspectBranch, sync: FileSync): Promise<Recovery> {
  const { datasetPath, branch = '' } = suspect;
  const nothing = { version: 0, kept: [], removed: [], removedFiles: 0, damage: undefined };
  if (!isBranchName(branch)) return nothing;
  const versions = listVersions(join(branchFolder(datasetPath, branch), '_versions'));
  const judged = judgeNewer(suspect, versions);
  const isWhole = versions.length > 0 && judged.every(({ fault }) => fault === undefined);
  if (isWhole && isReadableRecord(branchRecord(datasetPath, branch))) {
    const version = versions.at(-1) ?? 0;
    await new Durability(sync, { ...suspect, branch: undefined }, 0).branchMade(branch, version);
    return { ...nothing, version, kept: versions };
  }
  await removeBranch(datasetPath, branch, sync);
  return { ...nothing, removed: [{ version: 0, reason: 'the branch was not made completely' }] };
}

const damaged = ({ acknowledgedVersion }: SuspectBranch, damage: string): Recovery => ({
  version: acknowledgedVersion,
  kept: [],
  removed: [],
  removedFiles: 0,
  damage,
});

const toRemoved = ({ version, fault }: Judgement) => ({ version, reason: fault ?? '' });

/** Also a fault: nothing acknowledged is left, and nothing newer would take its place. */
function faultOfAcknowledged(suspect: SuspectBranch, versions: readonly number[]): string | undefined {
  const { acknowledgedVersion } = suspect;
  if (versions.includes(acknowledgedVersion)) {
    const { fault } = judge(suspect, acknowledgedVersion, new Set(), false);
    return fault;
  }
  const newer = judgeNewer(suspect, versions);
  if (newer.some(({ fault }) => fault === undefined)) return undefined;
  return `the manifest of version ${acknowledgedVersion} is missing`;
}

/** Oldest first. A later version is not sound while it needs a file that an earlier one left torn. */
function judgeNewer(suspect: SuspectBranch, versions: readonly number[]): readonly Judgement[] {
  const known = new Set<string>();
  const base = versions.findLast((version) => version <= suspect.acknowledgedVersion);
  if (base !== undefined) judge(suspect, base, known, false);
  return versions
    .filter((version) => version > suspect.acknowledgedVersion)
    .map((version) => judge(suspect, version, known, suspect.outlivedPowerCut));
}

/** Adds the files of a sound version to `known`, and looks at no file that is there already. */
function judge(suspect: SuspectBranch, version: number, known: Set<string>, outlivedPowerCut: boolean): Judgement {
  const folder = branchFolder(suspect.datasetPath, suspect.branch);
  try {
    const manifest = soundManifest(join(folder, '_versions'), version);
    const files = storedFiles(manifest, folder).filter(({ path }) => !known.has(path));
    for (const file of files) {
      if (file.kind === 'transaction' && version === suspect.acknowledgedVersion) continue;
      // Files of the branch this one was made from were durable before.
      const isOwn = file.path.startsWith(folder + sep);
      const fault = faultOfFile(file, manifest, { outlivedPowerCut: outlivedPowerCut && isOwn });
      if (fault !== undefined) return { version, fault: `${file.path.slice(folder.length + 1)} ${fault}` };
    }
    for (const { path } of files) known.add(path);
    return { version, fault: undefined };
  } catch (error) {
    if (!(error instanceof MalformedFile)) throw error;
    return { version, fault: `its manifest: ${error.message}` };
  }
}

function soundManifest(versionsFolder: string, version: number): Manifest {
  const found = readManifest(versionsFolder, version);
  if (found === undefined) throw new MalformedFile('missing');
  const manifest = parseManifest(found.bytes);
  if (manifest.version !== version) throw new MalformedFile(`says it is of version ${manifest.version}`);
  return manifest;
}

async function removeVersions(versionsFolder: string, versions: readonly Judgement[], sync: FileSync): Promise<void> {
  for (const { version } of versions.toReversed()) {
    const found = readManifest(versionsFolder, version);
    if (found === undefined) continue;
    rmSync(found.path);
    await sync.folder(versionsFolder);
  }
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

/** What a branch has of its own; folders of other branches may lie beside them. */
const ownFolders = ['_versions', '_transactions', '_deletions', '_indices', 'data'];

/** False for a record that is missing or torn. */
export function isReadableRecord(path: string): boolean {
  try {
    JSON.parse(readFileSync(path, 'utf8'));
    return true;
  } catch (error) {
    if (error instanceof SyntaxError || isAny(error, 'ENOENT')) return false;
    throw error;
  }
}

/** Takes a branch out that the engine cannot, because it is not whole. The record goes first: it is what names the branch. */
export async function removeBranch(datasetPath: string, branch: string, sync: FileSync): Promise<void> {
  rmSync(branchRecord(datasetPath, branch), { force: true });
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
  try {
    for (let empty = folder; empty !== datasetPath; empty = dirname(empty)) rmdirSync(empty);
  } catch (error) {
    if (!isAny(error, 'ENOTEMPTY', 'EEXIST', 'ENOENT')) throw error;
  }
}

function ignoreMissing(error: unknown): void {
  if (!isAny(error, 'ENOENT')) throw error;
}

const isAny = (error: unknown, ...codes: readonly string[]): boolean =>
  codes.includes((error as NodeJS.ErrnoException).code ?? '');
