/**
 * The power goes at every step of creates, merges, schema changes, branching and maintenance, and each time many ways of
 * losing what was not synced are tried: one at each step, unless `LANCEGATE_TEST_POWER_CUTS` says how many there are in all. A
 * failure names its step and seed.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { Int32, Table, tableFromIPC, vectorFromArray } from 'apache-arrow';
import type { IpcChunk } from '#src/arrow/schema/schema.ts';
import type { Catalog, TableRecord } from '#src/catalog/port.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { TableMaker } from '#src/create/table-maker.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import { btreeOn } from '#src/engine/port/index-spec.ts';
import { rowAddress } from '#src/engine/port/row-address.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { systemClock } from '#src/kernel/clock.ts';
import type { BranchName, ObjectName } from '#src/kernel/ids.ts';
import type { RowAddress } from '#src/keys/address-remap.ts';
import { storedFiles } from '#src/lance-format/manifest/manifest-files.ts';
import { parseManifest } from '#src/lance-format/manifest/parse-manifest.ts';
import { MaintenanceActions } from '#src/maintenance/act/maintenance-actions.ts';
import { recoverTables } from '#src/operations/recovery.ts';
import { Consumers } from '#src/table/consumers.ts';
import { RecoveryMarks } from '#src/table/recovery-marks.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import { Trash } from '#src/table/trash.ts';
import { VersionPins } from '#src/table/version-pins.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { FileJournal, layOutAfterCut, type Moment } from '#test/fixtures/file-journal.ts';
import { addNullColumn, dropColumn } from '#test/fixtures/null-column.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { temporaryFolderInMemory } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { Random } from '#test/model/random.ts';

const askedCuts = process.env.LANCEGATE_TEST_POWER_CUTS;
const ref = { namespace: [], name: 't' as ObjectName };
const dev = 'a/dev' as BranchName;
const newKey = 1_000_000;
const catalogFiles = ['catalog.sqlite', 'catalog.sqlite-wal'];

const upsert = upsertOn('k');

/** What a branch holds: value by key. undefined: the branch, or the table, does not exist. */
type Rows = ReadonlyMap<number, number> | undefined;
type State = Readonly<Record<'main' | 'dev', Rows>>;

interface Step {
  readonly what: string;
  readonly disk: Moment;
  readonly catalog: ReadonlyMap<string, Buffer>;
  /** What was acknowledged, and what the commit under way will make of it. */
  readonly acknowledged: State;
  readonly next: State;
  /** Old versions were being removed: their files may have outlived their manifests. */
  readonly isPruning: boolean;
}

const sourceOf = (rows: ReadonlyMap<number, number>): Table =>
  new Table({ k: vectorFromArray([...rows.keys()], new Int32()), v: vectorFromArray([...rows.values()], new Int32()) });

function chunkOf(rows: ReadonlyMap<number, number>): IpcChunk {
  const file = ipcFile(sourceOf(rows));
  return { file, rows: rows.size, release: () => undefined } as unknown as IpcChunk;
}

interface Parts {
  readonly catalog: Catalog;
  readonly engine: LanceEngine;
  readonly maker: TableMaker;
  readonly open: RecoveryMarks;
  readonly log: readonly string[];
  start(): Promise<void>;
}

async function openParts(folder: string, machine: string, fileSync: FileJournal | undefined): Promise<Parts> {
  const log: string[] = [];
  const logger = createLogger({ level: 'info', format: 'json', destination: { write: (line) => log.push(line) } });
  const catalog = await openSqliteCatalog(join(folder, 'catalog.sqlite'), { holder: { command: 'a test' } });
  const engine = new LanceEngine({
    root: join(folder, 'tables'),
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 20,
    metadataCacheBytes: 1 << 20,
    machineStart: { id: machine, atMs: Number.POSITIVE_INFINITY },
    fileSync: fileSync ?? { file: () => Promise.resolve(), folder: () => Promise.resolve() },
  });
  let ids = 0;
  const newId = () => `${machine}-${++ids}`;
  const parts = { catalog, engine, clock: systemClock, newId, logger, metrics: new Metrics() };
  const maker = new TableMaker({ ...parts, trash: new Trash({ ...parts, dropRetentionMs: 0 }) });
  const start = async () => {
    await maker.sweep();
    await recoverTables({ catalog, engine, logger });
  };
  return { catalog, engine, maker, open: new RecoveryMarks({ catalog, engine }), log, start };
}

/** Does one thing after the other as the service does, and keeps every moment between two steps that differs from the last. */
class Recording {
  readonly steps: Step[] = [];
  readonly #folder: string;
  readonly #parts: Parts;
  readonly #journal: FileJournal;
  #acknowledged: State = { main: undefined, dev: undefined };
  #next: State = this.#acknowledged;
  #catalog: ReadonlyMap<string, Buffer> = new Map();
  #isPruning = false;

  constructor(folder: string, parts: Parts, journal: FileJournal) {
    this.#folder = folder;
    this.#parts = parts;
    this.#journal = journal;
    journal.onStep = (what) => this.#keep(what);
  }

  async create(rows: ReadonlyMap<number, number>): Promise<TableRecord> {
    this.#next = { ...this.#acknowledged, main: rows };
    const { catalog, maker } = this.#parts;
    const { signal } = new AbortController();
    await using creation = await maker.begin({
      table: ref,
      existing: undefined,
      properties: undefined,
      storageOptions: {},
    });
    const all = chunks([chunkOf(new Map([...rows].slice(0, 3))), chunkOf(new Map([...rows].slice(3)))]);
    const written = await creation.write(all, signal);
    this.#keep('before the publication');
    await creation.publish(written, { operation: 'create_table', outcome: {}, answer: undefined });
    const record = (await catalog.findTable(ref)) ?? assert.fail('no table was made');
    this.#acknowledge();
    return record;
  }

  async commit(
    table: TableRecord,
    branch: BranchName | undefined,
    change: ReadonlyMap<number, number>,
    work: (dataset: Dataset) => Promise<unknown>,
  ): Promise<void> {
    const name = branch === undefined ? 'main' : 'dev';
    this.#next = { ...this.#acknowledged, [name]: new Map([...(this.#acknowledged[name] ?? []), ...change]) };
    const dataset = await this.#parts.engine.open({ location: table.location, branch });
    this.#keep('before the branch is marked');
    await this.#parts.open.beforeCommit(table, branch, dataset);
    this.#keep('after the branch is marked');
    await work(dataset);
    this.#keep('after the commit of the engine');
    await this.#parts.open.afterCommit(table.id, branch, dataset);
    await this.#parts.catalog.recordTransactions([
      {
        id: `tx-${this.steps.length}` as never,
        tableId: table.id,
        ref,
        operation: 'merge_insert',
        branch,
        version: await dataset.version(),
        outcome: {},
        committedAtMs: 0,
      },
    ]);
    this.#acknowledge();
  }

  async branch(table: TableRecord): Promise<void> {
    this.#next = { ...this.#acknowledged, dev: this.#acknowledged.main };
    const dataset = await this.#parts.engine.open({ location: table.location });
    const { catalog, engine } = this.#parts;
    const { storageSession } = engine;
    await catalog.markOpenForWriting({ tableId: table.id, branch: dev, acknowledgedVersion: 0, storageSession });
    this.#keep('before the branch is made');
    await dataset.branches.create(dev, { branch: undefined, version: undefined });
    this.#keep('after the branch is made');
    await catalog.closeBranch(table.id, dev);
    this.#acknowledge();
  }

  /** Changes no row, so that what was acknowledged holds all the while. */
  async maintain(table: TableRecord, job: { readonly from?: number; readonly isPruning?: boolean }): Promise<void> {
    const { catalog, engine, open } = this.#parts;
    const real = new TableLocks(10);
    const lockBranch = async (...asked: Parameters<TableLocks['lockBranch']>) => {
      const release = await real.lockBranch(...asked);
      return () => {
        release();
        this.#keep('maintenance has let writers in');
      };
    };
    const locks = replacing<TableLocks>(real, { lockBranch });
    const consumers = new Consumers({ clock: systemClock, metrics: new Metrics(), consumerRetentionMs: 60_000 });
    const parts = { catalog, engine, locks, recoveryMarks: open, pins: new VersionPins(), consumers };
    const actions = new MaintenanceActions(parts);
    const target = { table: ref, tableId: table.id, branch: undefined, location: table.location };
    const { from = 0, isPruning = false } = job;
    const all = (await actions.inspect(target))?.layout.fragments ?? [];
    const fragments = all.slice(from).flatMap(({ id }) => id ?? []);
    const report = await actions.compact(target, { reason: 'by hand', fragments }, new AbortController().signal);
    assert.ok((report?.removedFragments ?? 0) > 0);
    this.#keep('maintenance has compacted');
    this.#isPruning = isPruning;
    if (isPruning) {
      const pruned = await actions.prune(target, 'by hand', Date.now() + 60_000);
      assert.ok((pruned?.removedVersions ?? 0) > 0);
    }
    this.#isPruning = false;
    await actions.buildIndex(target, btreeOn('k'), 'by hand', new AbortController().signal);
    this.#keep('after maintenance');
  }

  keepBetween(what: string): void {
    this.#keep(what);
  }

  #acknowledge(): void {
    this.#acknowledged = this.#next;
    this.#keep('after the answer');
  }

  #keep(what: string): void {
    this.#lookAtCatalog();
    const seen = { disk: this.#journal.moment(), catalog: this.#catalog, isPruning: this.#isPruning };
    const step = { what, ...seen, acknowledged: this.#acknowledged, next: this.#next };
    const last = this.steps.at(-1);
    if (last === undefined || !isDeepStrictEqual({ ...last, what }, step)) this.steps.push(step);
  }

  #lookAtCatalog(): void {
    const files = catalogFiles.map((name) => join(this.#folder, name)).filter((path) => existsSync(path));
    const contents = files.map((path) => {
      const content = readFileSync(path);
      const known = this.#catalog.get(path);
      return [path, known?.equals(content) === true ? known : content] as const;
    });
    this.#catalog = new Map(contents);
  }
}

async function* chunks(all: readonly IpcChunk[]): AsyncGenerator<IpcChunk> {
  yield* all;
}

async function rowsIn(dataset: Dataset): Promise<Rows> {
  const found = new Map<number, number>();
  let rows = 0;
  const columns = [
    { name: 'k', expression: 'k' },
    { name: 'v', expression: 'v' },
  ];
  for await (const file of dataset.select(columns, undefined)) {
    const batch = tableFromIPC<{ k: Int32; v: Int32 }>(file);
    const [keys, values] = [batch.getChild('k')!.toArray(), batch.getChild('v')!.toArray()];
    keys.forEach((key, row) => void found.set(key, values[row]!));
    rows += keys.length;
  }
  assert.equal(found.size, rows, 'a key is there twice');
  return found;
}

async function stateOf({ engine }: Parts, table: TableRecord): Promise<State> {
  const main = await engine.open({ location: table.location });
  const branches = (await main.branches.list()).map(({ name }) => name);
  const ofDev = branches.includes(dev) ? await engine.open({ location: table.location, branch: dev }) : undefined;
  return { main: await rowsIn(main), dev: ofDev && (await rowsIn(ofDev)) };
}

const sorted = (rows: Rows) => rows && [...rows].sort(([a], [b]) => a - b);

function requireWhole(found: State, { acknowledged, next }: Step): void {
  for (const branch of ['main', 'dev'] as const) {
    if ([acknowledged, next].some((state) => isSame(found[branch], state[branch]))) continue;
    assert.deepEqual(sorted(found[branch]), sorted(acknowledged[branch]), `${branch} is neither before nor after`);
  }
}

function isSame(a: Rows, b: Rows): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.size === b.size && a.entries().every(([key, value]) => b.get(key) === value);
}

/** The next merge works and finds the keys that are there. */
async function requireWorking(parts: Parts, table: TableRecord, random: Random): Promise<void> {
  const main = await parts.engine.open({ location: table.location });
  const isBranched = (await main.branches.list()).length > 0;
  for (const branch of isBranched ? [undefined, dev] : [undefined]) {
    const dataset: Dataset =
      branch === undefined ? main : await parts.engine.open({ location: table.location, branch });
    const before = await dataset.countRows();
    const keys = [0, 1 + random.int(5), newKey];
    await parts.open.beforeCommit(table, branch, dataset);
    const spec = { ...upsert, useIndex: branch === undefined };
    const counts = await mergeInto(dataset, spec, ipcFile(sourceOf(new Map(keys.map((key) => [key, -1])))));
    assert.deepEqual([counts.numUpdatedRows, counts.numInsertedRows], [2, 1]);
    assert.equal(await dataset.countRows(), before + 1);
    assert.equal(await dataset.countRows(ownSql('v = -1')), 3);
  }
}

const foldersOfCommits = ['data', '_deletions', '_transactions', '_versions'];

/** Nothing is left over that no version names; what a pruning that was cut short leaves is the engine's to remove, when it is a week old. */
function requireNoLeftovers(dataset: string, areOldAllowed: boolean): void {
  const folders = [dataset, join(dataset, 'tree', dev)].filter((folder) => existsSync(join(folder, '_versions')));
  const named = folders.flatMap((folder) => {
    const manifests = readdirSync(join(folder, '_versions')).filter((name) => name.endsWith('.manifest'));
    const paths = manifests.map((name) => join(folder, '_versions', name));
    return [
      ...paths,
      ...paths.flatMap((path) => storedFiles(parseManifest(readFileSync(path)), folder).map((file) => file.path)),
    ];
  });
  const there = folders.flatMap((folder) =>
    foldersOfCommits.flatMap((name) =>
      existsSync(join(folder, name)) ? readdirSync(join(folder, name)).map((file) => join(folder, name, file)) : [],
    ),
  );
  const newestMs = Math.max(
    ...named.filter((path) => path.endsWith('.manifest')).map((path) => statSync(path).mtimeMs),
  );
  const isOld = (path: string): boolean => areOldAllowed && statSync(path).mtimeMs < newestMs;
  const isExpected = (path: string): boolean => named.includes(path) || path.endsWith('latest_version_hint.json');
  const leftovers = there.filter((path) => !isExpected(path) && !isOld(path));
  assert.deepEqual(leftovers, []);
}

const rowAddressOf = (address: bigint): RowAddress => ({
  fragment: Number(address >> 32n),
  offset: Number(address & 0xffff_ffffn),
});

/** As the writer of a table does that knows where its rows are. */
const byRowAddress =
  (change: ReadonlyMap<number, number>) =>
  async (dataset: Dataset): Promise<void> => {
    const tracked = dataset.liveRows();
    tracked?.advance(await dataset.version());
    const addresses: RowAddress[] = [];
    const columns = [
      { name: 'k', expression: 'k' },
      { name: 'address', expression: rowAddress },
    ];
    for await (const file of dataset.select(columns, undefined)) {
      for (const { k, address } of rowsOf(file))
        if (change.has(Number(k))) addresses.push(rowAddressOf(BigInt(String(address))));
    }
    const chunk = { file: ipcFile(sourceOf(change)), rows: change.size };
    const replaced = tracked && (await dataset.replaceRows(tracked, addresses, chunk));
    assert.equal(typeof replaced, 'object');
  };

async function record(folder: string): Promise<readonly Step[]> {
  const tables = join(folder, 'tables');
  mkdirSync(tables);
  const journal = new FileJournal(tables);
  const parts = await openParts(folder, 'before', journal);
  const recording = new Recording(folder, parts, journal);
  const rows = (from: number, count: number, value: number): ReadonlyMap<number, number> =>
    new Map(Array.from({ length: count }, (_, index) => [from + index, value]));
  const merge = (change: ReadonlyMap<number, number>) => (dataset: Dataset) =>
    mergeInto(dataset, { ...upsert, useIndex: false }, ipcFile(sourceOf(change)));

  const table = await recording.create(rows(0, 6, 0));
  await recording.commit(table, undefined, rows(4, 4, 1), merge(rows(4, 4, 1)));
  await recording.commit(table, undefined, rows(0, 9, 3), byRowAddress(rows(0, 9, 3)));
  await recording.branch(table);
  await recording.commit(table, dev, rows(2, 4, 10), byRowAddress(rows(2, 4, 10)));
  await recording.commit(table, dev, rows(5, 9, 11), merge(rows(5, 9, 11)));
  const around = rows(5, 8, 4);
  await recording.commit(table, undefined, around, async (dataset) => {
    await addNullColumn(tables, dataset, 'nothing');
    recording.keepBetween('between two commits of one merge');
    await mergeInto(dataset, { ...upsert, useIndex: false }, ipcFile(sourceOf(around)));
    recording.keepBetween('between two commits of one merge');
    await dropColumn(tables, dataset, 'nothing');
  });
  await recording.commit(table, undefined, new Map(), (dataset) => createIndex(dataset, 'k'));
  const large = rows(0, 9_000, 5);
  await recording.commit(table, undefined, large, merge(large));
  const dense = new Map(Array.from({ length: 4_500 }, (_, index) => [index * 2, 6]));
  await recording.commit(table, undefined, dense, byRowAddress(dense));
  await recording.maintain(table, {});
  for (const change of [rows(1, 7, 2), rows(30_000, 6, 3)]) {
    await recording.commit(table, undefined, change, byRowAddress(change));
  }
  await recording.maintain(table, { from: 1 });
  for (const change of [rows(3, 5, 7), rows(20_000, 5, 8)]) {
    await recording.commit(table, undefined, change, merge(change));
  }
  await recording.maintain(table, { isPruning: true });
  await parts.catalog.close();
  return recording.steps;
}

/** Of all that lies below `root`: names and contents. */
function fingerprintOf(root: string): string {
  const hash = createHash('sha256');
  for (const path of readdirSync(root, { recursive: true, encoding: 'utf8' }).sort()) {
    const isFile = statSync(join(root, path)).isFile();
    hash.update(JSON.stringify(path)).update(
      isFile
        ? createHash('sha256')
            .update(readFileSync(join(root, path)))
            .digest()
        : '',
    );
  }
  return hash.digest('hex');
}

/** By fingerprint, what was found in a table that then worked: many cuts leave the same, byte for byte. */
type Examined = Map<string, State>;

async function requireOrder(
  parts: Parts,
  folder: string,
  step: Step,
  random: Random,
  examined: Examined,
): Promise<void> {
  const table = await parts.catalog.findTable(ref);
  if (table === undefined) return requireWhole({ main: undefined, dev: undefined }, step);
  const fingerprint = fingerprintOf(join(folder, 'tables', table.location));
  const known = examined.get(fingerprint);
  const found = known ?? (await stateOf(parts, table));
  requireWhole(found, step);
  requireNoLeftovers(join(folder, 'tables', table.location), step.isPruning);
  if (known === undefined) await requireWorking(parts, table, random);
  examined.set(fingerprint, found);
}

async function recoverFrom(folder: string, step: Step, random: Random, examined: Examined): Promise<void> {
  for (const name of readdirSync(folder)) if (name.startsWith('catalog')) rmSync(join(folder, name));
  for (const [path, content] of step.catalog) writeFileSync(path, content);
  layOutAfterCut(join(folder, 'tables'), step.disk, random);
  const parts = await openParts(folder, 'after', undefined);
  try {
    await parts.start();
    assert.deepEqual(
      parts.log.filter((line) => line.includes('"level":"error"')),
      [],
    );
    await requireOrder(parts, folder, step, random, examined);
  } finally {
    await parts.catalog.close();
  }
}

describe('a power cut', () => {
  test('leaves what was acknowledged, and of a commit under way all or nothing (P1, P3)', async (t) => {
    const folder = temporaryFolderInMemory((clean) => t.after(clean));
    const steps = await record(folder);
    const examined: Examined = new Map();
    const totalCuts = Number(askedCuts ?? steps.length);
    for (let seed = 0; seed < totalCuts; seed += 1) {
      // Every step once, then again, with other losses.
      const step = steps[seed % steps.length] as Step;
      await recoverFrom(folder, step, new Random(seed), examined).catch((error: unknown) => {
        throw new Error(`step ${seed % steps.length} (${step.what}), seed ${seed}`, { cause: error });
      });
    }
    t.diagnostic(`${steps.length} steps, ${totalCuts} cuts, ${examined.size} different tables`);
  });
});
