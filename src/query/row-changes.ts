/**
 * The rows that differ between two versions, as one result: first the keys of those that are gone, then the rows that are new or were
 * updated. The service knows where they are stored; this code, in a reader, reads their keys to find which of them have the same one.
 *
 * Memory does not grow with the rows: keys of removed rows are compared a part at a time, and a bit is kept for each row.
 */
import { randomBytes } from 'node:crypto';
import { RowPlaces } from '../arrow/column/batch-plan.ts';
import { bitAt, type ColumnData, readColumns, setBit, wordsOf } from '../arrow/column/column-data.ts';
import type { IpcFile } from '../arrow/format/ipc-file.ts';
import { changeColumn, changesFile, versionColumn } from '../arrow/schema/changes-schema.ts';
import { type FieldPath, formatFieldPath, quoteSegment, resolveField } from '../arrow/schema/field-path.ts';
import { readSchemaOfIpcFile } from '../arrow/schema/read-schema.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import { sameType } from '../arrow/schema/schema-rules.ts';
import { assembleRows, type ColumnOrigin } from '../arrow/stream/assembled-rows.ts';
import { canEncode, EncodedColumns } from '../arrow/stream/encoded-columns.ts';
import { chunkOfFile } from '../arrow/stream/ipc-chunks.ts';
import type { Snapshot } from '../engine/port/dataset.ts';
import type { Projection } from '../engine/port/merge-spec.ts';
import { addressOf, type RowAddressSql, rowAddress } from '../engine/port/row-address.ts';
import { ownSql } from '../kernel/checked-sql.ts';
import { invalidInput, LancegateError } from '../kernel/errors.ts';
import { pairedInEach } from '../kernel/paired.ts';
import { readKeys } from '../keys/key-columns.ts';
import { KeyHasher } from '../keys/key-hasher.ts';
import { KeyTable } from '../keys/key-table.ts';

/** Rows of one fragment: the first `count`, or so many offsets of the message. */
export interface ListedRows {
  readonly fragment: number;
  readonly count: number;
  readonly isListed: boolean;
  /** The commit that brought them; of removed rows the version that is read. */
  readonly version: number;
}

/** What is asked; the offsets of listed rows, four bytes each, are the bytes of the message, in this order. */
export interface ChangesSpec {
  /** 0 is before all versions. */
  readonly after: number;
  /** Top-level columns; undefined is all. */
  readonly columns: readonly string[] | undefined;
  /** What tells rows apart; undefined is the primary key that the table declares. */
  readonly on: readonly FieldPath[] | undefined;
  readonly removed: readonly ListedRows[];
  readonly added: readonly ListedRows[];
}

/** A key takes some 40 bytes, so the keys that are compared at once take 40 MiB. */
const mostKeysAtOnce = 2 ** 20;

/** `earlier` is needed where rows were removed. */
export async function* changedRows(
  later: Snapshot,
  earlier: Snapshot | undefined,
  spec: ChangesSpec,
  sent: Buffer,
  keysAtOnce = mostKeysAtOnce,
): AsyncGenerator<IpcFile, void, void> {
  const on = keyOf(spec, await later.schema());
  const keyColumns = [...new Set(on.map(({ segments: [column = ''] }) => column))];
  const answer = await answerOf(later, spec.columns, keyColumns);
  const listedInRemoved = countOf(spec.removed.filter(({ isListed }) => isListed));
  const removed = new RowList(spec.removed, offsetsIn(sent.subarray(0, 4 * listedInRemoved)));
  const added = new RowList(spec.added, offsetsIn(sent.subarray(4 * listedInRemoved)));
  const isUpdated = new Uint8Array(Math.ceil(added.count / 8));
  const isReplaced = new Uint8Array(Math.ceil(removed.count / 8));
  if (earlier !== undefined && removed.count > 0) {
    await requireSameKeys(earlier, answer.schema, on);
    await compareKeys({ earlier, later, on, keyColumns, removed, added, isUpdated, isReplaced, keysAtOnce });
    const isGone = (ordinal: number) => !bitAt(isReplaced, ordinal);
    for await (const { rows, read } of taken(earlier, removed, keyColumns, isGone))
      yield answer.file(read, rows, () => 'delete');
  }
  const columns = answer.schema.fields.map(({ name }) => name);
  const changeOf = (ordinal: number) => (bitAt(isUpdated, ordinal) ? 'update' : 'insert');
  for await (const { rows, read } of taken(later, added, columns, () => true)) yield answer.file(read, rows, changeOf);
  yield answer.empty;
}

/** The later version has all of its columns. Without an earlier version, rows need no key. */
function keyOf({ on: given, after }: ChangesSpec, schema: Schema): readonly FieldPath[] {
  const on = given ?? primaryKeyOf(schema);
  if (on.length === 0 && after > 0)
    throw invalidInput(
      'on: name the columns that tell rows apart, those that merges are on; the table declares no primary key',
    );
  for (const path of on)
    if (resolveField(schema, path) === undefined)
      throw new LancegateError('TableColumnNotFound', `on: the table has no column ${formatFieldPath(path)}`);
  return on;
}

const keyMetadata = 'lance-schema:unenforced-primary-key';

/** Lance's metadata of columns say it. */
function primaryKeyOf({ fields }: Schema): readonly FieldPath[] {
  const positionOf = ({ metadata }: Schema['fields'][number]): number => {
    const isKey = metadata.get(keyMetadata)?.toLowerCase() === 'true';
    return Number(metadata.get(`${keyMetadata}:position`) ?? Number(isKey));
  };
  return fields
    .filter((field) => positionOf(field) > 0)
    .sort((a, b) => positionOf(a) - positionOf(b))
    .map(({ name }) => ({ segments: [name] }));
}

const countOf = (rows: readonly { readonly count: number }[]): number =>
  rows.reduce((sum, { count }) => sum + count, 0);

/** The bytes of a message need not be aligned. */
const offsetsIn = (bytes: Buffer): Uint32Array => new Uint32Array(Uint8Array.from(bytes).buffer);

interface ListedRow {
  readonly ordinal: number;
  readonly address: RowAddressSql;
  readonly version: number;
}

/** Rows by their ordinals. */
class RowList {
  readonly count: number;
  readonly #rows: readonly ListedRows[];
  readonly #offsets: Uint32Array;

  constructor(rows: readonly ListedRows[], offsets: Uint32Array) {
    this.count = countOf(rows);
    this.#rows = rows;
    this.#offsets = offsets;
  }

  *parts(size: PartSize, isWanted: (ordinal: number) => boolean): Generator<readonly ListedRow[], void, void> {
    let part: ListedRow[] = [];
    let [ordinal, listed] = [0, 0];
    for (const { fragment, count, isListed, version } of this.#rows) {
      for (let row = 0; row < count; row += 1, ordinal += 1) {
        const offset = isListed ? (this.#offsets[listed++] ?? 0) : row;
        if (!isWanted(ordinal)) continue;
        part.push({ ordinal, address: addressOf({ fragment, offset }), version });
        if (part.length < size.rows) continue;
        yield part;
        part = [];
      }
    }
    if (part.length > 0) yield part;
  }
}

const projected = (columns: readonly string[]): readonly Projection[] => [
  ...columns.map((name) => ({ name, expression: ownSql(quoteSegment(name)) })),
  { name: rowAddress, expression: ownSql(rowAddress) },
];

interface TakenRows {
  readonly chunks: readonly IpcChunk[];
  /** They were read with these columns, and the addresses behind them. */
  readonly columns: readonly string[];
}

const mostRowsAtOnce = 8_192;
const bytesAtOnce = 8 * 2 ** 20;

/** How many rows are read at once: so many as take `bytesAtOnce` if they are like those before, since a text may be of any length (P7). */
class PartSize {
  rows = 16;

  learn(rows: number, bytes: number): void {
    const fitting = Math.floor((bytesAtOnce * rows) / bytes);
    this.rows = Math.max(1, Math.min(fitting, 4 * this.rows, mostRowsAtOnce));
  }
}

/** Reads these columns of the rows, a part at a time. */
async function* taken(
  from: Snapshot,
  list: RowList,
  columns: readonly string[],
  isWanted: (ordinal: number) => boolean,
): AsyncGenerator<{ readonly rows: readonly ListedRow[]; readonly read: TakenRows }, void, void> {
  const size = new PartSize();
  for (const rows of list.parts(size, isWanted)) {
    const addresses = rows.map(({ address }) => address);
    const files = await Array.fromAsync(from.take(addresses, projected(columns)));
    size.learn(
      rows.length,
      files.reduce((sum, { length }) => sum + length, 0),
    );
    yield { rows, read: { chunks: files.map(chunkOfFile), columns } };
  }
}

/** The columns of an answer, all of which may be NULL. */
async function answerOf(later: Snapshot, wanted: readonly string[] | undefined, keyColumns: readonly string[]) {
  const { fields } = await later.schema();
  const names = new Set(fields.map(({ name }) => name));
  for (const name of wanted ?? []) {
    if (names.has(name)) continue;
    const column = formatFieldPath({ segments: [name] });
    throw new LancegateError('TableColumnNotFound', `columns: the table has no column ${column}`);
  }
  const isWanted = (name: string) => wanted === undefined || wanted.includes(name) || keyColumns.includes(name);
  const columns = new Set([...names].filter(isWanted));
  for (const name of [changeColumn, versionColumn]) {
    if (columns.has(name)) throw invalidInput(`columns: the table has a column ${name} too: name the others`);
  }
  const [read] = await Array.fromAsync(later.select(projected([...columns]).slice(0, -1), ownSql('false')));
  if (read === undefined) throw new LancegateError('Internal', 'a result without a schema');
  return new ChangesAnswer(read, columns);
}

type RowChange = 'insert' | 'update' | 'delete';
const changes: readonly RowChange[] = ['insert', 'update', 'delete'];
const changeTexts: ColumnData = {
  length: changes.length,
  validity: undefined,
  bytes: Buffer.from(changes.join('')),
  offsets: Uint32Array.of(0, 6, 12, 18),
  children: [],
};

class ChangesAnswer {
  /** It has the table's columns alone. */
  readonly schema: Schema;
  /** No row. */
  readonly empty: IpcFile;
  readonly #whole: Schema;

  constructor(read: IpcFile, columns: ReadonlySet<string>) {
    this.empty = changesFile(read, columns);
    this.#whole = readSchemaOfIpcFile(this.empty);
    this.schema = { ...this.#whole, fields: this.#whole.fields.slice(2) };
    if (!canEncode(this.schema.fields))
      throw invalidInput('columns: a dictionary within another column cannot be read here');
  }

  file({ chunks, columns }: TakenRows, rows: readonly ListedRow[], changeOf: (ordinal: number) => RowChange): IpcFile {
    const read = new EncodedColumns();
    const batches = chunks.flatMap((chunk) => read.read(chunk));
    const placeOf = placesIn(batches);
    const places = new RowPlaces(rows.map(({ address }) => placeOf.get(BigInt(address)) ?? notThere()));
    const ofColumns = pairedInEach(
      [...columns, rowAddress],
      batches.map((batch) => batch.columns),
    );
    const origins = new Map<string, ColumnOrigin>(
      ofColumns.map(([name, values]) => [name, { batches: values, places }]),
    );
    origins.set(changeColumn, {
      batches: [changeTexts],
      places: new RowPlaces(rows.map(({ ordinal }) => [0, changes.indexOf(changeOf(ordinal))])),
    });
    const versions = BigInt64Array.from(rows, ({ version }) => BigInt(version));
    origins.set(versionColumn, {
      batches: [
        { ...changeTexts, length: rows.length, bytes: new Uint8Array(versions.buffer), offsets: new Uint32Array() },
      ],
      places: new RowPlaces(rows.map((_, row) => [0, row])),
    });
    const nowhere = { batches: [], places: new RowPlaces(rows.map(() => undefined)) };
    const table = { schema: this.#whole, file: this.empty };
    return assembleRows(table, rows.length, ({ name }) => origins.get(name) ?? nowhere, read.encoding()).file;
  }
}

function placesIn(batches: ReturnType<typeof readColumns>): ReadonlyMap<bigint, readonly [batch: number, row: number]> {
  const places = new Map<bigint, readonly [batch: number, row: number]>();
  for (const [batch, { rows, columns }] of batches.entries()) {
    for (const [row, address] of wordsOf(columns.at(-1) ?? notThere(), rows).entries())
      places.set(address, [batch, row]);
  }
  return places;
}

const notThere = (): never => {
  throw new LancegateError('Internal', 'a row was not where it is stored');
};

async function requireSameKeys(earlier: Snapshot, now: Schema, on: readonly FieldPath[]): Promise<void> {
  const before = await earlier.schema();
  for (const path of on) {
    const [old, field] = [resolveField(before, path), resolveField(now, path)];
    if (old !== undefined && field !== undefined && sameType(old, field)) continue;
    const column = formatFieldPath(path);
    throw new LancegateError(
      'ChangesGone',
      `on: ${column} was not there at the earlier version, or of another type; read the whole table again`,
    );
  }
}

interface Comparison {
  readonly earlier: Snapshot;
  readonly later: Snapshot;
  readonly on: readonly FieldPath[];
  readonly keyColumns: readonly string[];
  readonly removed: RowList;
  readonly added: RowList;
  /** A bit for each row of `added`: its key was removed. */
  readonly isUpdated: Uint8Array;
  /** A bit for each row of `removed`: its key is among those added, or comes again. */
  readonly isReplaced: Uint8Array;
  readonly keysAtOnce: number;
}

async function compareKeys({
  earlier,
  later,
  removed,
  added,
  isUpdated,
  isReplaced,
  keysAtOnce,
  ...keys
}: Comparison): Promise<void> {
  const hasher = new KeyHasher(new Uint32Array(Uint8Array.from(randomBytes(32)).buffer));
  const passes = Math.ceil(removed.count / keysAtOnce);
  for (let pass = 0; pass < passes; pass += 1) {
    const toRead = { ...keys, hasher, isWanted: (word: number): boolean => passes === 1 || word % passes === pass };
    const known = new KeyTable();
    for await (const { ordinal, digests, index } of readDigests(earlier, removed, toRead)) {
      const twin = known.set(digests, index, { fragment: 0, offset: ordinal });
      if (twin !== undefined) setBit(isReplaced, twin.offset);
    }
    for await (const { ordinal, digests, index } of readDigests(later, added, toRead)) {
      const old = known.find(digests, index);
      if (old === undefined) continue;
      setBit(isUpdated, ordinal);
      setBit(isReplaced, old.offset);
    }
  }
}

interface KeysToRead extends Pick<Comparison, 'on' | 'keyColumns'> {
  readonly hasher: KeyHasher;
  /** By the first word of its digest. */
  readonly isWanted: (word: number) => boolean;
}

/** NULL is no key, so rows with one are passed over. */
async function* readDigests(from: Snapshot, list: RowList, { on, keyColumns, hasher, isWanted }: KeysToRead) {
  for await (const { ordinals, chunk } of keyChunks(from, list, keyColumns)) {
    const keys = readKeys(chunk, on);
    const digests = await hasher.digest(keys);
    for (const [index, address] of addressesIn(chunk).entries()) {
      if (keys.isNull(index) || !isWanted(digests.words[index * digests.wordsPerKey] ?? 0)) continue;
      yield { ordinal: ordinals.get(address) ?? notThere(), digests, index };
    }
  }
}

async function* keyChunks(from: Snapshot, list: RowList, keyColumns: readonly string[]) {
  for await (const { rows, read } of taken(from, list, keyColumns, () => true)) {
    const ordinals = new Map(rows.map(({ address, ordinal }) => [BigInt(address), ordinal]));
    for (const chunk of read.chunks) yield { ordinals, chunk };
  }
}

/** Reads the row addresses, which are the last column. */
const addressesIn = (chunk: IpcChunk): readonly bigint[] =>
  readColumns(chunk).flatMap(({ rows, columns }) => [...wordsOf(columns.at(-1) ?? notThere(), rows)]);
