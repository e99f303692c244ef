/**
 * Makes versions of a dataset of what the engine did in a shadow, or in a new dataset in another folder: the manifest and
 * the transaction, as the engine would have written them for the original, and the files to move.
 */

import { notCovering } from '../manifest/index-coverage.ts';
import {
  entriesOf,
  largestFragmentId,
  type NewVersion,
  type VersionIdentity,
  versionAfter,
} from '../manifest/next-manifest.ts';
import { indexesIn, nameOfIndex, sectionsOf, uuidText } from '../manifest/parse-manifest.ts';
import { basePathsFlag, deletionFilesFlag, NotReplaceable, requireReplaceable } from '../manifest/replaceable.ts';
import { identified, type RowIdentity, withOtherIdentities, withoutIdentities } from '../manifest/row-identity.ts';
import {
  createIndex,
  dataFile,
  deletionFile,
  fragment,
  index,
  indexDetails,
  indexSection,
  manifest,
  overwrite,
  rowVersionRun,
  rowVersions,
  transaction,
  vectorDetails,
} from '../messages.ts';
import { decode, edit, editEach, encode, MalformedFile } from '../protobuf.ts';
import { composedTransaction, liftedTransaction } from './recorded-transaction.ts';
import { baseIdIn, fragmentWith, indexesWith } from './shadow-manifest.ts';

interface LiftRequest extends VersionIdentity {
  /** The manifest of which the shadow was made. */
  readonly original: Buffer;
  /** It is the newest manifest of the shadow. */
  readonly result: Buffer;
  /** They are the transactions of the shadow's own versions, oldest first. */
  readonly steps: readonly Uint8Array[];
  /** Rows have them in place of the ids that the shadow gave them, in ascending order: they took the place of others. */
  readonly identities?: ReadonlyMap<number, RowIdentity>;
}

/** A file or folder is to be moved; its paths are relative to the shadow and to the original. */
export interface LiftedFile {
  readonly from: string;
  readonly to: string;
}

interface LiftedVersion extends NewVersion {
  readonly files: readonly LiftedFile[];
}

/** Makes the next version of the original. */
export function liftedVersion(request: LiftRequest): LiftedVersion {
  const { original, result, steps, transactionId, identities = new Map() } = request;
  const { message } = sectionsOf(original);
  const after = sectionsOf(result);
  const head = decode(manifest, message);
  const made = decode(manifest, after.message);
  const { version: readVersion = 0 } = head;
  const change = { from: baseIdIn(head), to: undefined, madeFrom: readVersion };
  const identified = (each: Uint8Array) => (identities.size > 0 ? withOtherIdentities(each, identities) : each);
  const fragments = made.fragments?.map((each) => identified(fragmentWith(change, each))) ?? [];
  const indexes = after.indexes && indexesWith(change, after.indexes);
  const identity = { readVersion, uuid: transactionId };
  const before = {
    fragments: head.fragments ?? [],
    fields: head.fields ?? [],
    indexes: indexesIn(sectionsOf(original).indexes),
  };
  const { fields = [], schemaMetadata = [], config, tableMetadata } = made;
  const lifted = { fragments, indexes: indexesIn(indexes), fields, schemaMetadata };
  const transaction =
    steps.length > 1
      ? composedTransaction(identity, steps, before, lifted)
      : liftedTransaction(identity, steps[0], change);
  const changes = {
    fields,
    schemaMetadata,
    config,
    tableMetadata,
    fragments,
    maxFragmentId: made.maxFragmentId,
    nextRowId: made.nextRowId,
    readerFlags: liftedFlags(head.readerFlags, made.readerFlags),
    writerFlags: liftedFlags(head.writerFlags, made.writerFlags),
  };
  const version = versionAfter({ message, readVersion, like: original }, changes, { indexes, transaction }, request);
  const files = [
    ...(made.fragments ?? []).flatMap((each) => filesOf(each, readVersion)),
    ...indexesIn(after.indexes).flatMap(indexFolders),
  ];
  return { ...version, files };
}

const liftedFlags = (before = 0n, after = 0n): bigint | undefined =>
  (after & ~basePathsFlag) | (before & basePathsFlag) || undefined;

/** Finds the files of a fragment that the engine wrote in the shadow. */
function filesOf(encoded: Uint8Array, readVersion: number): readonly LiftedFile[] {
  const { id = 0, files = [], deletionFile: deletions } = decode(fragment, encoded);
  const moved: LiftedFile[] = [];
  for (const file of files) {
    const { path = '', baseId } = decode(dataFile, file);
    if (baseId === undefined) moved.push({ from: `data/${path}`, to: `data/${path}` });
  }
  if (deletions === undefined) return moved;
  const { isBitmap, readVersion: from = 0, id: random = 0n, baseId } = decode(deletionFile, deletions);
  const name = (version: number) => `_deletions/${id}-${version}-${random}.${isBitmap === true ? 'bin' : 'arrow'}`;
  return baseId === undefined ? [...moved, { from: name(from), to: name(Math.min(from, readVersion)) }] : moved;
}

/** Finds the folder of an index that the engine wrote in the shadow. */
function indexFolders(encoded: Uint8Array): readonly LiftedFile[] {
  const { baseId, uuid: identifier } = decode(index, encoded);
  if (baseId !== undefined) return [];
  const folder = `_indices/${uuidText(identifier)}`;
  return [{ from: folder, to: folder }];
}

/** The engine built the index in a shadow. */
interface BuiltIndex {
  /** It is the newest manifest of the shadow. */
  readonly shadow: Buffer;
  readonly name: string;
  /** The version of which the shadow was made. */
  readonly builtFrom: number;
  /** They are written among the hints of a vector index. */
  readonly hints?: Readonly<Record<string, string>> | undefined;
  /** The index says something wrong of these fragments by now, so that it does not cover them. */
  readonly changed?: ReadonlySet<number>;
}

/** Finds the index of a name that the engine built, each segment as it is encoded. */
export const builtSegments = (shadow: Buffer, name: string): readonly Uint8Array[] =>
  indexesIn(sectionsOf(shadow).indexes).filter((each) => nameOfIndex(each) === name);

/**
 * Makes the version with an index more, or another one of the same name: what the engine commits for `createIndex`. `head` may be a
 * later version than the index was built from: readers do not use the index for fragments that it does not cover.
 * Throws `NotReplaceable` for a table that this package writes no version of.
 */
export function indexVersion(
  head: Buffer,
  { shadow, name, builtFrom, hints = {}, changed = new Set() }: BuiltIndex,
  identity: VersionIdentity,
): LiftedVersion {
  const { message, indexes } = sectionsOf(head);
  const { version: readVersion } = requireReplaceable(message, indexes);
  const built = builtSegments(shadow, name);
  if (built.length === 0) throw new MalformedFile(`no index ${name}`);
  const segments = built.map((each) =>
    withHints(notCovering(changed, edit(index, each, { datasetVersion: builtFrom })), hints),
  );
  const { removed = [], kept = [] } = Object.groupBy(indexesIn(indexes), (each) =>
    nameOfIndex(each) === name ? 'removed' : 'kept',
  );
  const operation = encode(createIndex, { newIndexes: segments, removedIndexes: removed });
  const sections = {
    indexes: encode(indexSection, { indexes: [...kept, ...segments] }),
    transaction: encode(transaction, { readVersion, uuid: identity.transactionId, createIndex: operation }),
  };
  const version = versionAfter({ message, readVersion, like: head }, {}, sections, identity);
  return { ...version, files: segments.flatMap(indexFolders) };
}

/** The vector index gets these, also where the engine wrote some. */
function withHints(encoded: Uint8Array, hints: Readonly<Record<string, string>>): Uint8Array {
  const added = entriesOf(hints);
  if (added.length === 0) return encoded;
  const withAdded = (value: Uint8Array) =>
    edit(vectorDetails, value, { hints: [...(decode(vectorDetails, value).hints ?? []), ...added] });
  return editEach(index, encoded, { details: (each) => editEach(indexDetails, each, { value: withAdded }) });
}

/** Makes the only version of a new dataset, of all rows that the engine appended to one in another folder. */
export function firstVersion({ result, steps, ...identity }: Omit<LiftRequest, 'original'>): NewVersion {
  const { message } = sectionsOf(result);
  const fragments = (decode(manifest, message).fragments ?? []).map(ofFirstVersion);
  const [step = Buffer.of()] = steps;
  const { overwrite: operation = Buffer.of() } = decode(transaction, step);
  const added = fragments.map((each) => edit(fragment, each, { id: undefined }));
  const recorded = edit(transaction, step, {
    uuid: identity.transactionId,
    overwrite: edit(overwrite, operation, { fragments: added }),
  });
  const sections = { indexes: undefined, transaction: recorded };
  return versionAfter({ message, readVersion: 0, like: result }, { fragments }, sections, identity);
}

/** Rows with identifiers of their own also have the versions that created and updated them. */
function ofFirstVersion(encoded: Uint8Array): Uint8Array {
  const runs = (run: Uint8Array) => edit(rowVersionRun, run, { version: 1 });
  const ofFirst = (each: Uint8Array) => editEach(rowVersions, each, { runs });
  return editEach(fragment, encoded, { createdAtVersions: ofFirst, updatedAtVersions: ofFirst });
}

/**
 * Makes the version whose rows and columns are all those of a dataset in another folder, `staged`, with any number of fragments. Settings
 * stay, indexes go. The new fragments have ids that no other ever had, where the engine begins at 0 again: no row address of
 * before has a row. Throws `NotReplaceable` for a table that this package writes no version of.
 */
export function overwriteVersion(head: Buffer, staged: Buffer, identity: VersionIdentity): LiftedVersion {
  const { message, indexes } = sectionsOf(head);
  const before = requireReplaceable(message, indexes);
  const {
    fragments,
    fields = [],
    schemaMetadata = [],
    dataFormat,
  } = requireReplaceable(sectionsOf(staged).message, undefined);
  if (fragments.some((each) => decode(fragment, each).deletionFile !== undefined))
    throw new NotReplaceable('rows of the source are deleted');
  const largestId = largestFragmentId(before);
  const placed = fragments.map((each, index) => ({
    bytes: edit(fragment, each, { id: largestId + 1 + index || undefined }),
    rows: decode(fragment, each, ['physicalRows']).physicalRows ?? 0,
  }));
  const { added, nextRowId } = identified(before, placed, undefined);
  const operation = encode(overwrite, {
    fragments: fragments.map((each) => edit(fragment, withoutIdentities(each), { id: undefined })),
    fields,
    schemaMetadata,
  });
  const { version: readVersion, readerFlags, writerFlags } = before;
  const changes = {
    fields,
    schemaMetadata,
    dataFormat,
    fragments: added.map(({ bytes }) => bytes),
    nextRowId,
    readerFlags: readerFlags & ~deletionFilesFlag || undefined,
    writerFlags: writerFlags & ~deletionFilesFlag || undefined,
    maxFragmentId: largestId + added.length < 0 ? undefined : largestId + added.length,
  };
  const recorded = encode(transaction, { readVersion, uuid: identity.transactionId, overwrite: operation });
  const sections = { indexes: undefined, transaction: recorded };
  const version = versionAfter({ message, readVersion, like: head }, changes, sections, identity);
  return { ...version, files: fragments.flatMap((each) => filesOf(each, readVersion)) };
}
