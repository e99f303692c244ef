/**
 * The manifest and the transaction of a commit that replaces rows: some are marked as deleted in their fragments, others
 * come in new ones. It is what the engine writes for an update (Lance's format, "Transactions", operation Update;
 * `protos/table.proto`, `protos/transaction.proto`), made from the manifest before it.
 *
 * Not a writer of the format in general: what this commit does not change is copied field by field, also what is not known
 * here, and a manifest that asks its writers for anything beyond deletion files, a table configuration and base paths is
 * refused (`NotReplaceable`), as the specification wants it. Pure; whoever calls it puts the files in place.
 */
import { type DataFields, readDataFields } from './data-fields.ts';
import { MalformedFile, WireReader } from './wire-reader.ts';
import { WireWriter } from './wire-writer.ts';

/** The rows of this table are for the engine alone to replace. `message` says why. */
export class NotReplaceable extends Error {
  override readonly name = 'NotReplaceable';
}

/** A fragment's new list of deleted rows. */
export interface DeletionFile {
  readonly readVersion: number;
  readonly id: bigint;
  readonly deletedRows: number;
}

export interface Replacement {
  /** By fragments: those whose rows are all deleted go. */
  readonly deletions: ReadonlyMap<number, DeletionFile | 'all rows'>;
  /** The manifest of a dataset that has the new rows and nothing else; their files are to be in this dataset's folder. */
  readonly staged: Buffer;
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

/** Bits of `reader_feature_flags` and `writer_feature_flags`. */
const flag = { deletionFiles: 1, oldV2: 4, config: 8, basePaths: 16 } as const;
const knownFlags = flag.deletionFiles | flag.oldV2 | flag.config | flag.basePaths;

/** Field numbers of `Manifest`. */
const of = {
  field: 1,
  fragment: 2,
  version: 3,
  auxiliaryData: 4,
  indexSection: 6,
  timestamp: 7,
  tag: 8,
  readerFlags: 9,
  writerFlags: 10,
  maxFragmentId: 11,
  transactionFile: 12,
  dataFormat: 15,
  transactionSection: 21,
} as const;

export function nextManifest(current: Buffer, replacement: Replacement): NextManifest {
  const before = readDraft(current);
  const staged = readDraft(replacement.staged);
  expectSameShape(before, staged);
  const fragments = stagedFragments(staged, before.maxFragmentId + 1);
  const updated = updatedFragments(before, replacement);
  const transaction = transactionOf(before.version, replacement, updated, fragments);
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
  const deletes = updated.size > 0 ? flag.deletionFiles : 0;
  writeUnlessZero(message, of.readerFlags, before.readerFlags | deletes);
  writeUnlessZero(message, of.writerFlags, before.writerFlags | deletes);
  message.number(of.maxFragmentId, before.maxFragmentId + fragments.length);
  message.text(of.transactionFile, transactionFile);
  const bytes = manifestFile(current, before.indexSection, transaction, message);
  return { version, bytes, transaction, transactionFile, fragments: fragments.map(({ id, rows }) => ({ id, rows })) };
}

/** Sections first, each behind its length, then the message, then its position and the format's version and mark. */
function manifestFile(
  current: Buffer,
  indexSection: Uint8Array | undefined,
  transaction: Buffer,
  message: WireWriter,
): Buffer {
  const parts: Uint8Array[] = [];
  let at = 0;
  const add = (section: Uint8Array): number => {
    const start = at;
    parts.push(littleEndian(section.length), section);
    at += 4 + section.length;
    return start;
  };
  if (indexSection !== undefined) message.number(of.indexSection, add(indexSection));
  message.number(of.transactionSection, add(transaction));
  const position = Buffer.alloc(8);
  position.writeBigUInt64LE(BigInt(add(message.finish())));
  return Buffer.concat([...parts, position, current.subarray(current.length - 8)]);
}

function littleEndian(length: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(length);
  return bytes;
}

interface DraftFragment {
  readonly id: number;
  readonly rows: number;
  readonly bytes: Uint8Array;
}

/** A manifest taken apart into what a commit replaces and what it keeps. */
interface Draft {
  readonly version: number;
  readonly fields: DataFields;
  readonly fragments: readonly DraftFragment[];
  readonly kept: readonly Uint8Array[];
  readonly readerFlags: number;
  readonly writerFlags: number;
  /** −1 where there never was a fragment. */
  readonly maxFragmentId: number;
  readonly dataFormat: string;
  readonly indexSection: Uint8Array | undefined;
}

const sectionAt = (file: Buffer, at: number): Uint8Array => file.subarray(at + 4, at + 4 + file.readUInt32LE(at));

function readDraft(file: Buffer): Draft {
  const reader = new WireReader(sectionAt(file, Number(file.readBigUInt64LE(file.length - 16))));
  const fields: Uint8Array[] = [];
  const fragments: DraftFragment[] = [];
  const kept: Uint8Array[] = [];
  let version = 0;
  let readerFlags = 0;
  let writerFlags = 0;
  let maxFragmentId: number | undefined;
  let dataFormat = '';
  let indexSection: Uint8Array | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === of.fragment) fragments.push(readFragment(reader.bytes()));
    else if (field === of.version) version = reader.number();
    else if (field === of.readerFlags) readerFlags = reader.number();
    else if (field === of.writerFlags) writerFlags = reader.number();
    else if (field === of.maxFragmentId) maxFragmentId = reader.number();
    else if (field === of.indexSection) indexSection = sectionAt(file, reader.number());
    else if (isOfOneVersion(field)) reader.skip();
    else {
      const raw = reader.raw();
      kept.push(raw);
      if (field === of.field) fields.push(raw);
      if (field === of.dataFormat) dataFormat = Buffer.from(raw).toString('latin1');
    }
  }
  const largestId = fragments.reduce((largest, { id }) => Math.max(largest, id), -1);
  return {
    ...{ version, fragments, kept, readerFlags, writerFlags, dataFormat, indexSection },
    fields: readDataFields(fields),
    maxFragmentId: Math.max(maxFragmentId ?? -1, largestId),
  };
}

const isOfOneVersion = (field: number): boolean =>
  field === of.auxiliaryData ||
  field === of.timestamp ||
  field === of.tag ||
  field === of.transactionFile ||
  field === of.transactionSection;

/** Field numbers of `DataFragment`. */
const fragmentField = { id: 1, file: 2, deletionFile: 3, physicalRows: 4 } as const;

/** Of what a fragment can have besides: identifiers of rows, versions of rows, overlays. */
function readFragment(bytes: Uint8Array): DraftFragment {
  const reader = new WireReader(bytes);
  let id = 0;
  let rows = 0;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === fragmentField.id) id = reader.number();
    else if (field === fragmentField.physicalRows) rows = reader.number();
    else if (field === fragmentField.file || field === fragmentField.deletionFile) reader.skip();
    else throw new NotReplaceable(`a fragment has field ${field}`);
  }
  return { id, rows, bytes };
}

/** The new file is as its own dataset describes it: that has to be true here as well. */
function expectSameShape(target: Draft, staged: Draft): void {
  const flags = target.readerFlags | target.writerFlags | staged.readerFlags | staged.writerFlags;
  if ((flags & ~knownFlags) !== 0) throw new NotReplaceable(`the manifest has feature flags ${flags}`);
  if (target.dataFormat !== staged.dataFormat) throw new NotReplaceable('the table has files of another version');
  if (!staged.fields.fitInto(target.fields)) throw new NotReplaceable('the source has columns of another shape');
  if (target.indexSection !== undefined && hasIndexOfTheEngine(target.indexSection)) {
    throw new NotReplaceable('an index takes part in commits');
  }
}

/** Such as the log of rows not yet merged: indexes that say how the rows of the table are to be read or changed. */
function hasIndexOfTheEngine(section: Uint8Array): boolean {
  const reader = new WireReader(section);
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field !== 1) reader.skip();
    else if (nameOfIndex(reader.message()).startsWith('__')) return true;
  }
  return false;
}

function nameOfIndex(reader: WireReader): string {
  let name = '';
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 3) name = reader.text();
    else reader.skip();
  }
  return name;
}

/** Without their ids, which the transaction does not give. */
function stagedFragments({ fragments }: Draft, firstId: number): readonly DraftFragment[] {
  return fragments.map(({ rows, bytes }, index) => {
    const kept = without(bytes, fragmentField.id);
    return { id: firstId + index, rows, bytes: kept.finish() };
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

function without(message: Uint8Array, left: number): WireWriter {
  const reader = new WireReader(message);
  const writer = new WireWriter();
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === left) reader.skip();
    else writer.raw(reader.raw());
  }
  return writer;
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

function timestamp(atMs: number): WireWriter {
  const message = new WireWriter();
  message.number(1, Math.floor(atMs / 1_000));
  message.number(2, Math.floor(atMs % 1_000) * 1_000_000);
  return message;
}

/** `Transaction` with the operation `Update`, in the mode in which whole rows are written anew. */
function transactionOf(
  readVersion: number,
  { transactionId, deletions }: Replacement,
  updated: ReadonlyMap<number, Uint8Array>,
  added: readonly DraftFragment[],
): Buffer {
  const update = new WireWriter();
  for (const [id, change] of deletions) if (change === 'all rows') update.number(1, id);
  for (const bytes of updated.values()) update.bytes(2, bytes);
  for (const { bytes } of added) update.bytes(3, bytes);
  const message = new WireWriter();
  message.number(1, readVersion);
  message.text(2, transactionId);
  message.message(108, update);
  return message.finish();
}

function writeUnlessZero(message: WireWriter, field: number, value: number): void {
  if (value !== 0) message.number(field, value);
}
