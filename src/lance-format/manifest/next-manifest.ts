/**
 * Makes the next version of a dataset: its manifest, from the one before it, and its transaction (Lance's format, "Transactions";
 * `protos/table.proto`, `protos/transaction.proto`). `nextManifest` makes the version of a commit that replaces rows: some are
 * deleted in their fragments, others come in new ones. It is what the engine writes for an update (operation Update) or, where
 * rows only move, for a compaction (Rewrite).
 *
 * Not a writer of the format in general: what a commit does not change is copied byte for byte, also what is not known here, and
 * a manifest that asks its writers for anything beyond deletion files, a table configuration and base paths is refused
 * (`NotReplaceable`), as the specification demands. Nothing here writes a file.
 */
import {
  append,
  dataFileColumns,
  deletionFile,
  field,
  fragment,
  manifest,
  mapEntry,
  rewrite,
  rewriteGroup,
  transaction,
  update,
} from '../messages.ts';
import { type Decoded, decode, edit, editEach, encode, fieldsIn, MalformedFile } from '../protobuf.ts';
import { followingRows } from './index-coverage.ts';
import { fragmentId, manifestFileOf, sectionsOf, timestampOf } from './parse-manifest.ts';
import {
  configurationFlag,
  deletionFilesFlag,
  hasPrimaryKey,
  NotReplaceable,
  primaryKeyMetadata,
  type Replaceable,
  requireReplaceable,
} from './replaceable.ts';
import { identified, type RowPlace } from './row-identity.ts';

/** What is random in a version, or follows from its time. */
export interface VersionIdentity {
  /** It is a version-4 UUID. */
  readonly transactionId: string;
  readonly committedAtMs: number;
  /** Its transaction says them besides. */
  readonly properties?: Readonly<Record<string, string>> | undefined;
  /** The version has them in its table configuration, beside those of the version before it; an empty text is none. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
}

export interface NewVersion {
  readonly version: number;
  /** The manifest file has these. */
  readonly bytes: Buffer;
  readonly transaction: Buffer;
  readonly transactionFile: string;
  /** The program that proposes the version has stored its transaction. */
  readonly isRecorded?: true;
}

/** A version does not take these over from the one before it. They are for `edit` of a manifest. */
export const ofOneVersion = {
  auxiliaryData: undefined,
  tag: undefined,
  timestamp: undefined,
  indexSection: undefined,
  transactionFile: undefined,
  transactionSection: undefined,
  transactionSectionOfLance14: undefined,
} as const;

/** Makes the version after `readVersion`: `message` with `changes`. `like` is the file that `message` is from. */
export function versionAfter(
  { message, readVersion, like }: { readonly message: Uint8Array; readonly readVersion: number; readonly like: Buffer },
  changes: Decoded<typeof manifest>,
  parts: { readonly indexes: Uint8Array | undefined; readonly transaction: Buffer },
  { transactionId, committedAtMs, properties, settings }: VersionIdentity,
): NewVersion {
  const recorded = withProperties(parts.transaction, properties);
  const version = readVersion + 1;
  const transactionFile = `${readVersion}-${transactionId}.txn`;
  const next = edit(manifest, message, {
    ...ofOneVersion,
    ...changes,
    ...(settings !== undefined && withSettings(message, changes, settings)),
    version,
    timestamp: timestampOf(committedAtMs),
    transactionFile,
  });
  return {
    version,
    bytes: manifestFileOf({ message: next, indexes: parts.indexes, transaction: recorded }, like),
    transaction: recorded,
    transactionFile,
  };
}

/** A table with a configuration says so among what its writers have to know. */
function withSettings(
  message: Uint8Array,
  changes: Decoded<typeof manifest>,
  settings: Readonly<Record<string, string>>,
): Decoded<typeof manifest> {
  const before = { ...decode(manifest, message, ['config', 'writerFlags']), ...changes };
  const entries = Object.entries({ ...settingsIn(before), ...settings }).filter(([, value]) => value !== '');
  const { writerFlags = 0n } = before;
  return { config: entriesOf(Object.fromEntries(entries)), writerFlags: writerFlags | configurationFlag };
}

/** Decodes a map of texts. */
const settingsIn = ({ config = [] }: Decoded<typeof manifest>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    config.map((each) => {
      const { key = '', value = '' } = decode(mapEntry, each);
      return [key, value];
    }),
  );

/** The table configuration of a version. */
export const settingsOf = (file: Buffer): Readonly<Record<string, string>> =>
  settingsIn(decode(manifest, sectionsOf(file).message, ['config']));

/** A message followed by another of its kind is the two together. */
const withProperties = (recorded: Buffer, properties: VersionIdentity['properties']): Buffer =>
  properties === undefined
    ? recorded
    : Buffer.concat([recorded, encode(transaction, { properties: entriesOf(properties) })]);

/** Encodes a map of texts. */
export const entriesOf = (texts: Readonly<Record<string, string>>): readonly Buffer[] =>
  Object.entries(texts).map(([key, value]) => encode(mapEntry, { key, value }));

/** The new deletion vector of a fragment. */
export interface DeletionFile {
  readonly readVersion: number;
  readonly id: bigint;
  readonly deletedRows: number;
}

/** The fragments `before`, by their ids, give way to those that are staged under `after`. */
export interface MovedGroup {
  readonly before: readonly number[];
  /** Their deletions have those of the rows that were deleted since they were staged. */
  readonly after: readonly { readonly id: number; readonly deletions: DeletionFile | undefined }[];
}

interface Replacement extends VersionIdentity {
  /** Each fragment has its own; those whose rows are all deleted go. */
  readonly deletions: ReadonlyMap<number, DeletionFile | 'all rows'>;
  /** The manifest of a dataset that has the new rows and nothing else; their files are to be in this dataset's folder. Undefined without new rows. */
  readonly staged: Buffer | undefined;
  /** The groups of a compaction. Without them the version is of an update or an append, and takes all staged fragments. */
  readonly groups?: readonly MovedGroup[];
  /** The staged rows are new without regard to keys: no row is deleted, and the table may have a primary key. */
  readonly isAppend?: boolean;
  /** The rows that the staged ones take the place of, in the order of these; undefined for one that is new. By default all are. */
  readonly updated?: (() => Iterable<RowPlace | undefined>) | undefined;
}

export interface NextManifest extends NewVersion {
  readonly fragments: readonly { readonly id: number; readonly rows: number }[];
}

export function nextManifest(current: Buffer, replacement: Replacement): NextManifest {
  const { deletions, groups, isAppend = false, transactionId } = replacement;
  const { message, indexes } = sectionsOf(current);
  const before = requireReplaceable(message, indexes);
  if (groups === undefined && !isAppend && hasPrimaryKey(before)) {
    throw new NotReplaceable('the table lists its new keys for other writers');
  }
  const fragments = before.fragments.map((bytes) => ({ id: fragmentId(bytes), bytes }));
  // The ids are decoded already.
  const largestId = fragments.reduce((largest, { id }) => Math.max(largest, id), before.maxFragmentId ?? -1);
  const placed = replacement.staged === undefined ? [] : placedIn(before, replacement.staged, groups, largestId + 1);
  const { added, nextRowId } =
    groups === undefined ? identified(before, placed, replacement.updated) : { ...before, added: placed };
  const updated = updatedFragments(fragments, deletions);
  const moved = groups?.map(({ before: from, after }) => {
    const stagedIds = new Set(after.map(({ id }) => id));
    return {
      before: fragments.filter(({ id }) => from.includes(id)),
      after: added.filter(({ stagedId }) => stagedIds.has(stagedId)),
    };
  });
  const operation = isAppend
    ? { append: encode(append, { fragments: added.map(withoutId) }) }
    : moved === undefined
      ? { update: updateOf(deletions, updated, added) }
      : { rewrite: rewriteOf(moved) };
  const { version: readVersion } = before;
  const recorded = encode(transaction, { readVersion, uuid: transactionId, ...operation });
  const stay = fragments.filter(({ id }) => deletions.get(id) !== 'all rows');
  const flags = deletions.size > 0 ? deletionFilesFlag : 0n;
  const changes = {
    fragments: [...stay.map(({ id, bytes }) => updated.get(id) ?? bytes), ...added.map(({ bytes }) => bytes)],
    readerFlags: before.readerFlags | flags || undefined,
    writerFlags: before.writerFlags | flags || undefined,
    maxFragmentId: largestId + added.length < 0 ? undefined : largestId + added.length,
    nextRowId,
  };
  const from = { message, readVersion, like: current };
  const following = before.hasRowIds && moved !== undefined ? followingRows(moved, indexes) : indexes;
  const parts = { indexes: following, transaction: recorded };
  const next = versionAfter(from, changes, parts, replacement);
  return { ...next, fragments: added.map(({ id, rows }) => ({ id, rows })) };
}

function placedIn(
  before: Replaceable,
  stagedManifest: Buffer,
  groups: readonly MovedGroup[] | undefined,
  firstId: number,
): readonly AddedFragment[] {
  const staged = requireReplaceable(sectionsOf(stagedManifest).message, undefined);
  const fieldIds = fieldIdsOf(before, staged);
  if (groups !== undefined) requireMoved(before, staged, fieldIds);
  return stagedFragments(staged, fieldIds, groups, firstId);
}

/** Rows that only move have the columns of the table itself, and their ids. */
function requireMoved(before: Replaceable, staged: Replaceable, fieldIds: FieldIds): void {
  if (staged.hasRowIds !== before.hasRowIds) throw new NotReplaceable('the rows moved without their ids');
  if (fieldIds !== undefined) throw new NotReplaceable('the table has other columns now');
}

/** No fragment of this version, or of one before it, has a larger one; -1 where there never was one. */
export const largestFragmentId = ({ fragments = [], maxFragmentId = -1 }: Decoded<typeof manifest>): number =>
  fragments.map(fragmentId).reduce((a, b) => Math.max(a, b), maxFragmentId);

export const nextFragmentId = (current: Buffer): number =>
  largestFragmentId(decode(manifest, sectionsOf(current).message)) + 1;

interface StoredBytes {
  readonly id: number;
  readonly bytes: Uint8Array;
}

/** A staged fragment has the id that it gets here. */
interface AddedFragment extends StoredBytes {
  readonly stagedId: number;
  readonly rows: number;
}

/** It has the ids that columns of a staged dataset have in the table; undefined if all are the same. */
type FieldIds = ReadonlyMap<number, number> | undefined;

/**
 * The new file is as its own dataset describes it: that has to be true here as well, but for the ids of columns, which a table
 * counts on when columns come and go, and which its manifest gives for each file.
 */
function fieldIdsOf(target: Replaceable, staged: Replaceable): FieldIds {
  if (!Buffer.from(target.dataFormat ?? '').equals(staged.dataFormat ?? Buffer.of())) {
    throw new NotReplaceable('the table has files of another version');
  }
  const { fields: from = [] } = staged;
  const { fields: into = [] } = target;
  const ids = from.length === into.length ? pairedIds(from, into) : undefined;
  if (ids === undefined) throw new NotReplaceable('the source has columns of another shape');
  return ids.entries().every(([id, as]) => id === as) ? undefined : ids;
}

function stagedFragments(
  { fragments }: Replaceable,
  fieldIds: FieldIds,
  groups: readonly MovedGroup[] | undefined,
  firstId: number,
): readonly AddedFragment[] {
  const byId = new Map(fragments.map((bytes) => [fragmentId(bytes), bytes]));
  const taken = groups?.flatMap(({ after }) => after) ?? [...byId.keys()].map((id) => ({ id, deletions: undefined }));
  return taken.map(({ id: stagedId, deletions }, index) => {
    const bytes = byId.get(stagedId);
    if (bytes === undefined) throw new MalformedFile(`no staged fragment ${stagedId}`);
    const id = firstId + index;
    const changes = { id: id || undefined, ...(deletions !== undefined && { deletionFile: deletionsOf(deletions) }) };
    const rows = decode(fragment, bytes, ['physicalRows']).physicalRows ?? 0;
    return { id, stagedId, rows, bytes: edit(fragment, withFieldIds(fieldIds, bytes), changes) };
  });
}

function withFieldIds(fieldIds: FieldIds, encoded: Uint8Array): Uint8Array {
  if (fieldIds === undefined) return encoded;
  return editEach(fragment, encoded, {
    files: (file) => {
      const ids = decode(dataFileColumns, file).fieldIds?.flat() ?? [];
      return edit(dataFileColumns, file, { fieldIds: [ids.map((id) => fieldIds.get(id) ?? id)] });
    },
  });
}

function updatedFragments(
  fragments: readonly StoredBytes[],
  deletions: Replacement['deletions'],
): ReadonlyMap<number, Uint8Array> {
  const updated = new Map<number, Uint8Array>();
  let found = 0;
  for (const { id, bytes } of fragments) {
    const change = deletions.get(id);
    if (change === undefined) continue;
    found += 1;
    if (change !== 'all rows') updated.set(id, edit(fragment, bytes, { deletionFile: deletionsOf(change) }));
  }
  if (found !== deletions.size) throw new MalformedFile('rows of a fragment that the manifest does not have');
  return updated;
}

const deletionsOf = (file: DeletionFile): Buffer => encode(deletionFile, { isBitmap: true, ...file });

/** A transaction does not say which ids new fragments get. */
const withoutId = ({ bytes }: StoredBytes): Buffer => edit(fragment, bytes, { id: undefined });

/** The update is of the mode in which whole rows are written anew. */
function updateOf(
  deletions: Replacement['deletions'],
  updated: ReadonlyMap<number, Uint8Array>,
  added: readonly AddedFragment[],
): Buffer {
  const removed = [...deletions].flatMap(([id, change]) => (change === 'all rows' ? [id] : []));
  return encode(update, {
    removedFragmentIds: removed.length === 0 ? undefined : [removed],
    updatedFragments: [...updated.values()],
    newFragments: added.map(withoutId),
  });
}

const rewriteOf = (moved: readonly Readonly<Record<'before' | 'after', readonly StoredBytes[]>>[]): Buffer => {
  const bytesOf = (fragments: readonly StoredBytes[]) => fragments.map(({ bytes }) => bytes);
  const groups = moved.map(({ before, after }) =>
    encode(rewriteGroup, { before: bytesOf(before), after: bytesOf(after) }),
  );
  return encode(rewrite, { groups });
};

/**
 * Pairs the ids of the columns `source` with those of `target`; answers undefined unless files written for the one are as those written for
 * the other: the same columns in the same order, with the same metadata for their encoding. A column without NULLs may be stored where they
 * are allowed.
 */
function pairedIds(source: readonly Uint8Array[], target: readonly Uint8Array[]): Map<number, number> | undefined {
  const ids = new Map<number, number>();
  for (const [index, each] of source.entries()) {
    const from = decode(field, each);
    const other = target[index];
    if (other === undefined) return undefined;
    const into = decode(field, other);
    const isFit =
      restOf(each) === restOf(other) &&
      (into.isNullable === true || from.isNullable !== true) &&
      parentIn(ids, from.parentId) === into.parentId;
    if (!isFit) return undefined;
    ids.set(from.id ?? 0, into.id ?? 0);
  }
  return ids;
}

/** The parent of a top-level column has no id. */
function parentIn(ids: ReadonlyMap<number, number>, parentId: bigint | undefined): bigint | undefined {
  const into = ids.get(Number(parentId ?? 0n));
  if (into === undefined) return parentId;
  return into === 0 ? undefined : BigInt(into);
}

/** These are compared by themselves, or mean nothing for files. */
const notOfFiles = (['id', 'parentId', 'isNullable', 'isPrimaryKey', 'primaryKeyPosition'] as const).map(
  (name) => field.fields[name].number,
);

const restOf = (encoded: Uint8Array): string =>
  fieldsIn(encoded)
    .filter(({ number, raw }) => !notOfFiles.includes(number) && !isNote(number, raw))
    .map(({ raw }) => Buffer.from(raw).toString('latin1'))
    .sort()
    .join('\n');

/** Says whether the metadata is a note of its author, or says that there is a primary key: it changes no file. */
function isNote(number: number, raw: Uint8Array): boolean {
  if (number !== field.fields.metadata.number) return false;
  const [entry = Buffer.of()] = decode(field, raw).metadata ?? [];
  const { key = '' } = decode(mapEntry, entry, ['key']);
  return key.startsWith(primaryKeyMetadata) || !/^(lance|ARROW:|packed$)/i.test(key);
}
