/** Rows are replaced by their addresses. What is there then is judged by LanceDB itself, which opens the files anew. */
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { connect, Index, type Table as LanceTable } from '@lancedb/lancedb';
import { type DataType, Field, Int32, RecordBatch, Schema, Table, Utf8, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import type { LanceDataset } from '#src/engine/lance/adapter/lance-dataset.ts';
import type { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { isMade } from '#src/engine/port/refusal.ts';
import type { LiveRows, Replaced, Replacing } from '#src/engine/port/row-address.ts';
import type { BranchName, Location, Properties } from '#src/kernel/ids.ts';
import type { RowAddress } from '#src/keys/address-remap.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import type { TableStorage } from '#test/fixtures/table-places.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { eventually } from '#test/http/eventually.ts';
import { numbersFrom } from '#test/http/wide-table.ts';

export const location = 't.lance' as Location;
export const dev = 'dev' as BranchName;
export const upsert = upsertOn('id');

export interface Row {
  readonly id: number;
  readonly text: string;
}
export interface AddressedRow extends Row {
  readonly address: RowAddress;
}

/** Keys and texts as a file of the source. */
export const fileOf = (rows: readonly Row[]): IpcFile =>
  ipcFile(
    new Table({
      id: vectorFromArray(
        rows.map(({ id }) => id),
        new Int32(),
      ),
      text: vectorFromArray(
        rows.map(({ text }) => text),
        new Utf8(),
      ),
    }),
  );
export const rowsFrom = (from: number, count: number, text: string): Row[] =>
  numbersFrom(from, from + count).map((id) => ({ id, text: `${text} ${id}` }));
export const at = (fragment: number, ...offsets: readonly number[]): RowAddress[] =>
  offsets.map((offset) => ({ fragment, offset }));

export class Stage {
  readonly folder: string;
  readonly root: string;
  readonly engine: LanceEngine;
  readonly #isStore: boolean;

  constructor(t: TestContext, storage: TableStorage) {
    const { engine, root, folder } = storage.open(t);
    this.#isStore = storage.kind === 'an object store';
    this.engine = engine;
    this.root = root;
    this.folder = folder;
  }

  path(...inside: readonly string[]): string {
    return join(this.folder, location, ...inside);
  }

  /** Files, not folders, with their sizes and times. What was staged is removed in a while. */
  files(): string[] {
    return readdirSync(this.path(), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((path) => !path.includes('/lancegate=staging/'))
      .map((path) => `${path} ${statSync(path).size} ${statSync(path).mtimeMs}`)
      .sort();
  }

  /** What a commit that was not made had put into an object store is taken back in a while. */
  async requireFiles(expected: readonly string[]): Promise<void> {
    const isSo = () => isDeepStrictEqual(this.files(), expected);
    if (this.#isStore) await eventually('nothing is left', isSo, () => this.files());
    else assert.deepEqual(this.files(), expected);
  }

  /** The newest version, opened anew by another program. */
  async outside(branch?: BranchName): Promise<LanceTable> {
    const table = await (await connect(this.root)).openTable('t');
    return branch === undefined ? table : (await table.branches()).checkout(branch);
  }

  /** As another program reads them, by their ids. */
  async rows(branch?: BranchName, where?: string): Promise<AddressedRow[]> {
    return addressedRows(await this.outside(branch), where);
  }

  async contents(branch?: BranchName, where?: string): Promise<string[]> {
    return (await this.rows(branch, where)).map(({ text }) => text);
  }
}

export async function addressedRows(table: LanceTable, where?: string): Promise<AddressedRow[]> {
  const query = table.query().select(['id', 'text', '_rowaddr']);
  const found = (await (where === undefined ? query : query.where(where)).toArray()) as {
    id: number;
    text: string;
    _rowaddr: bigint;
  }[];
  return found
    .map(({ id, text, _rowaddr: packed }) => ({ id, text, address: rowAddressOf(packed) }))
    .sort((a, b) => a.id - b.id);
}

export const rowAddressOf = (packed: bigint): RowAddress => ({
  fragment: Number(packed >> 32n),
  offset: Number(packed & 0xffff_ffffn),
});

export const textsOf = (rows: readonly Row[]): string[] => rows.toSorted((a, b) => a.id - b.id).map(({ text }) => text);

export async function trackedRows(dataset: Dataset): Promise<LiveRows> {
  const tracked = dataset.liveRows();
  assert.ok(tracked);
  await dataset.refresh('to write');
  tracked.advance(await dataset.version());
  return tracked;
}

export const replacing = (
  dataset: Dataset,
  tracked: LiveRows,
  addresses: Iterable<RowAddress>,
  rows: readonly Row[],
): Promise<Replacing> => dataset.replaceRows(tracked, addresses, { file: fileOf(rows), rows: rows.length });

export async function replace(...request: Parameters<typeof replacing>): Promise<Replaced> {
  return expectReplaced(await replacing(...request));
}

export function expectReplaced(replaced: Replacing): Replaced {
  assert.ok(isMade(replaced), JSON.stringify(replaced));
  return replaced;
}

export const isRefused = (replaced: Replacing): boolean => replaced !== 'overtaken' && !isMade(replaced);

/** Where the rows of a replacement are, in their order. */
export const addressesIn = ({ fragments }: Replaced): RowAddress[] =>
  fragments.flatMap(({ id, rows }) => numbersFrom(0, rows).map((offset) => ({ fragment: id, offset })));

export const indexOn = (outside: LanceTable, column: string): Promise<void> =>
  outside.createIndex(column, { config: Index.btree(), replace: true });

export const columns = (...fields: readonly (readonly [Field, readonly unknown[]])[]): Table => {
  const schema = new Schema(fields.map(([field]) => field));
  const vectors = fields.map(
    ([field, values]) => [field.name, vectorFromArray(values, field.type as DataType)] as const,
  );
  const [batch] = new Table(Object.fromEntries(vectors)).batches;
  return new Table([new RecordBatch(schema, batch!.data)]);
};
export const int = (name: string, isNullable = true, metadata?: Map<string, string>) =>
  new Field(name, new Int32(), isNullable, metadata);
export const text = (name: string, isNullable = true) => new Field(name, new Utf8(), isNullable);

/** Makes a table of these rows, whose live rows are tracked, on a stage of its own. */
export const tablesOn =
  (storage: TableStorage) =>
  async (
    t: TestContext,
    rows: readonly Row[],
    options: Properties = {},
  ): Promise<{ stage: Stage; dataset: LanceDataset; tracked: LiveRows }> => {
    const stage = new Stage(t, storage);
    const dataset = await createDataset(stage.engine, location, fileOf(rows), options);
    t.after(() => dataset.close());
    return { stage, dataset, tracked: await trackedRows(dataset) };
  };
