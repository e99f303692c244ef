/**
 * Another program proposes a version by a manifest that it has written, which is checked as input of a client. What it says of rows is
 * that program's to answer for; here counts that it follows the head, that it is of this branch, and that it names no file which
 * its writer may not have. Its bytes stay as they are.
 */
import { basePath, indexSection, manifest, restore as restoreMessage, transaction } from '../messages.ts';
import { decode, MalformedFile, WireReader } from '../protobuf.ts';
import { type ChangedParts, changedParts } from './changed-parts.ts';
import type { NewVersion } from './next-manifest.ts';
import {
  areKnownToEngine,
  type FileReference,
  indexesIn,
  type Manifest,
  nameOfIndex,
  parseManifest,
  sectionsOf,
  showFlags,
} from './parse-manifest.ts';
import { requireBoundedColumns, UnboundedColumns } from './stored-columns.ts';

/** The manifest may not become the next version. `message` says why, in words for its writer. */
export class UnfitManifest extends Error {
  override readonly name = 'UnfitManifest';
}

export interface ProposalContext {
  /** It is the manifest of the newest version. */
  readonly head: Buffer;
  readonly version: number;
  readonly branch: string | undefined;
  /** Gives the manifest of an older version of the branch; undefined where that is not known. */
  readonly older: (version: number) => Buffer | undefined;
}

export interface ProposedVersion extends NewVersion {
  /** The versions before do not name them. All are in the folder of the branch. */
  readonly newFiles: readonly FileReference[];
  /** What changed since the version before. This service reads it before any client does. */
  readonly changed: ChangedParts;
}

/** Throws `UnfitManifest`. */
export function proposedVersion(written: Buffer, context: ProposalContext): ProposedVersion {
  try {
    return checked(written, context);
  } catch (error) {
    if (error instanceof MalformedFile) throw new UnfitManifest(`it is not a whole manifest: ${error.message}`);
    if (error instanceof UnboundedColumns) throw new UnfitManifest(error.message);
    throw error;
  }
}

function checked(written: Buffer, { head, version, branch, older }: ProposalContext): ProposedVersion {
  const { message, indexes } = sectionsOf(written);
  requireUsualParts(message, manifest.fields.fragments.number);
  if (indexes !== undefined) requireUsualParts(indexes, indexSection.fields.indexes.number);
  requireBoundedColumns(written);
  const known = decode(manifest, message, ['branch']);
  const proposed = parseManifest(written);
  const before = parseManifest(head);
  if (proposed.version !== version) throw new UnfitManifest(`it is of version ${proposed.version}`);
  if ((known.branch || undefined) !== branch) throw new UnfitManifest('it is of another branch');
  if (!areKnownToEngine(proposed.featureFlags)) {
    throw new UnfitManifest(`it has feature flags that are not known here: ${showFlags(proposed.featureFlags)}`);
  }
  if (indexesIn(indexes).some((each) => nameOfIndex(each) === '__lance_mem_wal')) {
    throw new UnfitManifest('its table may have rows in a write-ahead log');
  }
  const { uuid = '', restored, isNewStart } = recordedIn(proposed);
  const named = [before, ...(restored === undefined ? [] : parsed(older(restored)))];
  requireKnownBases(message, head);
  requireFragmentIds(proposed);
  if (!isNewStart) requireSameRows(proposed, before);
  const changed = changedParts(written, head);
  return {
    version,
    bytes: written,
    transaction: Buffer.from(proposed.transaction ?? []),
    transactionFile: `${version - 1}-${uuid}.txn`,
    isRecorded: true,
    newFiles: newFilesOf(proposed, named),
    changed,
  };
}

/** A fragment or an index, as programs of Lance write them, has some 16 bytes for each of its fields. */
const leastBytesOfField = 12;
/** A manifest of any size may have so many. */
const fewFields = 10_000;

const mostFragmentId = 2 ** 32 - 1;
/** A row's address has 32 bits for its place in the fragment. */
const mostRowsOfFragment = 2 ** 32;

/** In memory each part takes hundreds of bytes, and it may have been written in two. `within` is the field whose parts count, too. */
function requireUsualParts(message: Uint8Array, within: number): void {
  let left = fewFields + message.length / leastBytesOfField;
  const reader = new WireReader(message);
  for (let number = reader.next(); number !== undefined; number = reader.next()) {
    left -= 1;
    if (number === within) {
      const part = new WireReader(reader.bytes());
      for (; part.next() !== undefined && left >= 0; left -= 1) part.skip();
    } else reader.skip();
    if (left < 0) throw new UnfitManifest('it has more parts than a manifest of its size');
  }
}

const parsed = (bytes: Buffer | undefined): readonly Manifest[] => (bytes === undefined ? [] : [parseManifest(bytes)]);

/** Reads what the manifest repeats of its transaction. `isNewStart`: its fragments may have the ids of others. */
function recordedIn({ transaction: recorded }: Manifest) {
  if (recorded === undefined) return { isNewStart: false };
  const { uuid, restore, overwrite } = decode(transaction, recorded);
  const restored = restore === undefined ? undefined : decode(restoreMessage, restore).version;
  return { uuid, restored, isNewStart: restore !== undefined || overwrite !== undefined };
}

/** Rows outside the branch's folder are those of another table or branch, which the writer may not be allowed to read. */
function requireKnownBases(message: Uint8Array, head: Buffer): void {
  const known = new Set(basesIn(sectionsOf(head).message));
  if (basesIn(message).every((base) => known.has(base))) return;
  throw new UnfitManifest('it has a base path that the table does not have');
}

const basesIn = (message: Uint8Array): readonly string[] =>
  (decode(manifest, message, ['basePaths']).basePaths ?? []).map((each) => {
    const { id = 0, isDatasetRoot = false, path = '' } = decode(basePath, each);
    return JSON.stringify([id, isDatasetRoot, path]);
  });

/** A version that comes later gives its fragments the ids after the largest. */
function requireFragmentIds({ fragments, maxFragmentId }: Manifest): void {
  const ids = new Set(fragments.map(({ id }) => id));
  if (ids.size < fragments.length) throw new UnfitManifest('two fragments have one id');
  const largest = fragments.reduce((most, { id }) => Math.max(most, id), -1);
  const isInRange = largest <= (maxFragmentId ?? mostFragmentId) && (maxFragmentId ?? 0) < mostFragmentId;
  if (!isInRange) throw new UnfitManifest('it has a fragment with an id above the largest that it names');
  const endless = fragments.find(({ rows }) => rows > mostRowsOfFragment);
  if (endless !== undefined) throw new UnfitManifest(`fragment ${endless.id} has more rows than there are addresses`);
}

/** Rows are known by fragment and position. */
function requireSameRows(proposed: Manifest, before: Manifest): void {
  const rows = new Map(before.fragments.map((each) => [each.id, each.rows]));
  for (const { id, rows: now } of proposed.fragments) {
    if (now !== (rows.get(id) ?? now)) throw new UnfitManifest(`fragment ${id} has other rows than before`);
  }
}

function newFilesOf(proposed: Manifest, named: readonly Manifest[]): readonly FileReference[] {
  const known = new Set(named.flatMap(everyFile).map(keyOf));
  const added = everyFile(proposed).filter((file) => !known.has(keyOf(file)));
  for (const { baseId, path } of added) {
    if (baseId !== undefined)
      throw new UnfitManifest('it names a file outside the branch that no version before names');
    if (!isPlainPath(path)) throw new UnfitManifest('it names a file by a path that is not one inside the branch');
  }
  const folders = new Set(proposed.indexFolders);
  return added.filter((file) => !folders.has(file));
}

const everyFile = ({ files, indexFolders }: Manifest): readonly FileReference[] => [...files, ...indexFolders];

const keyOf = ({ kind, path, baseId, sizeBytes }: FileReference): string =>
  JSON.stringify([kind, path, baseId ?? null, sizeBytes ?? null]);

/** It is relative, and of the names that programs of Lance give to files. */
const isPlainPath = (path: string): boolean =>
  path.length <= 1_024 && path.split('/').every((segment) => /^[\w.=-]+$/.test(segment) && !/^\.+$/.test(segment));
