/**
 * A shadow is a dataset whose manifest names the files of another one where they are, under a base path of its own (what Lance
 * calls a shallow clone), and keeps the other one's fragment ids, columns and indexes. The engine may change it at will.
 * `liftedVersion` turns what the engine made of it into the next version of the original.
 *
 * `shadowManifest` throws `NotReplaceable` for a table whose manifest would say something wrong in one of the two places.
 */

import {
  basePathsFlag,
  NotReplaceable,
  ofOneVersion,
  requireReplaceable,
  timestampOf,
} from '../manifest/next-manifest.ts';
import { manifestFileOf, sectionsOf, uuidText } from '../manifest/parse-manifest.ts';
import {
  addColumns,
  append,
  basePath,
  createIndex,
  dataFile,
  deletion,
  deletionFile,
  fragment,
  index,
  indexSection,
  manifest,
  overwrite,
  rewrite,
  rewriteGroup,
  transaction,
  update,
} from '../messages.ts';
import { type Decoded, decode, edit, encode } from '../protobuf.ts';

type Manifest = Decoded<typeof manifest>;

/** The base id that the files of the original have in its shadow. */
const baseIdIn = ({ basePaths = [] }: Manifest): number =>
  basePaths.reduce((next, each) => Math.max(next, (decode(basePath, each).id ?? 0) + 1), 0);

export interface ShadowRequest {
  /** Of the original, absolute. */
  readonly folder: string;
  /** Of the shadow: not less than the original's, and greater than any that its folder had. */
  readonly version: number;
  /** Ids of fragments: the shadow has these and no others, and no indexes. Such a shadow is not lifted. */
  readonly only?: ReadonlySet<number>;
}

export function shadowManifest(original: Buffer, { folder, version, only }: ShadowRequest): Buffer {
  const { message, indexes } = sectionsOf(original);
  const known = requireReplaceable(message, indexes);
  const baseId = baseIdIn(known);
  const change: BaseChange = { from: undefined, to: baseId };
  const shadow = edit(manifest, message, {
    ...ofOneVersion,
    version,
    branch: undefined,
    timestamp: known.timestamp,
    fragments: known.fragments
      .filter((each) => only?.has(decode(fragment, each, ['id']).id ?? 0) !== false)
      .map((each) => fragmentWith(change, each)),
    basePaths: [...(known.basePaths ?? []), encode(basePath, { id: baseId, isDatasetRoot: true, path: folder })],
    readerFlags: known.readerFlags | basePathsFlag,
    writerFlags: known.writerFlags | basePathsFlag,
  });
  const shadowIndexes = only === undefined ? indexes && indexesWith(change, indexes) : undefined;
  return manifestFileOf({ message: shadow, indexes: shadowIndexes, transaction: undefined }, original);
}

const indexesWith = (change: BaseChange, section: Uint8Array): Buffer =>
  edit(indexSection, section, {
    indexes: decode(indexSection, section).indexes?.map((each) => indexWith(change, each)),
  });

export interface LiftRequest {
  /** Manifest of the version that the shadow was made of. */
  readonly original: Buffer;
  /** The newest manifest of the shadow. */
  readonly result: Buffer;
  /** The transactions of the shadow's own versions, oldest first. */
  readonly steps: readonly Uint8Array[];
  /** A version-4 UUID. */
  readonly transactionId: string;
  readonly committedAtMs: number;
}

/** A file or folder to be moved, by its paths relative to the shadow and to the original. */
export interface LiftedFile {
  readonly from: string;
  readonly to: string;
}

export interface LiftedVersion {
  readonly version: number;
  readonly bytes: Buffer;
  readonly transaction: Buffer;
  readonly transactionFile: string;
  readonly files: readonly LiftedFile[];
}

export function liftedVersion(request: LiftRequest): LiftedVersion {
  const { original, result, transactionId, committedAtMs } = request;
  const before = sectionsOf(original);
  const after = sectionsOf(result);
  const head = decode(manifest, before.message);
  const made = decode(manifest, after.message);
  const readVersion = head.version ?? 0;
  const change = liftFrom(head);
  const fragments = made.fragments?.map((each) => fragmentWith(change, each)) ?? [];
  const transaction = transactionOf(request, head, fragments);
  const transactionFile = `${readVersion}-${transactionId}.txn`;
  const message = edit(manifest, before.message, {
    ...ofOneVersion,
    version: readVersion + 1,
    timestamp: timestampOf(committedAtMs),
    fields: made.fields,
    fragments,
    maxFragmentId: made.maxFragmentId,
    readerFlags: liftedFlags(head.readerFlags, made.readerFlags),
    writerFlags: liftedFlags(head.writerFlags, made.writerFlags),
    transactionFile,
  });
  const indexes = after.indexes && indexesWith(change, after.indexes);
  const ownIndexes = after.indexes === undefined ? [] : (decode(indexSection, after.indexes).indexes ?? []);
  const files = [...(made.fragments ?? []).flatMap(filesOf(readVersion)), ...ownIndexes.flatMap(indexFolders)];
  const bytes = manifestFileOf({ message, indexes, transaction }, original);
  return { version: readVersion + 1, bytes, transaction, transactionFile, files };
}

const liftFrom = (head: Manifest): BaseChange => ({ from: baseIdIn(head), to: undefined, madeFrom: head.version ?? 0 });

function transactionOf(request: LiftRequest, head: Manifest, fragments: readonly Uint8Array[]): Buffer {
  if (request.steps.length === 1) return liftedStep(request);
  const changes = changesBetween(head.fragments ?? [], fragments);
  return composedTransaction({ readVersion: head.version ?? 0, uuid: request.transactionId }, request.steps, changes);
}

/** The transaction of the only step. */
export function liftedStep({ original, steps, transactionId }: LiftRequest): Buffer {
  const [step] = steps;
  if (step === undefined) throw new NotReplaceable('nothing was done');
  const head = decode(manifest, sectionsOf(original).message, ['version', 'basePaths']);
  return liftedTransaction({ readVersion: head.version ?? 0, uuid: transactionId }, step, liftFrom(head));
}

const liftedFlags = (before = 0n, after = 0n): bigint | undefined =>
  (after & ~basePathsFlag) | (before & basePathsFlag) || undefined;

function changesBetween(before: readonly Uint8Array[], after: readonly Uint8Array[]): FragmentChanges {
  const old = new Map(before.map((each) => [decode(fragment, each, ['id']).id ?? 0, contentOf(each)]));
  const ids = new Set(after.map((each) => decode(fragment, each, ['id']).id ?? 0));
  const isKnown = (each: Uint8Array) => old.get(decode(fragment, each, ['id']).id ?? 0);
  return {
    removed: [...old.keys()].filter((id) => !ids.has(id)),
    updated: after.filter((each) => isKnown(each) !== undefined && isKnown(each) !== contentOf(each)),
    added: after.filter((each) => isKnown(each) === undefined),
  };
}

/** Another writer's encoding of the same fragment may differ; its files do not. */
function contentOf(encoded: Uint8Array): string {
  const { files = [], deletionFile: deletions } = decode(fragment, encoded);
  const paths = files.map((file) => decode(dataFile, file, ['path']).path);
  return JSON.stringify([paths, deletions && String(decode(deletionFile, deletions).id ?? 0n)]);
}

/** Those that the engine wrote in the shadow. */
const filesOf =
  (readVersion: number) =>
  (encoded: Uint8Array): readonly LiftedFile[] => {
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
  };

/** Of an index whose files the engine wrote in the shadow. */
export function indexFolders(encoded: Uint8Array): readonly LiftedFile[] {
  const { baseId, uuid: identifier } = decode(index, encoded);
  if (baseId !== undefined) return [];
  const folder = `_indices/${uuidText(identifier)}`;
  return [{ from: folder, to: folder }];
}

/** Files of fragments and indexes under another base path. A file without a base id is in the folder of its own dataset. */

export interface BaseChange {
  /** Files with this base id get the other; all others keep theirs. */
  readonly from: number | undefined;
  readonly to: number | undefined;
  /** Deletion vectors and indexes without a base id count as made from this version, if they count as made from a later one. */
  readonly madeFrom?: number;
}

export function fragmentWith(change: BaseChange, encoded: Uint8Array): Uint8Array {
  const { files, deletionFile: deletions } = decode(fragment, encoded, ['files', 'deletionFile']);
  return edit(fragment, encoded, {
    files: files?.map((file) =>
      decode(dataFile, file, ['baseId']).baseId === change.from ? edit(dataFile, file, { baseId: change.to }) : file,
    ),
    deletionFile: deletions && deletionsWith(change, deletions),
  });
}

function deletionsWith({ from, to, madeFrom = Infinity }: BaseChange, encoded: Uint8Array): Uint8Array {
  const { baseId, readVersion = 0 } = decode(deletionFile, encoded, ['baseId', 'readVersion']);
  if (baseId === from) return edit(deletionFile, encoded, { baseId: to });
  return baseId === undefined && readVersion > madeFrom
    ? edit(deletionFile, encoded, { readVersion: madeFrom })
    : encoded;
}

export function indexWith({ from, to, madeFrom = Infinity }: BaseChange, encoded: Uint8Array): Uint8Array {
  const { baseId, datasetVersion = 0 } = decode(index, encoded, ['baseId', 'datasetVersion']);
  if (baseId === from) return edit(index, encoded, { baseId: to });
  return baseId === undefined && datasetVersion > madeFrom
    ? edit(index, encoded, { datasetVersion: madeFrom })
    : encoded;
}

/** The transaction that is recorded for a version made in a shadow. */

export interface TransactionHead {
  readonly readVersion: number;
  /** A version-4 UUID. */
  readonly uuid: string;
}

/** The engine's own, of one step, as the engine would have written it for the original. */
export function liftedTransaction(head: TransactionHead, step: Uint8Array, change: BaseChange): Buffer {
  const known = decode(transaction, step);
  const fragments = (list: readonly Uint8Array[] | undefined) => list?.map((each) => fragmentWith(change, each));
  const indexes = (list: readonly Uint8Array[] | undefined) => list?.map((each) => indexWith(change, each));
  const group = (encoded: Uint8Array) => {
    const { before, after } = decode(rewriteGroup, encoded);
    return edit(rewriteGroup, encoded, { before: fragments(before), after: fragments(after) });
  };
  const inside = <Decoded>(encoded: Uint8Array | undefined, run: (encoded: Uint8Array) => Decoded) =>
    encoded === undefined ? undefined : run(encoded);
  return edit(transaction, step, {
    ...head,
    append: inside(known.append, (each) =>
      edit(append, each, { fragments: fragments(decode(append, each).fragments) }),
    ),
    delete: inside(known.delete, (each) =>
      edit(deletion, each, { updatedFragments: fragments(decode(deletion, each).updatedFragments) }),
    ),
    overwrite: inside(known.overwrite, (each) =>
      edit(overwrite, each, { fragments: fragments(decode(overwrite, each).fragments) }),
    ),
    createIndex: inside(known.createIndex, (each) => {
      const { newIndexes, removedIndexes } = decode(createIndex, each);
      return edit(createIndex, each, { newIndexes: indexes(newIndexes), removedIndexes: indexes(removedIndexes) });
    }),
    rewrite: inside(known.rewrite, (each) => edit(rewrite, each, { groups: decode(rewrite, each).groups?.map(group) })),
    merge: inside(known.merge, (each) =>
      edit(addColumns, each, { fragments: fragments(decode(addColumns, each).fragments) }),
    ),
    update: inside(known.update, (each) => {
      const { updatedFragments, newFragments } = decode(update, each);
      return edit(update, each, {
        updatedFragments: fragments(updatedFragments),
        newFragments: fragments(newFragments),
      });
    }),
  });
}

export interface FragmentChanges {
  readonly removed: readonly number[];
  readonly updated: readonly Uint8Array[];
  readonly added: readonly Uint8Array[];
}

/** Of several steps: an update that says what the result has other than the original. */
export function composedTransaction(
  head: TransactionHead,
  steps: readonly Uint8Array[],
  changes: FragmentChanges,
): Buffer {
  const updates = steps.map((step) => {
    const { update: own, append: rows, delete: removed } = decode(transaction, step);
    if (own === undefined && rows === undefined && removed === undefined)
      throw new NotReplaceable('several steps change more than rows');
    return own === undefined ? {} : decode(update, own);
  });
  if (updates.some(({ insertedRows }) => insertedRows !== undefined))
    throw new NotReplaceable('several steps insert keys');
  const fieldsModified = [...new Set(updates.flatMap((each) => each.fieldsModified?.flat() ?? []))];
  const operation = encode(update, {
    removedFragmentIds: changes.removed.length === 0 ? undefined : [changes.removed],
    updatedFragments: changes.updated,
    newFragments: changes.added.map((each) => edit(fragment, each, { id: undefined })),
    fieldsModified: fieldsModified.length === 0 ? undefined : [fieldsModified],
    mode: updates.some(({ mode }) => mode === 1) ? 1 : undefined,
  });
  return encode(transaction, { ...head, update: operation });
}
