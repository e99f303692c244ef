/**
 * A shadow is a dataset whose manifest names the files of another one where they are, under a base path of its own (what Lance
 * calls a shallow clone), and keeps the other one's fragment ids, columns and indexes. The engine may change it at will.
 * `liftedVersion` turns what the engine made of it into the next version of the original.
 *
 * `shadowManifest` throws `NotLiftable` for a table whose manifest would say something wrong in one of the two places.
 */

import { NotLiftable, requireLiftable } from '../manifest/liftable.ts';
import { manifestFileOf, sectionsOf } from '../manifest/manifest-sections.ts';
import { basePathsFlag, ofOneVersion, timestampOf } from '../manifest/version-fields.ts';
import { type Decoded, decode, edit, encode } from '../message.ts';
import { basePath, dataFile, deletionFile, fragment, index, indexSection, manifest, uuid } from '../messages.ts';
import { type BaseChange, fragmentWith, indexWith } from './base-ids.ts';
import { composedTransaction, type FragmentChanges, liftedTransaction } from './lifted-transaction.ts';

type Manifest = Decoded<typeof manifest>;

/** The base id that the files of the original have in its shadow. */
const baseIdIn = ({ basePaths = [] }: Manifest): number =>
  basePaths.reduce((next, each) => Math.max(next, (decode(basePath, each).id ?? 0) + 1), 0);

/** `folder`: of the original, absolute. `version`: of the shadow; not less than the original's, and greater than any that its folder had. */
export function shadowManifest(original: Buffer, { version, folder }: { version: number; folder: string }): Buffer {
  const { message, indexes } = sectionsOf(original);
  const known = decode(manifest, message);
  requireLiftable(known, indexes);
  const baseId = baseIdIn(known);
  const change: BaseChange = { from: undefined, to: baseId };
  const shadow = edit(manifest, message, {
    ...ofOneVersion,
    version,
    branch: undefined,
    timestamp: known.timestamp,
    fragments: known.fragments?.map((each) => fragmentWith(change, each)),
    basePaths: [...(known.basePaths ?? []), encode(basePath, { id: baseId, isDatasetRoot: true, path: folder })],
    readerFlags: (known.readerFlags ?? 0n) | basePathsFlag,
    writerFlags: (known.writerFlags ?? 0n) | basePathsFlag,
  });
  const shadowIndexes = indexes && indexesWith(change, indexes);
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

export function liftedVersion({ original, result, steps, transactionId, committedAtMs }: LiftRequest): LiftedVersion {
  const before = sectionsOf(original);
  const after = sectionsOf(result);
  const head = decode(manifest, before.message);
  const made = decode(manifest, after.message);
  const readVersion = head.version ?? 0;
  const change: BaseChange = { from: baseIdIn(head), to: undefined, madeFrom: readVersion };
  const fragments = made.fragments?.map((each) => fragmentWith(change, each)) ?? [];
  const changes = changesBetween(head.fragments ?? [], fragments);
  const [step, ...others] = steps;
  if (step === undefined) throw new NotLiftable('nothing was done');
  const transactionHead = { readVersion, uuid: transactionId };
  const transaction =
    others.length === 0
      ? liftedTransaction(transactionHead, step, change)
      : composedTransaction(transactionHead, steps, changes);
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
  const files = [...(made.fragments ?? []).flatMap(filesOf(readVersion)), ...indexFolders(after.indexes)];
  const bytes = manifestFileOf({ message, indexes, transaction }, original);
  return { version: readVersion + 1, bytes, transaction, transactionFile, files };
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

export function indexFolders(section: Uint8Array | undefined): readonly LiftedFile[] {
  const indexes = section === undefined ? [] : (decode(indexSection, section).indexes ?? []);
  return indexes.flatMap((each) => {
    const { baseId, uuid: encoded } = decode(index, each);
    if (baseId !== undefined) return [];
    const folder = `_indices/${uuidText(decode(uuid, encoded ?? Buffer.of()).bytes)}`;
    return [{ from: folder, to: folder }];
  });
}

const uuidText = (bytes = Buffer.of() as Uint8Array): string =>
  Buffer.from(bytes)
    .toString('hex')
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
