/**
 * A manifest file is: an index section, the transaction once more, the manifest message, and 16 bytes of footer. Sections begin
 * with their length as a little-endian u32. Anything that does not fit its bounds is `MalformedFile`.
 *
 * `parseManifest` says which files the version needs and what its indexes cover, which the engine does not.
 */
import {
  basePath,
  dataFile,
  deletionFile,
  externalFile,
  field,
  fragment,
  index,
  indexFile,
  indexSection,
  manifest,
  overlay,
  timestamp,
  uuid,
} from '../messages.ts';
import { decode, edit, encode, MalformedFile } from '../protobuf.ts';

export type FileKind = 'data' | 'deletions' | 'transaction' | 'index' | 'rowIds';

/** A file of the dataset lies under the root of `baseId` or, without one, of the branch that the manifest belongs to. */
export interface FileReference {
  readonly kind: FileKind;
  readonly path: string;
  readonly baseId?: number | undefined;
  /** The manifest may not say it. */
  readonly sizeBytes?: number | undefined;
}

interface Base {
  readonly path: string;
  /** Otherwise files lie directly in it, not in the folders a dataset has. */
  readonly isDatasetRoot: boolean;
}

export interface StoredFragment {
  /** No other fragment of the dataset ever has the same, compaction included. */
  readonly id: number;
  /** Deleted ones are among them. */
  readonly rows: number;
  readonly deletedRows: number;
  /** It says which rows are deleted, if any is. */
  readonly deletions: FileReference | undefined;
  /** Tells one deletion vector from another. */
  readonly deletionsId: bigint | undefined;
  /** The names of its data files. Two fragments with the same have the same rows, but for those that are deleted. */
  readonly content: string;
}

export interface StoredIndex {
  /** It is on the columns with these. */
  readonly fieldIds: readonly number[];
  /** A Roaring bitmap has the ids of the fragments it covers; undefined where the manifest does not say. */
  readonly coverage: Buffer | undefined;
  /** It is 0 where the manifest does not say. */
  readonly bytes: number;
}

export interface Manifest {
  readonly version: number;
  readonly committedAtMs: number;
  readonly featureFlags: bigint;
  /** It is the greatest of this version and all before it; undefined where no writer has noted it. */
  readonly maxFragmentId: number | undefined;
  /** They have the ids of top-level columns by name. */
  readonly fieldIds: ReadonlyMap<string, number>;
  readonly fragments: readonly StoredFragment[];
  readonly indexes: readonly StoredIndex[];
  readonly files: readonly FileReference[];
  /** Earlier releases of Lance do not list the files of these indexes in the manifest. */
  readonly indexFolders: readonly FileReference[];
  /** The manifest may repeat the content of the transaction file. */
  readonly transaction: Uint8Array | undefined;
  readonly bases: ReadonlyMap<number, Base>;
}

export function parseManifest(file: Buffer): Manifest {
  const { message, indexes: section, transaction } = sectionsOf(file);
  const known = decode(manifest, message);
  const fragments = (known.fragments ?? []).map(readFragment);
  const indexes = indexesIn(section).map(readIndex);
  return {
    version: known.version ?? 0,
    committedAtMs: known.timestamp === undefined ? 0 : millisecondsOf(known.timestamp),
    featureFlags: (known.readerFlags ?? 0n) | (known.writerFlags ?? 0n),
    maxFragmentId: known.maxFragmentId,
    fieldIds: new Map((known.fields ?? []).flatMap(topLevelId)),
    fragments: fragments.map(({ stored }) => stored),
    indexes,
    files: [
      ...fragments.flatMap(({ files }) => files),
      ...(known.transactionFile ? [{ kind: 'transaction', path: known.transactionFile } as const] : []),
      ...indexes.flatMap(({ files }) => files),
    ],
    indexFolders: indexes.filter(({ files }) => files.length === 0).map(({ folder }) => folder),
    transaction,
    bases: new Map(
      (known.basePaths ?? []).map((each) => {
        const { id = 0, isDatasetRoot = false, path = '' } = decode(basePath, each);
        return [id, { path, isDatasetRoot }];
      }),
    ),
  };
}

const noParent = 2n ** 64n - 1n;

function topLevelId(encoded: Uint8Array): readonly (readonly [name: string, id: number])[] {
  const { name = '', id = 0, parentId } = decode(field, encoded);
  return parentId === noParent ? [[name, id]] : [];
}

export const timestampOf = (ms: number): Buffer =>
  encode(timestamp, { seconds: Math.floor(ms / 1_000), nanoseconds: Math.floor(ms % 1_000) * 1_000_000 });

/** They are whole milliseconds, rounded down. */
function millisecondsOf(encoded: Uint8Array): number {
  const { seconds = 0, nanoseconds = 0 } = decode(timestamp, encoded);
  return seconds * 1_000 + Math.floor(nanoseconds / 1_000_000);
}

function readFragment(encoded: Uint8Array): {
  readonly stored: StoredFragment;
  readonly files: readonly FileReference[];
} {
  const known = decode(fragment, encoded);
  const { id = 0, physicalRows: rows = 0 } = known;
  const overlays = (known.overlays ?? []).flatMap((each) => decode(overlay, each).file ?? []);
  const outside = [known.externalRowIds, known.externalUpdatedAtVersions, known.externalCreatedAtVersions];
  const files = [
    ...[...(known.files ?? []), ...overlays].map(readDataFile),
    ...outside
      .flatMap((each) => each ?? [])
      .map((each): FileReference => ({ kind: 'rowIds', path: decode(externalFile, each).path ?? '' })),
  ];
  const deletions = known.deletionFile && readDeletionFile(known.deletionFile, id);
  const stored = {
    id,
    rows,
    deletedRows: deletions?.deletedRows ?? 0,
    deletions: deletions?.file,
    deletionsId: deletions?.id,
    content: files.flatMap(({ kind, path }) => (kind === 'data' ? path : [])).join('/'),
  };
  return { stored, files: deletions === undefined ? files : [...files, deletions.file] };
}

function readDataFile(encoded: Uint8Array): FileReference {
  const { path = '', sizeBytes, baseId } = decode(dataFile, encoded);
  return { kind: 'data', path, baseId, sizeBytes: sizeBytes || undefined };
}

function readDeletionFile(encoded: Uint8Array, fragmentId: number) {
  const { isBitmap, readVersion = 0, id = 0n, deletedRows = 0, baseId } = decode(deletionFile, encoded);
  const path = `${fragmentId}-${readVersion}-${id}.${isBitmap === true ? 'bin' : 'arrow'}`;
  return { id, deletedRows, file: { kind: 'deletions', path, baseId } as const };
}

interface IndexReference extends StoredIndex {
  readonly folder: FileReference;
  readonly files: readonly FileReference[];
}

function readIndex(encoded: Uint8Array): IndexReference {
  const known = decode(index, encoded);
  const { baseId, coverage, fieldIds = [] } = known;
  const identifier = uuidText(known.uuid);
  const listed = (known.files ?? []).map((each) => decode(indexFile, each));
  return {
    fieldIds: fieldIds.flat(),
    coverage: coverage && Buffer.from(coverage),
    bytes: listed.reduce((sum, { sizeBytes = 0 }) => sum + sizeBytes, 0),
    folder: { kind: 'index', path: identifier, baseId },
    files: listed.map(({ path = '', sizeBytes = 0 }) => ({
      kind: 'index',
      path: `${identifier}/${path}`,
      baseId,
      sizeBytes,
    })),
  };
}

/** An index's folder is named by its encoded UUID. */
export function uuidText(encoded: Uint8Array | undefined): string {
  const bytes = encoded && decode(uuid, encoded).bytes;
  if (bytes === undefined) throw new MalformedFile('an index without an identifier');
  return Buffer.from(bytes)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

const footerBytes = 16;
/** Every file of Lance ends with it. */
export const lanceMagic = 'LANC';

interface ManifestSections {
  readonly message: Uint8Array;
  readonly indexes: Uint8Array | undefined;
  readonly transaction: Uint8Array | undefined;
}

export function sectionsOf(file: Buffer): ManifestSections {
  if (file.length < footerBytes || file.toString('latin1', file.length - 4) !== lanceMagic) {
    throw new MalformedFile('the manifest does not end as one');
  }
  const message = section(file, Number(file.readBigUInt64LE(file.length - footerBytes)));
  const positions = decode(manifest, message, ['indexSection', 'transactionSection', 'transactionSectionOfLance14']);
  const { indexSection, transactionSectionOfLance14, transactionSection = transactionSectionOfLance14 } = positions;
  return {
    message,
    indexes: indexSection === undefined ? undefined : section(file, indexSection),
    transaction: transactionSection === undefined ? undefined : section(file, transactionSection),
  };
}

/** Gives the transaction that made the version, or the name of the file it is in; undefined without any. All else is passed over. */
export function transactionIn(file: Buffer): Uint8Array | string | undefined {
  const { message, transaction } = sectionsOf(file);
  return transaction ?? (decode(manifest, message, ['transactionFile']).transactionFile || undefined);
}

function section(file: Buffer, position: number): Uint8Array {
  const end = file.length - footerBytes;
  const start = position + 4;
  if (start > end) throw new MalformedFile('a section begins past the end');
  const length = file.readUInt32LE(position);
  if (start + length > end) throw new MalformedFile('a section ends past the end');
  return file.subarray(start, start + length);
}

/** Sections come first, each behind its length, then the message, then its position and the format's version and mark, as in `like`. */
export function manifestFileOf({ message, indexes, transaction }: ManifestSections, like: Buffer): Buffer {
  const parts: Uint8Array[] = [];
  let at = 0;
  const add = (content: Uint8Array): number => {
    const start = at;
    const length = Buffer.alloc(4);
    length.writeUInt32LE(content.length);
    parts.push(length, content);
    at += 4 + content.length;
    return start;
  };
  const indexSection = indexes && add(indexes);
  const transactionSection = transaction && add(transaction);
  const position = Buffer.alloc(8);
  position.writeBigUInt64LE(BigInt(add(edit(manifest, message, { indexSection, transactionSection }))));
  return Buffer.concat([...parts, position, like.subarray(like.length - 8)]);
}

/** An outline has what a manifest says of the version as a whole. To read it skips fragments, so it costs microseconds. */
export interface ManifestOutline {
  readonly readerFlags: bigint;
  readonly writerFlags: bigint;
  readonly indexNames: readonly string[];
}

/** Throws `MalformedFile`. */
export function outlineOf(file: Buffer): ManifestOutline {
  const { message, indexes } = sectionsOf(file);
  const { readerFlags = 0n, writerFlags = 0n } = decode(manifest, message, ['readerFlags', 'writerFlags']);
  return { readerFlags, writerFlags, indexNames: indexesIn(indexes).map(nameOfIndex) };
}

export const fragmentId = (encoded: Uint8Array): number => decode(fragment, encoded, ['id']).id ?? 0;

/** Gives the encoded indexes of a section, if the manifest has one. */
export const indexesIn = (section: Uint8Array | undefined): readonly Uint8Array[] =>
  (section && decode(indexSection, section).indexes) ?? [];

/** Tells an encoded index from all others. */
export const identifierOf = (encoded: Uint8Array): string =>
  Buffer.from(decode(index, encoded, ['uuid']).uuid ?? []).toString('hex');

export const nameOfIndex = (encoded: Uint8Array): string => decode(index, encoded, ['name']).name ?? '';

/**
 * Bits of `reader_feature_flags` and `writer_feature_flags` that the engine (@lancedb/lancedb 0.39.0) accepts, as tests with
 * each bit showed: deletion files, row identifiers, the old format, a table configuration, base paths, no transaction files,
 * and two more. It refuses all others.
 */
const knownToEngine = 1n | 2n | 4n | 8n | 16n | 32n | 128n | 256n;

export const areKnownToEngine = (flags: bigint): boolean => (flags & ~knownToEngine) === 0n;

/** Shows the unknown ones. */
export function showFlags(flags: bigint): string {
  const unknown = flags & ~knownToEngine;
  const bits = Array.from({ length: 64 }, (_, bit) => 1n << BigInt(bit));
  return bits.filter((bit) => (unknown & bit) !== 0n).join(', ');
}
