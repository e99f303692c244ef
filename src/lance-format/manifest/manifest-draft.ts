/**
 * A manifest taken apart into what a commit replaces and what it keeps, and put together again (Lance's
 * `protos/table.proto`). What is not known here is kept as it stands; what would change the meaning of the rest is refused
 * (`NotReplaceable`).
 */

import { WireReader } from '../wire-reader.ts';
import { WireWriter } from '../wire-writer.ts';
import { type DataFields, readDataFields } from './data-fields.ts';
import { messageOf, section } from './manifest-sections.ts';

/** The rows of this table are for the engine alone to replace. `message` says why. */
export class NotReplaceable extends Error {
  override readonly name = 'NotReplaceable';
}

/** Bits of `reader_feature_flags` and `writer_feature_flags`. */
export const flag = { deletionFiles: 1, oldV2: 4, config: 8, basePaths: 16 } as const;
const knownFlags = flag.deletionFiles | flag.oldV2 | flag.config | flag.basePaths;

/** Flags are 64 bits, of which JavaScript's operators see 32. */
export const areFlagsKnown = (flags: number): boolean => flags <= knownFlags && (flags & ~knownFlags) === 0;

/** Field numbers of `Manifest`. */
export const manifestField = {
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
  basePath: 18,
  branch: 20,
  transactionSection: 21,
} as const;

export interface DraftFragment {
  readonly id: number;
  readonly rows: number;
  readonly bytes: Uint8Array;
}

/** A manifest taken apart into what a commit replaces and what it keeps. */
export interface Draft {
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

export function readDraft(file: Buffer): Draft {
  const reader = new WireReader(messageOf(file));
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
    if (field === manifestField.fragment) fragments.push(readFragment(reader.bytes()));
    else if (field === manifestField.version) version = reader.number();
    else if (field === manifestField.readerFlags) readerFlags = reader.number();
    else if (field === manifestField.writerFlags) writerFlags = reader.number();
    else if (field === manifestField.maxFragmentId) maxFragmentId = reader.number();
    else if (field === manifestField.indexSection) indexSection = section(file, reader.number());
    else if (isOfOneVersion(field)) reader.skip();
    else {
      const raw = reader.raw();
      kept.push(raw);
      if (field === manifestField.field) fields.push(raw);
      if (field === manifestField.dataFormat) dataFormat = Buffer.from(raw).toString('latin1');
    }
  }
  const largestId = fragments.reduce((largest, { id }) => Math.max(largest, id), -1);
  return {
    ...{ version, fragments, kept, readerFlags, writerFlags, dataFormat, indexSection },
    fields: withoutBlobs(readDataFields(fields)),
    maxFragmentId: Math.max(maxFragmentId ?? -1, largestId),
  };
}

function withoutBlobs(fields: DataFields): DataFields {
  if (fields.holdBlobs) throw new NotReplaceable('a column holds blobs');
  return fields;
}

const isOfOneVersion = (field: number): boolean =>
  field === manifestField.auxiliaryData ||
  field === manifestField.timestamp ||
  field === manifestField.tag ||
  field === manifestField.transactionFile ||
  field === manifestField.transactionSection;

/** Field numbers of `DataFragment`. */
export const fragmentField = { id: 1, file: 2, deletionFile: 3, physicalRows: 4 } as const;

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

/** Sections first, each behind its length, then the message, then its position and the format's version and mark. */
export function manifestFile(
  current: Buffer,
  indexSection: Uint8Array | undefined,
  transaction: Uint8Array | undefined,
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
  if (indexSection !== undefined) message.number(manifestField.indexSection, add(indexSection));
  if (transaction !== undefined) message.number(manifestField.transactionSection, add(transaction));
  const position = Buffer.alloc(8);
  position.writeBigUInt64LE(BigInt(add(message.finish())));
  return Buffer.concat([...parts, position, current.subarray(current.length - 8)]);
}

function littleEndian(length: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(length);
  return bytes;
}

export function without(message: Uint8Array, left: number): WireWriter {
  const reader = new WireReader(message);
  const writer = new WireWriter();
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === left) reader.skip();
    else writer.raw(reader.raw());
  }
  return writer;
}

export function timestamp(atMs: number): WireWriter {
  const message = new WireWriter();
  message.number(1, Math.floor(atMs / 1_000));
  message.number(2, Math.floor(atMs % 1_000) * 1_000_000);
  return message;
}

export function writeUnlessZero(message: WireWriter, field: number, value: number): void {
  if (value !== 0) message.number(field, value);
}
