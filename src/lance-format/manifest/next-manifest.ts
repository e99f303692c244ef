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

import { MalformedFile } from '../wire-reader.ts';
import { WireWriter } from '../wire-writer.ts';
import {
  areFlagsKnown,
  type Draft,
  type DraftFragment,
  flag,
  fragmentField,
  manifestFile,
  NotReplaceable,
  manifestField as of,
  readDraft,
  timestamp,
  without,
  writeUnlessZero,
} from './manifest-draft.ts';
import { namesOfIndexes } from './manifest-outline.ts';

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
  const before = readDraft(current);
  const staged = readDraft(replacement.staged);
  expectSameShape(before, staged);
  const isUpdate = replacement.groups === undefined;
  if (isUpdate && before.fields.haveKey) throw new NotReplaceable('the table lists its new keys for other writers');
  const fragments = stagedFragments(staged, replacement, before.maxFragmentId + 1);
  const updated = updatedFragments(before, replacement);
  const operation =
    replacement.groups === undefined
      ? updateOf(replacement, updated, fragments)
      : rewriteOf(replacement.groups, before, fragments);
  const transaction = transactionOf(before.version, replacement.transactionId, operation);
  const transactionFile = `${before.version}-${replacement.transactionId}.txn`;
  const version = before.version + 1;
  const message = new WireWriter();
  for (const raw of before.kept) message.raw(raw);
  for (const { id, bytes } of before.fragments) {
    if (replacement.deletions.get(id) !== 'all rows') message.bytes(of.fragment, updated.get(id) ?? bytes);
  }
  for (const { id, bytes } of fragments) message.bytes(of.fragment, withId(id, bytes));
  message.number(of.version, version);
  message.message(of.timestamp, timestamp(replacement.committedAtMs));
  const deletes = replacement.deletions.size > 0 ? flag.deletionFiles : 0;
  writeUnlessZero(message, of.readerFlags, before.readerFlags | deletes);
  writeUnlessZero(message, of.writerFlags, before.writerFlags | deletes);
  message.number(of.maxFragmentId, before.maxFragmentId + fragments.length);
  message.text(of.transactionFile, transactionFile);
  const bytes = manifestFile(current, before.indexSection, transaction, message);
  return { version, bytes, transaction, transactionFile, fragments: fragments.map(({ id, rows }) => ({ id, rows })) };
}

/** The new file is as its own dataset describes it: that has to be true here as well. */
function expectSameShape(target: Draft, staged: Draft): void {
  const flags = [target.readerFlags, target.writerFlags, staged.readerFlags, staged.writerFlags];
  if (!flags.every(areFlagsKnown)) throw new NotReplaceable(`the manifest has feature flags ${flags}`);
  if (target.dataFormat !== staged.dataFormat) throw new NotReplaceable('the table has files of another version');
  if (!staged.fields.fitInto(target.fields)) throw new NotReplaceable('the source has columns of another shape');
  if (target.indexSection !== undefined && hasIndexOfTheEngine(target.indexSection)) {
    throw new NotReplaceable('an index takes part in commits');
  }
}

/** Such as the log of rows not yet merged: indexes that say how the rows of the table are to be read or changed. */
const hasIndexOfTheEngine = (section: Uint8Array): boolean =>
  namesOfIndexes(section).some((name) => name.startsWith('__'));

/** A staged fragment under the id that it gets here; `bytes` are without it. */
interface StagedFragment extends DraftFragment {
  readonly stagedId: number;
}

function stagedFragments(staged: Draft, { groups }: Replacement, firstId: number): readonly StagedFragment[] {
  const byId = new Map(staged.fragments.map((fragment) => [fragment.id, fragment]));
  const taken =
    groups?.flatMap(({ after }) => after) ?? staged.fragments.map(({ id }) => ({ id, deletions: undefined }));
  return taken.map(({ id, deletions }, index) => {
    const fragment = byId.get(id);
    if (fragment === undefined) throw new MalformedFile(`no staged fragment ${id}`);
    const message = without(fragment.bytes, fragmentField.id);
    if (deletions !== undefined) message.message(fragmentField.deletionFile, deletionFile(deletions));
    return { id: firstId + index, stagedId: id, rows: fragment.rows, bytes: message.finish() };
  });
}

function withId(id: number, bytes: Uint8Array): Uint8Array {
  const message = new WireWriter();
  writeUnlessZero(message, fragmentField.id, id);
  message.raw(bytes);
  return message.finish();
}

function updatedFragments({ fragments }: Draft, { deletions }: Replacement): ReadonlyMap<number, Uint8Array> {
  const updated = new Map<number, Uint8Array>();
  let found = 0;
  for (const { id, bytes } of fragments) {
    const change = deletions.get(id);
    if (change === undefined) continue;
    found += 1;
    if (change === 'all rows') continue;
    const message = without(bytes, fragmentField.deletionFile);
    message.message(fragmentField.deletionFile, deletionFile(change));
    updated.set(id, message.finish());
  }
  if (found !== deletions.size) throw new MalformedFile('rows of a fragment that the manifest does not have');
  return updated;
}

const bitmap = 1;

function deletionFile({ readVersion, id, deletedRows }: DeletionFile): WireWriter {
  const message = new WireWriter();
  message.number(1, bitmap);
  message.number(2, readVersion);
  message.uint64(3, id);
  message.number(4, deletedRows);
  return message;
}

interface Operation {
  /** Its field in `Transaction`. */
  readonly field: number;
  readonly message: WireWriter;
}

/** In the mode in which whole rows are written anew. New fragments have no ids yet. */
function updateOf(
  { deletions }: Replacement,
  updated: ReadonlyMap<number, Uint8Array>,
  added: readonly StagedFragment[],
): Operation {
  const message = new WireWriter();
  for (const [id, change] of deletions) if (change === 'all rows') message.number(1, id);
  for (const bytes of updated.values()) message.bytes(2, bytes);
  for (const { bytes } of added) message.bytes(3, bytes);
  return { field: 108, message };
}

function rewriteOf(groups: readonly MovedGroup[], { fragments }: Draft, added: readonly StagedFragment[]): Operation {
  const message = new WireWriter();
  for (const { before, after } of groups) {
    const group = new WireWriter();
    for (const { id, bytes } of fragments) if (before.includes(id)) group.bytes(1, bytes);
    const ids = new Set(after.map(({ id }) => id));
    for (const { id, stagedId, bytes } of added) if (ids.has(stagedId)) group.bytes(2, withId(id, bytes));
    message.message(3, group);
  }
  return { field: 104, message };
}

function transactionOf(readVersion: number, id: string, { field, message }: Operation): Buffer {
  const transaction = new WireWriter();
  transaction.number(1, readVersion);
  transaction.text(2, id);
  transaction.message(field, message);
  return transaction.finish();
}
