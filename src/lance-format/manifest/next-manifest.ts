/**
 * The manifest and the transaction of a commit that replaces rows: some are marked as deleted in their fragments, others
 * come in new ones. It is what the engine writes for an update or, where rows are only put elsewhere, for a compaction
 * (Lance's format, "Transactions", operations Update and Rewrite; `protos/table.proto`, `protos/transaction.proto`), made
 * from the manifest before it.
 *
 * Not a writer of the format in general: what this commit does not change is copied field by field, also what is not known
 * here, and a manifest that asks its writers for anything beyond deletion files, a table configuration and base paths is
 * refused (`NotReplaceable`), as the specification wants it. Pure; whoever calls it puts the files in place.
 */

import { decode, edit, encode } from '../message-codec.ts';
import { deletionFile, fragment, manifest, rewrite, rewriteGroup, transaction, update } from '../messages.ts';
import { MalformedFile } from '../wire-reader.ts';
import { fitInto } from './data-fields.ts';
import { manifestFileOf, sectionsOf } from './manifest-sections.ts';
import { hasPrimaryKey, NotReplaceable, type Replaceable, requireReplaceable } from './replaceable.ts';
import { deletionFilesFlag, ofOneVersion, timestampOf } from './version-fields.ts';

/** A fragment's new list of deleted rows. */
export interface DeletionFile {
  readonly readVersion: number;
  readonly id: bigint;
  readonly deletedRows: number;
}

/** Fragments that give way, by their ids, to those that are staged under `after`. */
export interface MovedGroup {
  readonly before: readonly number[];
  /** With the rows that were deleted since they were staged. */
  readonly after: readonly { readonly id: number; readonly deletions: DeletionFile | undefined }[];
}

export interface Replacement {
  /** By fragments: those whose rows are all deleted go. */
  readonly deletions: ReadonlyMap<number, DeletionFile | 'all rows'>;
  /** The manifest of a dataset that has the new rows and nothing else; their files are to be in this dataset's folder. */
  readonly staged: Buffer;
  /** Of a compaction; without them it is an update that takes all staged fragments. */
  readonly groups?: readonly MovedGroup[];
  /** A version-4 UUID. */
  readonly transactionId: string;
  readonly committedAtMs: number;
}

export interface NewFragment {
  readonly id: number;
  readonly rows: number;
}

export interface NextManifest {
  readonly version: number;
  readonly bytes: Buffer;
  readonly transaction: Buffer;
  /** The name of its file. */
  readonly transactionFile: string;
  readonly fragments: readonly NewFragment[];
}

export function nextManifest(current: Buffer, replacement: Replacement): NextManifest {
  const { deletions, groups, transactionId, committedAtMs } = replacement;
  const { message, indexes } = sectionsOf(current);
  const before = requireReplaceable(message, indexes);
  const staged = requireReplaceable(sectionsOf(replacement.staged).message, undefined);
  expectSameShape(before, staged);
  if (groups === undefined && hasPrimaryKey(before)) {
    throw new NotReplaceable('the table lists its new keys for other writers');
  }
  const fragments = before.fragments.map((bytes) => ({ id: idOf(bytes), bytes }));
  const largestId = fragments.reduce((largest, { id }) => Math.max(largest, id), before.maxFragmentId ?? -1);
  const added = stagedFragments(staged, groups, largestId + 1);
  const updated = updatedFragments(fragments, deletions);
  const operation = groups === undefined ? updateOf(deletions, updated, added) : rewriteOf(groups, fragments, added);
  const { version: readVersion = 0 } = before;
  const recorded = encode(transaction, { readVersion, uuid: transactionId, ...operation });
  const transactionFile = `${readVersion}-${transactionId}.txn`;
  const stay = fragments.filter(({ id }) => deletions.get(id) !== 'all rows');
  const flags = deletions.size > 0 ? deletionFilesFlag : 0n;
  const next = edit(manifest, message, {
    ...ofOneVersion,
    version: readVersion + 1,
    timestamp: timestampOf(committedAtMs),
    fragments: [...stay.map(({ id, bytes }) => updated.get(id) ?? bytes), ...added.map(({ bytes }) => bytes)],
    readerFlags: before.readerFlags | flags || undefined,
    writerFlags: before.writerFlags | flags || undefined,
    maxFragmentId: largestId + added.length < 0 ? undefined : largestId + added.length,
    transactionFile,
  });
  return {
    version: readVersion + 1,
    bytes: manifestFileOf({ message: next, indexes, transaction: recorded }, current),
    transaction: recorded,
    transactionFile,
    fragments: added.map(({ id, rows }) => ({ id, rows })),
  };
}

interface StoredBytes {
  readonly id: number;
  readonly bytes: Uint8Array;
}

/** A staged fragment under the id that it gets here. */
interface AddedFragment extends StoredBytes {
  readonly stagedId: number;
  readonly rows: number;
}

const idOf = (encoded: Uint8Array): number => decode(fragment, encoded, ['id']).id ?? 0;

/** The new file is as its own dataset describes it: that has to be true here as well. */
function expectSameShape(target: Replaceable, staged: Replaceable): void {
  if (!Buffer.from(target.dataFormat ?? '').equals(staged.dataFormat ?? Buffer.of())) {
    throw new NotReplaceable('the table has files of another version');
  }
  if (!fitInto(staged.fields ?? [], target.fields ?? [])) {
    throw new NotReplaceable('the source has columns of another shape');
  }
}

function stagedFragments(
  { fragments }: Replaceable,
  groups: readonly MovedGroup[] | undefined,
  firstId: number,
): readonly AddedFragment[] {
  const byId = new Map(fragments.map((bytes) => [idOf(bytes), bytes]));
  const taken = groups?.flatMap(({ after }) => after) ?? [...byId.keys()].map((id) => ({ id, deletions: undefined }));
  return taken.map(({ id: stagedId, deletions }, index) => {
    const bytes = byId.get(stagedId);
    if (bytes === undefined) throw new MalformedFile(`no staged fragment ${stagedId}`);
    const id = firstId + index;
    const changes = { id: id || undefined, ...(deletions !== undefined && { deletionFile: deletionsOf(deletions) }) };
    const rows = decode(fragment, bytes, ['physicalRows']).physicalRows ?? 0;
    return { id, stagedId, rows, bytes: edit(fragment, bytes, changes) };
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

/** In the mode in which whole rows are written anew. New fragments have no ids yet. */
function updateOf(
  deletions: Replacement['deletions'],
  updated: ReadonlyMap<number, Uint8Array>,
  added: readonly AddedFragment[],
) {
  const removed = [...deletions].flatMap(([id, change]) => (change === 'all rows' ? [id] : []));
  return {
    update: encode(update, {
      removedFragmentIds: removed.length === 0 ? undefined : [removed],
      updatedFragments: [...updated.values()],
      newFragments: added.map(({ bytes }) => edit(fragment, bytes, { id: undefined })),
    }),
  };
}

function rewriteOf(groups: readonly MovedGroup[], fragments: readonly StoredBytes[], added: readonly AddedFragment[]) {
  const encoded = groups.map(({ before, after }) => {
    const ids = new Set(after.map(({ id }) => id));
    return encode(rewriteGroup, {
      before: fragments.filter(({ id }) => before.includes(id)).map(({ bytes }) => bytes),
      after: added.filter(({ stagedId }) => ids.has(stagedId)).map(({ bytes }) => bytes),
    });
  });
  return { rewrite: encode(rewrite, { groups: encoded }) };
}
