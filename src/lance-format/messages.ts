/**
 * This package reads and writes these messages of Lance's format (`table.proto`, `file.proto` and `transaction.proto` of
 * the specification). This file is the only one with field numbers. Messages within messages are `bytes`, decoded where they
 * are needed.
 */
import { bytes, flag, messageTable, packed, repeated, text, uint, uint64 } from './protobuf.ts';

export const manifest = messageTable({
  /** They are `field`s; parents come before their children. */
  fields: repeated(bytes(1)),
  fragments: repeated(bytes(2)),
  version: uint(3),
  auxiliaryData: uint(4),
  schemaMetadata: repeated(bytes(5)),
  /** The section is there in the file. */
  indexSection: uint(6),
  timestamp: bytes(7),
  tag: text(8),
  readerFlags: uint64(9),
  writerFlags: uint64(10),
  /** A dataset that never had a fragment has none. */
  maxFragmentId: uint(11),
  /** It is empty without a file. */
  transactionFile: text(12),
  writerVersion: bytes(13),
  /** A table with stable row ids has it: the first that no row has had. */
  nextRowId: uint(14),
  dataFormat: bytes(15),
  config: repeated(bytes(16)),
  basePaths: repeated(bytes(18)),
  tableMetadata: repeated(bytes(19)),
  /** Main has none. */
  branch: text(20),
  /** The section is there in the file. */
  transactionSection: uint(21),
  /** Lance 14 writes it here: it reads this one if it is there, else the other. */
  transactionSectionOfLance14: uint(23),
});

/** A map from texts to texts, or to bytes, has these. */
export const mapEntry = messageTable({ key: text(1), value: text(2) });

export const field = messageTable({
  name: text(2),
  id: uint(3),
  parentId: uint64(4),
  /** It is written so: `int64`, `fixed_size_list:float:3`. */
  logicalType: text(5),
  isNullable: flag(6),
  /** The metadata repeat it. */
  extensionName: text(9),
  metadata: repeated(bytes(10)),
  isPrimaryKey: flag(12),
  /** A column of a primary key of several has it, from 1. */
  primaryKeyPosition: uint(13),
});

/** The program that wrote the manifest is named here. */
export const writerVersion = messageTable({ library: text(1), version: text(2) });

/** All data files of a version have this format. */
export const dataFormat = messageTable({ fileFormat: text(1), version: text(2) });

export const timestamp = messageTable({ seconds: uint(1), nanoseconds: uint(2) });

export const basePath = messageTable({ id: uint(1), name: text(2), isDatasetRoot: flag(3), path: text(4) });

export const fragment = messageTable({
  id: uint(1),
  files: repeated(bytes(2)),
  deletionFile: bytes(3),
  /** Deleted ones are among them. */
  physicalRows: uint(4),
  rowIds: bytes(5),
  externalRowIds: bytes(6),
  updatedAtVersions: bytes(7),
  externalUpdatedAtVersions: bytes(8),
  createdAtVersions: bytes(9),
  externalCreatedAtVersions: bytes(10),
  overlays: repeated(bytes(11)),
});

export const dataFile = messageTable({
  path: text(1),
  /** It is 0 where the writer did not know. */
  sizeBytes: uint(6),
  baseId: uint(7),
});

/** It has the ids of the columns of a data file. It stands apart from `dataFile`, since a wide table has long lists. */
export const dataFileColumns = messageTable({ path: text(1), fieldIds: packed(2) });

export const overlay = messageTable({ file: bytes(1) });

export const deletionFile = messageTable({
  isBitmap: flag(1),
  readVersion: uint(2),
  id: uint64(3),
  deletedRows: uint(4),
  baseId: uint(7),
});

/** It says which version created, or last changed, the rows of a fragment one after the other. */
export const rowVersions = messageTable({ runs: repeated(bytes(1)) });

export const rowVersionRun = messageTable({ span: bytes(1), version: uint(2) });

/** It has the stable ids of the rows of a fragment one after the other. */
export const rowIdSequence = messageTable({ segments: repeated(bytes(1)) });

/** Exactly one of these is there. */
export const segment = messageTable({
  range: bytes(1),
  rangeWithHoles: bytes(2),
  rangeWithBitmap: bytes(3),
  sortedArray: bytes(4),
  array: bytes(5),
});

/** `rest` are the numbers that are missing, as `numberArrays`; or which ones are there, a bit for each, the lowest first. */
export const rangeSegment = messageTable({ start: uint(1), end: uint(2), rest: bytes(3) });

/** Exactly one of these is there. */
export const numberArrays = messageTable({ ofTwoBytes: bytes(1), ofFourBytes: bytes(2), ofEightBytes: bytes(3) });

/** The numbers are little-endian. Those of eight bytes have no base. */
export const numberArray = messageTable({ base: uint(1), offsets: bytes(2) });

/** Offset and size are those of a part of the file. */
export const externalFile = messageTable({ path: text(1) });

export const indexSection = messageTable({ indexes: repeated(bytes(1)) });

export const index = messageTable({
  uuid: bytes(1),
  fieldIds: packed(2),
  name: text(3),
  /** The index was built from this version of the dataset. */
  datasetVersion: uint(4),
  /** A Roaring bitmap has the ids of the fragments it covers. */
  coverage: bytes(5),
  /** What it was built with. */
  details: bytes(6),
  /** It counts milliseconds since 1970 (UTC). */
  createdAt: uint(8),
  baseId: uint(9),
  files: repeated(bytes(10)),
});

/** Any kind of index has these, under the name of its type. */
export const indexDetails = messageTable({ type: text(1), value: bytes(2) });

/** A vector index has these; the hints are a map of texts. */
export const vectorDetails = messageTable({ hints: repeated(bytes(9)) });

export const indexFile = messageTable({ path: text(1), sizeBytes: uint(2) });

export const uuid = messageTable({ bytes: bytes(1) });

/** Exactly one of the fields from 100 on is there: the operation. */
export const transaction = messageTable({
  readVersion: uint(1),
  uuid: text(2),
  properties: repeated(bytes(4)),
  append: bytes(100),
  delete: bytes(101),
  overwrite: bytes(102),
  createIndex: bytes(103),
  rewrite: bytes(104),
  merge: bytes(105),
  restore: bytes(106),
  reserveFragments: bytes(107),
  update: bytes(108),
  project: bytes(109),
  updateConfig: bytes(110),
});

export const append = messageTable({ fragments: repeated(bytes(1)) });

export const deletion = messageTable({ updatedFragments: repeated(bytes(1)), removedFragmentIds: packed(2) });

export const overwrite = messageTable({
  fragments: repeated(bytes(1)),
  fields: repeated(bytes(2)),
  schemaMetadata: repeated(bytes(3)),
});

export const createIndex = messageTable({ newIndexes: repeated(bytes(1)), removedIndexes: repeated(bytes(2)) });

export const rewrite = messageTable({ groups: repeated(bytes(3)) });

export const rewriteGroup = messageTable({ before: repeated(bytes(1)), after: repeated(bytes(2)) });

/** The specification calls it Merge: all fragments, with columns more, less or written anew. */
export const addColumns = messageTable({
  fragments: repeated(bytes(1)),
  fields: repeated(bytes(2)),
  schemaMetadata: repeated(bytes(3)),
});

export const restore = messageTable({ version: uint(1) });

export const update = messageTable({
  removedFragmentIds: packed(1),
  updatedFragments: repeated(bytes(2)),
  newFragments: repeated(bytes(3)),
  fieldsModified: packed(4),
  /** 0: the update wrote rows anew. 1: it wrote columns of rows that stay where they are. */
  mode: uint(7),
  insertedRows: bytes(8),
});

/** Changes the map of texts that the columns have together. */
export const updateConfig = messageTable({ config: bytes(6), schemaMetadata: bytes(8) });

export const mapUpdate = messageTable({
  entries: repeated(bytes(1)),
  /** The entries are the whole map; otherwise all others stay. */
  isWhole: flag(2),
});
