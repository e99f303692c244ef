/**
 * A shadow is a dataset whose manifest names the files of another one where they are, under a base path of its own (what Lance
 * calls a shallow clone), and keeps the other one's fragment ids, columns and indexes. The engine may change it at will.
 * `lifted-version.ts` has the versions that its results become. A trial has a version that another program proposes in the same way.
 */
import { fieldsOfColumns } from '../manifest/column-files.ts';
import { ofOneVersion } from '../manifest/next-manifest.ts';
import { fragmentId, manifestFileOf, sectionsOf } from '../manifest/parse-manifest.ts';
import { basePathsFlag, requireReplaceable } from '../manifest/replaceable.ts';
import { rowIdsFlag, withoutIdentities, withVersionsUpTo } from '../manifest/row-identity.ts';
import {
  basePath,
  dataFile,
  deletionFile,
  field,
  fragment,
  index,
  indexSection,
  manifest,
  mapEntry,
} from '../messages.ts';
import { type Decoded, decode, edit, editEach, encode } from '../protobuf.ts';

/** The files of the original have this base id in its shadow. */
export const baseIdIn = ({ basePaths = [] }: Pick<Decoded<typeof manifest>, 'basePaths'>): number =>
  basePaths.reduce((next, each) => Math.max(next, (decode(basePath, each).id ?? 0) + 1), 0);

interface ShadowRequest {
  /** The original lies there; the path is absolute. */
  readonly folder: string;
  /** The shadow has it: it is not less than the original's, and greater than any that its folder had. */
  readonly version: number;
  /** The shadow has the fragments of these ids and no others, and no indexes. Such a shadow is not lifted. */
  readonly only?: ReadonlySet<number>;
  /**
   * Columns of JSON are bytes there, which the engine copies as they are. As JSON it reads them as texts, and refuses to write one that
   * is not JSON, which the bytes that programs have stored may be.
   */
  readonly hasJsonAsBytes?: boolean;
  /**
   * The shadow has the columns of these names and no others, no indexes, and no ids of rows, so that the engine takes rows by their
   * addresses. Such a shadow is not lifted.
   */
  readonly columns?: ReadonlySet<string>;
}

/** Throws `NotReplaceable` for a table whose manifest would say something wrong in one of the two datasets. */
export function shadowManifest(
  original: Buffer,
  { folder, version, only, columns, hasJsonAsBytes = false }: ShadowRequest,
): Buffer {
  const { message, indexes } = sectionsOf(original);
  const known = requireReplaceable(message, indexes);
  const baseId = baseIdIn(known);
  const change: BaseChange = { from: undefined, to: baseId };
  const wanted = columns === undefined ? known.fields : fieldsOfColumns(known.fields ?? [], columns);
  const fields = hasJsonAsBytes ? wanted?.map(jsonAsBytes) : wanted;
  const isView = columns !== undefined;
  const flagsOf = (flags: bigint) => (isView ? flags & ~rowIdsFlag : flags) | basePathsFlag;
  const shadow = edit(manifest, message, {
    ...ofOneVersion,
    version,
    branch: undefined,
    timestamp: known.timestamp,
    ...(fields !== known.fields && { fields }),
    fragments: known.fragments
      .filter((each) => only?.has(fragmentId(each)) !== false)
      .map((each) => fragmentWith(change, isView ? withoutIdentities(each) : each)),
    basePaths: [...(known.basePaths ?? []), encode(basePath, { id: baseId, isDatasetRoot: true, path: folder })],
    readerFlags: flagsOf(known.readerFlags),
    writerFlags: flagsOf(known.writerFlags),
    nextRowId: isView ? undefined : known.nextRowId,
  });
  const isPart = only !== undefined || columns !== undefined;
  const shadowIndexes = isPart ? undefined : indexes && indexesWith(change, indexes);
  return manifestFileOf({ message: shadow, indexes: shadowIndexes, transaction: undefined }, original);
}

function jsonAsBytes(encoded: Uint8Array): Uint8Array {
  const { logicalType, metadata = [] } = decode(field, encoded, ['logicalType', 'metadata']);
  if (logicalType !== 'json') return encoded;
  const others = metadata.filter((entry) => !decode(mapEntry, entry, ['key']).key?.startsWith('ARROW:extension:'));
  return edit(field, encoded, { logicalType: 'large_binary', extensionName: undefined, metadata: others });
}

/** Gives the shadow the columns as the original has them. */
export function withOwnColumns(shadow: Buffer, original: Buffer): Buffer {
  const { message, indexes, transaction } = sectionsOf(shadow);
  const { fields = [] } = decode(manifest, sectionsOf(original).message, ['fields']);
  return manifestFileOf({ message: edit(manifest, message, { fields }), indexes, transaction }, shadow);
}

/**
 * Makes a proposed version one of a dataset of its own, to see whether it can be read before it is a version: with the files of the branch
 * in `folder` where they are, of the fragments `only`, and otherwise what its writer wrote, whatever that is.
 */
export function trialManifest(proposed: Buffer, folder: string, only: ReadonlySet<number>): Buffer {
  const { message, indexes, transaction } = sectionsOf(proposed);
  const { fragments = [], basePaths = [], readerFlags = 0n, writerFlags = 0n } = decode(manifest, message);
  const baseId = baseIdIn({ basePaths });
  const change: BaseChange = { from: undefined, to: baseId };
  const trial = edit(manifest, message, {
    branch: undefined,
    fragments: fragments.filter((each) => only.has(fragmentId(each))).map((each) => fragmentWith(change, each)),
    basePaths: [...basePaths, encode(basePath, { id: baseId, isDatasetRoot: true, path: folder })],
    readerFlags: readerFlags | basePathsFlag,
    writerFlags: writerFlags | basePathsFlag,
  });
  return manifestFileOf({ message: trial, indexes: indexes && indexesWith(change, indexes), transaction }, proposed);
}

/** It puts files of fragments and indexes under another base path. A file without a base id is in the folder of its own dataset. */
export interface BaseChange {
  /** Files with this base id get the other; all others keep theirs. */
  readonly from: number | undefined;
  readonly to: number | undefined;
  /**
   * Deletion vectors and indexes without a base id count as made from this version, if they count as made from a later one; rows that
   * count as changed by a later version, as changed by the one after it.
   */
  readonly madeFrom?: number;
}

export function fragmentWith(change: BaseChange, encoded: Uint8Array): Uint8Array {
  const { from, to, madeFrom } = change;
  const made = madeFrom === undefined ? encoded : withVersionsUpTo(encoded, madeFrom + 1);
  return editEach(fragment, made, {
    files: (file) => (decode(dataFile, file, ['baseId']).baseId === from ? edit(dataFile, file, { baseId: to }) : file),
    deletionFile: (file) => deletionFileWith(change, file),
  });
}

function deletionFileWith({ from, to, madeFrom = Infinity }: BaseChange, encoded: Uint8Array): Uint8Array {
  const { baseId, readVersion = 0 } = decode(deletionFile, encoded, ['baseId', 'readVersion']);
  if (baseId === from) return edit(deletionFile, encoded, { baseId: to });
  return baseId === undefined && readVersion > madeFrom
    ? edit(deletionFile, encoded, { readVersion: madeFrom })
    : encoded;
}

export const indexesWith = (change: BaseChange, section: Uint8Array): Uint8Array =>
  editEach(indexSection, section, { indexes: (each) => indexWith(change, each) });

export function indexWith({ from, to, madeFrom = Infinity }: BaseChange, encoded: Uint8Array): Uint8Array {
  const { baseId, datasetVersion = 0 } = decode(index, encoded, ['baseId', 'datasetVersion']);
  if (baseId === from) return edit(index, encoded, { baseId: to });
  return baseId === undefined && datasetVersion > madeFrom
    ? edit(index, encoded, { datasetVersion: madeFrom })
    : encoded;
}
