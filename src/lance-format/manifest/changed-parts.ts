/**
 * Finds what a version that another program proposes has otherwise than the one before it. Throws `MalformedFile` for what no version
 * has.
 */
import { dataFileColumns, dataFormat, field, fragment, index, manifest, writerVersion } from '../messages.ts';
import { type Decoded, decode, encode, MalformedFile } from '../protobuf.ts';
import { indexesIn, nameOfIndex, sectionsOf, uuidText } from './parse-manifest.ts';
import { requireIdentities, rowIdsFlag } from './row-identity.ts';
import { mostFieldId } from './stored-columns.ts';

export interface ChangedParts {
  /** The new and changed fragments: all of them where the columns or the format changed. */
  readonly fragments: readonly { readonly id: number; readonly rows: number }[];
  /** They are listed by name. */
  readonly indexes: readonly string[];
  /** The columns with a field that the version before does not have. */
  readonly columns: readonly string[];
}

export function changedParts(proposed: Buffer, head: Buffer): ChangedParts {
  const [now, before] = [sectionsOf(proposed), sectionsOf(head)];
  const [known, knownBefore] = [decode(manifest, now.message), decode(manifest, before.message)];
  requireKnownFormat(known, knownBefore);
  requireWriter(known);
  requireNames(known.fields ?? []);
  requireRowIds(known.fragments ?? []);
  const areColumnsSame = formOf(known) === formOf(knownBefore);
  const fragments = areColumnsSame ? others(known.fragments, knownBefore.fragments) : (known.fragments ?? []);
  const indexes = others(indexesIn(now.indexes), areColumnsSame ? indexesIn(before.indexes) : []);
  const ids = new Set((known.fields ?? []).map((each) => decode(field, each, ['id']).id ?? 0));
  if (((known.readerFlags ?? 0n) & rowIdsFlag) !== 0n) requireRowIdentities(known, fragments, knownBefore);
  for (const each of indexes) requireUsualIndex(each, ids);
  requireIndexesOnce(indexesIn(now.indexes));
  for (const each of fragments) requireColumnsOnce(each);
  return {
    fragments: fragments.map((each) => {
      const { id = 0, physicalRows: rows = 0 } = decode(fragment, each, ['id', 'physicalRows']);
      return { id, rows };
    }),
    indexes: [...new Set(indexes.map(nameOfIndex))],
    columns: areColumnsSame ? [] : columnsWith(others(known.fields, knownBefore.fields), known.fields ?? []),
  };
}

/** Names the columns that have these fields in them. A field stands behind the one that holds it. */
function columnsWith(changed: readonly Uint8Array[], all: readonly Uint8Array[]): readonly string[] {
  const names = new Map<bigint, string>();
  const found = new Set<string>();
  const isChanged = new Set(changed);
  for (const each of all) {
    const { name = '', id = 0, parentId = 0n } = decode(field, each, ['name', 'id', 'parentId']);
    const column = names.get(parentId) ?? name;
    names.set(BigInt(id), column);
    if (isChanged.has(each)) found.add(column);
  }
  return [...found];
}

const formOf = ({ fields = [], dataFormat: format = Buffer.of() }: Decoded<typeof manifest>): string =>
  [...fields, format].map(textOf).join();

function others(now: readonly Uint8Array[] = [], before: readonly Uint8Array[] = []): readonly Uint8Array[] {
  const known = new Set(before.map(textOf));
  return now.filter((each) => !known.has(textOf(each)));
}

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');

/** `@lancedb/lancedb` 0.39.0 knows these. */
const knownVersions = ['0.1', '2.0', '2.1', '2.2'];

function requireKnownFormat(now: Decoded<typeof manifest>, before: Decoded<typeof manifest>): void {
  if (textOf(now.dataFormat ?? Buffer.of()) === textOf(before.dataFormat ?? Buffer.of())) return;
  const written = textOf(now.dataFormat ?? Buffer.of());
  if (knownVersions.some((version) => written === textOf(encode(dataFormat, { fileFormat: 'lance', version })))) return;
  throw new MalformedFile('its storage version is not known here');
}

/** The engine panics on any other, or none, when it writes the next version. */
function requireWriter(now: Decoded<typeof manifest>): void {
  const { version = '' } = now.writerVersion === undefined ? {} : decode(writerVersion, now.writerVersion);
  if (!/^\d{1,9}\.\d{1,9}\.\d{1,9}(?:[+-][\w.+-]{1,100})?$/.test(version))
    throw new MalformedFile('the version of its writer is none');
}

/**
 * A column without a name, or a field of a struct, has no path. The elements of a list need none. A column of numbers with one in it is
 * read, and then the engine takes no row for it.
 */
function requireNames(fields: readonly Uint8Array[]): void {
  const types = new Map<bigint, string>();
  for (const each of fields) {
    const { name = '', id = 0, parentId = 0n, logicalType = '' } = decode(field, each);
    const above = types.get(parentId) ?? 'struct';
    types.set(BigInt(id), logicalType);
    if (!/struct|list|map|blob/.test(above)) throw new MalformedFile(`a column is in one of type ${above}`);
    if (name === '' && above === 'struct') throw new MalformedFile('a column without a name');
  }
}

/** If some rows have identifiers besides their addresses, all have. */
function requireRowIds(fragments: readonly Uint8Array[]): void {
  const known = fragments.map((each) => decode(fragment, each, ['id', 'rowIds', 'externalRowIds']));
  const without = known.filter(({ rowIds, externalRowIds }) => (rowIds ?? externalRowIds) === undefined);
  if (without.length === 0 || without.length === known.length) return;
  throw new MalformedFile(`fragment ${without[0]?.id ?? 0} has no identifiers of rows, and others have`);
}

function requireRowIdentities(
  { nextRowId = 0 }: Decoded<typeof manifest>,
  changed: readonly Uint8Array[],
  before: Decoded<typeof manifest>,
): void {
  if (nextRowId < (before.nextRowId ?? 0)) throw new MalformedFile('it would give ids of rows again');
  for (const each of changed) requireIdentities(each, nextRowId);
}

/** What a file holds of dropped columns, and of those that a later file holds, is marked or stays; no two hold one column. */
function requireColumnsOnce(encoded: Uint8Array): void {
  const { id = 0, files = [] } = decode(fragment, encoded, ['id', 'files']);
  if (files.length < 2) return;
  const seen = new Set<number>();
  for (const each of files) {
    for (const column of decode(dataFileColumns, each).fieldIds?.flat() ?? []) {
      if (seen.has(column)) throw new MalformedFile(`two files of fragment ${id} hold column ${column}`);
      if (column <= mostFieldId) seen.add(column);
    }
  }
}

/** Compaction leaves it for the indexes of a table: it covers no rows. */
const ofCompaction = '__lance_frag_reuse';

function requireUsualIndex(encoded: Uint8Array, columns: ReadonlySet<number>): void {
  const { name = '', uuid, fieldIds = [], coverage, details } = decode(index, encoded);
  // Every UUID has so many characters.
  if (uuidText(uuid).length !== 36) throw new MalformedFile('an index without an identifier');
  if (name === ofCompaction) return;
  const ids = fieldIds.flat();
  if (name === '' || ids.length === 0 || !ids.every((id) => columns.has(id))) {
    throw new MalformedFile('an index without a name or of no column');
  }
  if (coverage === undefined || details === undefined) {
    throw new MalformedFile(`the index ${name} does not say what it covers and how it was made`);
  }
}

/** An index of several parts has one name, and each part an identifier of its own. */
function requireIndexesOnce(indexes: readonly Uint8Array[]): void {
  const identifiers = new Set(indexes.map((each) => uuidText(decode(index, each, ['uuid']).uuid)));
  if (identifiers.size < indexes.length) throw new MalformedFile('two indexes have one identifier');
}
