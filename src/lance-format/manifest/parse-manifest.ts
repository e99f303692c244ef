/**
 * What a manifest of Lance says about the files of its version. Not a reader of the format: of some fifty fields it takes
 * those that name files or say what an index covers (Lance's `protos/table.proto`; the field numbers below are from there),
 * and it is the only way to know which files a version needs, since the engine does not tell. Anything that does not fit its
 * bounds is `MalformedFile`.
 */
import type { FragmentFacts } from '../../engine/port/engine.ts';
import { MalformedFile, WireReader } from '../wire-reader.ts';
import { messageOf, section } from './manifest-sections.ts';

export type FileKind = 'data' | 'deletions' | 'transaction' | 'index' | 'rowIds';

/** A file of the dataset, under the root of `baseId` or, without one, of the branch that the manifest belongs to. */
export interface FileReference {
  readonly kind: FileKind;
  readonly path: string;
  readonly baseId: number | undefined;
  /** undefined where the manifest does not say. */
  readonly sizeBytes: number | undefined;
}

export interface Base {
  readonly path: string;
  /** False: files lie directly in it, not in the folders a dataset has. */
  readonly isDatasetRoot: boolean;
}

export interface StoredFragment extends FragmentFacts {
  /** No other fragment of the dataset ever has the same, compaction included. */
  readonly id: number;
  /** Which of its rows are deleted; undefined if none is. */
  readonly deletions: FileReference | undefined;
  /** Tells one list of deleted rows from another. */
  readonly deletionsId: bigint | undefined;
  /** Its rows have identifiers of their own, and are not known by their addresses. */
  readonly hasRowIds: boolean;
}

export interface StoredIndex {
  /** Of the columns it is on. */
  readonly fieldIds: readonly number[];
  /** The fragments it covers, by their ids, as a Roaring bitmap; undefined where the manifest does not say. */
  readonly coverage: Buffer | undefined;
  /** 0 where the manifest does not say. */
  readonly bytes: number;
}

export interface Manifest {
  readonly version: number;
  readonly committedAtMs: number;
  readonly featureFlags: bigint;
  /** The ids of top-level columns by name. */
  readonly fieldIds: ReadonlyMap<string, number>;
  readonly fragments: readonly StoredFragment[];
  readonly indexes: readonly StoredIndex[];
  readonly files: readonly FileReference[];
  /** Folders of indexes whose files the manifest does not list (written by earlier releases of Lance). */
  readonly indexFolders: readonly FileReference[];
  /** The content of the transaction file, where the manifest repeats it. */
  readonly transaction: Uint8Array | undefined;
  readonly bases: ReadonlyMap<number, Base>;
}

export function parseManifest(file: Buffer): Manifest {
  const { indexSection, transactionSection, files, ...rest } = readMessage(new WireReader(messageOf(file)));
  const indexes = indexSection === undefined ? [] : readIndexSection(new WireReader(section(file, indexSection)));
  return {
    ...rest,
    indexes,
    files: [...files, ...indexes.flatMap((index) => index.files)],
    indexFolders: indexes.filter((index) => index.files.length === 0).map((index) => index.folder),
    transaction: transactionSection === undefined ? undefined : section(file, transactionSection),
  };
}

interface Message extends Omit<Manifest, 'indexes' | 'indexFolders' | 'transaction'> {
  readonly indexSection: number | undefined;
  readonly transactionSection: number | undefined;
}

function readMessage(reader: WireReader): Message {
  const files: FileReference[] = [];
  const fragments: StoredFragment[] = [];
  const bases = new Map<number, Base>();
  const fieldIds = new Map<string, number>();
  let version = 0;
  let committedAtMs = 0;
  let featureFlags = 0n;
  let indexSection: number | undefined;
  let transactionSection: number | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) addField(reader.message(), fieldIds);
    else if (field === 2) fragments.push(readFragment(reader.message(), files));
    else if (field === 3) version = reader.number();
    else if (field === 6) indexSection = reader.number();
    else if (field === 7) committedAtMs = readTimestampMs(reader.message());
    else if (field === 9 || field === 10) featureFlags |= reader.uint64();
    else if (field === 12) addTransaction(reader.text(), files);
    else if (field === 18) addBase(reader.message(), bases);
    else if (field === 21) transactionSection = reader.number();
    else reader.skip();
  }
  return { version, committedAtMs, featureFlags, fieldIds, fragments, files, bases, indexSection, transactionSection };
}

const noParent = 2n ** 64n - 1n;

function addField(reader: WireReader, fieldIds: Map<string, number>): void {
  let name = '';
  let id = 0;
  let parent = 0n;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 2) name = reader.text();
    else if (field === 3) id = reader.number();
    else if (field === 4) parent = reader.uint64();
    else reader.skip();
  }
  if (parent === noParent) fieldIds.set(name, id);
}

/** Whole milliseconds, rounded down. */
function readTimestampMs(reader: WireReader): number {
  let ms = 0;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) ms += reader.number() * 1_000;
    else if (field === 2) ms += Math.floor(reader.number() / 1_000_000);
    else reader.skip();
  }
  return ms;
}

function addTransaction(path: string, files: FileReference[]): void {
  if (path !== '') files.push({ kind: 'transaction', path, baseId: undefined, sizeBytes: undefined });
}

function addBase(reader: WireReader, bases: Map<number, Base>): void {
  let id = 0;
  let isDatasetRoot = false;
  let path = '';
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) id = reader.number();
    else if (field === 3) isDatasetRoot = reader.flag();
    else if (field === 4) path = reader.text();
    else reader.skip();
  }
  bases.set(id, { path, isDatasetRoot });
}

function readFragment(reader: WireReader, files: FileReference[]): StoredFragment {
  let id = 0;
  let rows = 0;
  let hasRowIds = false;
  let deletions: WireReader | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 5 || field === 6) hasRowIds = true;
    if (field === 1) id = reader.number();
    else if (field === 2) files.push(readDataFile(reader.message()));
    else if (field === 3) deletions = reader.message();
    else if (field === 4) rows = reader.number();
    else if (field === 6 || field === 8 || field === 10) files.push(readExternalFile(reader.message()));
    else if (field === 11) readOverlay(reader.message(), files);
    else reader.skip();
  }
  if (deletions === undefined) return { id, rows, deletedRows: 0, deletions, deletionsId: undefined, hasRowIds };
  const { deletedRows, deletionsId, ...file } = readDeletionFile(deletions, id);
  files.push(file);
  return { id, rows, deletedRows, deletions: file, deletionsId, hasRowIds };
}

function readOverlay(reader: WireReader, files: FileReference[]): void {
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) files.push(readDataFile(reader.message()));
    else reader.skip();
  }
}

function readDataFile(reader: WireReader): FileReference {
  let path = '';
  let sizeBytes = 0;
  let baseId: number | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) path = reader.text();
    else if (field === 6) sizeBytes = reader.number();
    else if (field === 7) baseId = reader.number();
    else reader.skip();
  }
  return { kind: 'data', path, baseId, sizeBytes: sizeBytes === 0 ? undefined : sizeBytes };
}

interface StoredDeletions extends FileReference {
  readonly deletedRows: number;
  readonly deletionsId: bigint;
}

function readDeletionFile(reader: WireReader, fragment: number): StoredDeletions {
  let extension = 'arrow';
  let readVersion = 0;
  let id = 0n;
  let deletedRows = 0;
  let baseId: number | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) extension = reader.flag() ? 'bin' : 'arrow';
    else if (field === 2) readVersion = reader.number();
    else if (field === 3) id = reader.uint64();
    else if (field === 4) deletedRows = reader.number();
    else if (field === 7) baseId = reader.number();
    else reader.skip();
  }
  const path = `${fragment}-${readVersion}-${id}.${extension}`;
  return { kind: 'deletions', path, baseId, sizeBytes: undefined, deletedRows, deletionsId: id };
}

/** Its offset and size are of a part of the file. */
function readExternalFile(reader: WireReader): FileReference {
  let path = '';
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) path = reader.text();
    else reader.skip();
  }
  return { kind: 'rowIds', path, baseId: undefined, sizeBytes: undefined };
}

interface IndexReference extends StoredIndex {
  readonly folder: FileReference;
  readonly files: readonly FileReference[];
}

function readIndexSection(reader: WireReader): readonly IndexReference[] {
  const indexes: IndexReference[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) indexes.push(readIndex(reader.message()));
    else reader.skip();
  }
  return indexes;
}

function readIndex(reader: WireReader): IndexReference {
  let uuid = '';
  let baseId: number | undefined;
  let coverage: Buffer | undefined;
  const fieldIds: number[] = [];
  const listed: { readonly path: string; readonly sizeBytes: number }[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) uuid = readUuid(reader.message());
    else if (field === 2) fieldIds.push(...reader.numbers());
    else if (field === 5) coverage = Buffer.from(reader.bytes());
    else if (field === 9) baseId = reader.number();
    else if (field === 10) listed.push(readIndexFile(reader.message()));
    else reader.skip();
  }
  return {
    fieldIds,
    coverage,
    bytes: listed.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    folder: { kind: 'index', path: uuid, baseId, sizeBytes: undefined },
    files: listed.map(({ path, sizeBytes }) => ({ kind: 'index', path: `${uuid}/${path}`, baseId, sizeBytes })),
  };
}

function readUuid(reader: WireReader): string {
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field !== 1) reader.skip();
    else
      return Buffer.from(reader.bytes())
        .toString('hex')
        .replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  }
  throw new MalformedFile('an index without an identifier');
}

function readIndexFile(reader: WireReader): { path: string; sizeBytes: number } {
  let path = '';
  let sizeBytes = 0;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) path = reader.text();
    else if (field === 2) sizeBytes = reader.number();
    else reader.skip();
  }
  return { path, sizeBytes };
}
