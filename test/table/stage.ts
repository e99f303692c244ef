import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Table, tableToIPC } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import type { TableRecord } from '#src/catalog/port.ts';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { changeKind } from '#src/change/change-kind.ts';
import type { LanceDataset } from '#src/engine/lance/adapter/lance-dataset.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { Engine, OpenRequest } from '#src/engine/port/engine.ts';
import type { Projection } from '#src/engine/port/merge-spec.ts';
import { isMade } from '#src/engine/port/refusal.ts';
import { rowAddress } from '#src/engine/port/row-address.ts';
import type { Shadow } from '#src/engine/port/shadow.ts';
import { indexKind } from '#src/indexing/index-kind.ts';
import { type InsertRequest, insertBatchKey, insertKind } from '#src/insert/insert-kind.ts';
import { type Clock, systemClock } from '#src/kernel/clock.ts';
import type { Location, ObjectName, Properties, TransactionId } from '#src/kernel/ids.ts';
import { readKeys } from '#src/keys/key-columns.ts';
import { KeyHasher } from '#src/keys/key-hasher.ts';
import { KeyBudget } from '#src/memory/key-quota.ts';
import { batchKey, type MergeRequest } from '#src/merge/batch.ts';
import { MergeKind } from '#src/merge/merge-kind.ts';
import { OpenDatasets } from '#src/table/open-datasets.ts';
import { RecoveryMarks } from '#src/table/recovery-marks.ts';
import { TableAccess } from '#src/table/table-access.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import type { TableOwners } from '#src/table/table-owners.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { type CountsSource, Metrics } from '#src/telemetry/metrics.ts';
import { TableWriter } from '#src/write/table-writer.ts';
import type { WriteCounts, WriteKinds } from '#src/write/write.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { createIndex } from '#test/fixtures/create-index.ts';
import { engineOn } from '#test/fixtures/engine-on.ts';
import { appendTo } from '#test/fixtures/engine-writes.ts';
import { holdBranch } from '#test/fixtures/hold-branch.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { inChunks, sourceFrom } from '#test/fixtures/streams.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

export type Spec = MergeRequest['spec'];

export const location = 't.lance' as Location;
export const table = { namespace: [], name: 't' as ObjectName };
export const never = new AbortController().signal;
export const upsert: Spec = {
  whenMatchedUpdateAll: true,
  whenNotMatchedInsertAll: true,
  whenNotMatchedBySourceDelete: false,
  useIndex: true,
};

/** What tests do in the middle of the writer's work; each is awaited before the call goes on. */
export interface Interruptions {
  /** Before the commit, by either strategy or of inserted rows. */
  merge?: (() => Promise<void>) | undefined;
  /** Before the commit of what the engine merged in a shadow. */
  shadowCommit?: (() => Promise<void>) | undefined;
  sync?: (() => Promise<void>) | undefined;
  /** Before all keys of a past version are read. */
  readKeys?: (() => Promise<void>) | undefined;
  /** Before row addresses are read, while commits go on or with the branch locked. */
  readAddresses?: (() => Promise<void>) | undefined;
  /** Before a commit is recorded in the catalog. */
  record?: (() => Promise<void>) | undefined;
}

export interface StageOptions {
  readonly on?: readonly string[];
  readonly interruptions?: Interruptions;
  readonly keyMemoryBytes?: number | undefined;
  /** Which rows a commit changed is unknown, as on object stores. */
  readonly hidesChanges?: boolean;
  /** Rows are replaced by their addresses once the key index has those. Without it the engine always finds them. */
  readonly hasKeyIndex?: boolean;
  /** How many rows the table has is unknown. */
  readonly cannotCount?: boolean;
  readonly clock?: Clock;
  /** On this object store rather than in a folder. */
  readonly storage?: { readonly root: string; readonly options: Properties } | undefined;
  /** Whether this process owns the table. */
  readonly owners?: Pick<TableOwners, 'confirm'>;
}

type Doing = Required<Pick<StageOptions, 'hidesChanges' | 'hasKeyIndex' | 'cannotCount'>>;

const kindsOf = (merge: MergeKind): WriteKinds => ({
  merge,
  insert: insertKind,
  change: changeKind,
  index: indexKind,
});

/** One table with its writer, over the real engine and catalog. */
export class Stage {
  /** How many merges each commit had. */
  readonly commits: number[] = [];
  /** What each request that was answered had deleted. */
  readonly deletedRows: number[] = [];
  /** Lines of the log at `warn` and above. */
  readonly warnings: string[] = [];
  /** How often the writer's table was opened. */
  timesOpened = 0;
  /** Past versions that were opened, which is what asking for keys costs. */
  readonly versionsOpened: number[] = [];
  /** Rows whose versions were read by their addresses, for merges by version. */
  versionsTaken = 0;
  /** How often keys were searched for in a past version, which takes longest. */
  searches = 0;
  /** Where the counts of each shared commit came from. */
  readonly countedBy: CountsSource[] = [];
  /** How often all keys of a past version were read. */
  readings = 0;
  /** How often row addresses were read: all while commits go on, or with the branch locked those of others. */
  addressReadings = 0;
  /** What became of each attempt to replace rows by their addresses. */
  readonly replacements: ('made' | 'refused' | 'overtaken' | 'failed')[] = [];
  /** How often the engine merged in a shadow of a version that another program had followed. */
  overtakenShadows = 0;
  /** That merges of the writer made in shadows, ascending. */
  readonly mergedVersions: number[] = [];
  readonly engine: LanceEngine;
  keyBudget!: KeyBudget;
  readonly locks = new TableLocks(100);
  readonly folder: string;
  readonly on: readonly string[];
  /** Runs between the writer's look at the version and its commit, for requests with a key. */
  betweenLookAndCommit: () => Promise<void> = async () => undefined;
  writer!: TableWriter;
  /** The open datasets that the writer shares with readers. */
  datasets!: OpenDatasets;
  record!: TableRecord;
  #dataset!: LanceDataset;
  #location = location;
  /** Datasets that are open to read row addresses from them while commits go on. */
  #readers = 0;

  readonly #storage: StageOptions['storage'];

  private constructor(folder: string, on: readonly string[], engine: LanceEngine, storage: StageOptions['storage']) {
    this.folder = folder;
    this.on = on;
    this.engine = engine;
    this.#storage = storage;
  }

  static async open(
    t: TestContext,
    rows: Table | IpcFile,
    {
      on = ['id'],
      interruptions = {},
      keyMemoryBytes = 1 << 20,
      hidesChanges = false,
      hasKeyIndex = false,
      cannotCount = false,
      clock = systemClock,
      storage,
      owners,
    }: StageOptions = {},
  ) {
    const folder = temporaryFolder((clean) => t.after(clean));
    const lance = await (storage === undefined ? engineIn(folder) : engineOn(t, storage.root, storage.options));
    const stage = new Stage(folder, on, lance, storage);
    const catalog = await openSqliteCatalog(join(stage.folder, 'catalog.sqlite'), { holder: { command: 'test' } });
    t.after(() => catalog.close());
    catalog.recordIntents = () => stage.betweenLookAndCommit();
    const record = catalog.recordTransactions.bind(catalog);
    catalog.recordTransactions = async (...args) => {
      await interruptions.record?.();
      await record(...args);
    };
    const creation = await catalog.reserveCreation(table, undefined, location);
    stage.#dataset = await createDataset(stage.engine, location, rows instanceof Table ? ipcFile(rows) : rows, {});
    const details = { properties: {}, storageOptions: {}, transaction: transaction(1) };
    stage.record = await catalog.publishCreation(creation, details);
    const metrics = new Metrics();
    metrics.commitFinished = (merges) => void stage.commits.push(merges);
    metrics.countsTaken = (by) => void stage.countedBy.push(by);
    const engine = stage.#interrupted(interruptions, { hidesChanges, hasKeyIndex, cannotCount });
    stage.keyBudget = new KeyBudget(keyMemoryBytes, clock);
    const datasets = new OpenDatasets(stage.#keeping(engine), 10);
    stage.datasets = datasets;
    const access = replacing(new TableAccess(catalog, engine, datasets, (read) => read()), {
      requireUnchanged: async (record: TableRecord) => ({ ...record, location: stage.#location }),
    });
    const lines = { write: (line: string) => void stage.warnings.push(line) };
    const logger = createLogger({ level: 'warn', format: 'json', destination: lines });
    stage.writer = new TableWriter({
      catalog,
      locks: stage.locks,
      metrics,
      access,
      datasets,
      recoveryMarks: new RecoveryMarks({ catalog, engine, ...(owners && { owners }) }),
      logger,
      observer: { committed: () => undefined },
      openKinds: () => kindsOf(new MergeKind({ engine, logger, keyBudget: stage.keyBudget, keyHasher, clock })),
      maxWaiting: 1_000,
      maxIdle: 10,
      clock,
    });
    return stage;
  }

  /** `source` is a table, or the stream of one. */
  async request(source: Table | Buffer, spec: Spec = upsert, signal = never, subject = 'a'): Promise<MergeRequest> {
    const bytes = source instanceof Table ? tableToIPC(source, 'stream') : source;
    const chunk = await sourceFrom(inChunks(bytes)).whole();
    const on = this.on.map((text) => parseFieldPath(text));
    const keys = readKeys(chunk, on);
    const write = { kind: 'merge', operation: 'merge_insert', ...this.#write(signal, subject) } as const;
    return {
      ...write,
      on,
      spec,
      chunk,
      keys,
      digests: await keyHasher.digest(keys),
      absent: [],
      versionColumn: undefined,
      told: {},
    };
  }

  /** Of a source that ends within one chunk. */
  async insertRequest(source: Table): Promise<InsertRequest> {
    const chunk = await sourceFrom(inChunks(tableToIPC(source, 'stream'))).whole();
    const write = { kind: 'insert', operation: 'insert', ...this.#write(never, 'a') } as const;
    return { ...write, mode: 'append', rows: chunk.rows, chunk, staged: undefined, told: {} };
  }

  #write(signal: AbortSignal, subject: string) {
    return {
      table: this.record,
      branch: undefined,
      keyed: undefined,
      scope: {
        requestId: 'r',
        principal: { subject, scopes: [], groups: [], issuer: 'test' },
        signal,
        remainingMs: () => undefined,
      },
      transactionId: randomUUID() as TransactionId,
    };
  }

  /** Sends all while the branch is locked, so that they queue in this order. */
  async together(requests: readonly (MergeRequest | InsertRequest)[]): Promise<PromiseSettledResult<WriteCounts>[]> {
    const leave = await holdBranch(this.locks, table, undefined);
    const answers = requests.map((request) => (request.kind === 'merge' ? this.#merge(request) : this.insert(request)));
    await new Promise<void>((resolve) => setImmediate(resolve));
    leave();
    return Promise.allSettled(answers);
  }

  /** Resolves when no row addresses are being read any more. The writer closes no dataset but those it reads from. */
  async addressesRead(): Promise<void> {
    while (this.#readers > 0) await new Promise<void>((resolve) => setImmediate(resolve));
    await new Promise<void>((resolve) => setImmediate(resolve));
  }

  merge(request: MergeRequest): Promise<WriteCounts> {
    return this.writer.write(request, { batchKey: batchKey(request), size: request.chunk });
  }

  insert(request: InsertRequest): Promise<WriteCounts> {
    return this.writer.write(request, { batchKey: insertBatchKey(request), size: request.chunk! });
  }

  async #merge(request: MergeRequest): Promise<WriteCounts> {
    const counts = await this.merge(request);
    this.deletedRows.push(counts.numDeletedRows);
    return counts;
  }

  #interrupted(interruptions: Interruptions, what: Doing): Engine {
    const open = async (request: OpenRequest): Promise<Dataset> => {
      if (request.version === undefined) this.#readers += 1;
      const dataset = await this.engine.open(request);
      if (request.version === undefined) {
        this.timesOpened += 1;
        return this.#withInterruptions(dataset, interruptions, what);
      }
      this.versionsOpened.push(request.version);
      return replacing(dataset, { select: (...what) => this.#select(dataset, what, interruptions) });
    };
    return replacing<Engine>(this.engine, { open });
  }

  /** For the datasets that are kept open: any other that is opened is read from and closed. */
  #keeping(engine: Engine): Engine {
    const open = async (request: OpenRequest): Promise<Dataset> => {
      this.#readers -= 1;
      return engine.open(request);
    };
    return replacing<Engine>(engine, { open });
  }

  async *#select(
    dataset: Dataset,
    [columns, where]: Parameters<Dataset['select']>,
    interruptions: Interruptions,
  ): ReturnType<Dataset['select']> {
    if (where !== undefined) this.searches += 1;
    else {
      this.readings += 1;
      await interruptions.readKeys?.();
    }
    yield* dataset.select(columns, where);
  }

  async #beforeAddresses(columns: readonly Projection[] | undefined, interruptions: Interruptions): Promise<void> {
    if (!columns?.some(({ expression }) => expression === rowAddress)) return;
    this.addressReadings += 1;
    await interruptions.readAddresses?.();
  }

  async *#selectAddresses(
    dataset: Dataset,
    [columns, where]: Parameters<Dataset['select']>,
    interruptions: Interruptions,
  ): ReturnType<Dataset['select']> {
    await this.#beforeAddresses(columns, interruptions);
    yield* dataset.select(columns, where);
  }

  async *#takeAddresses(
    dataset: Dataset,
    [rows, columns]: Parameters<Dataset['take']>,
    interruptions: Interruptions,
  ): ReturnType<Dataset['take']> {
    const names = columns?.map(({ name }) => name) ?? [];
    if (names.includes('version') && !names.includes('address')) this.versionsTaken += rows.length;
    await this.#beforeAddresses(columns, interruptions);
    yield* dataset.take(rows, columns);
  }

  async #replaceRows(
    dataset: Dataset,
    args: Parameters<Dataset['replaceRows']>,
    interruptions: Interruptions,
  ): ReturnType<Dataset['replaceRows']> {
    this.replacements.push('failed');
    await interruptions.merge?.();
    const replaced = await dataset.replaceRows(...args);
    this.replacements[this.replacements.length - 1] =
      replaced === 'overtaken' ? replaced : isMade(replaced) ? 'made' : 'refused';
    return replaced;
  }

  #withInterruptions(dataset: Dataset, interruptions: Interruptions, what: Doing): Dataset {
    return replacing(dataset, {
      ...(what.hidesChanges && { changedRows: async () => undefined }),
      ...(!what.hasKeyIndex && { liveRows: () => undefined }),
      ...(what.cannotCount && { countRows: () => Promise.reject(new Error('not now')) }),
      select: (...args) => this.#selectAddresses(dataset, args, interruptions),
      take: (...args) => this.#takeAddresses(dataset, args, interruptions),
      replaceRows: (...args) => this.#replaceRows(dataset, args, interruptions),
      insertRows: async (...args) => {
        await interruptions.merge?.();
        return dataset.insertRows(...args);
      },
      close: () => {
        this.#readers -= 1;
        dataset.close();
      },
      shadow: async () => {
        const shadow = await dataset.shadow();
        await interruptions.merge?.();
        return replacing(shadow, {
          commit: async (...args: Parameters<Shadow['commit']>) => {
            await interruptions.shadowCommit?.();
            const made = await shadow.commit(...args);
            if (made === 'overtaken') this.overtakenShadows += 1;
            else this.mergedVersions.push(made.version);
            return made;
          },
        });
      },
      sync: async (...args: Parameters<Dataset['sync']>) => {
        await interruptions.sync?.();
        await dataset.sync(...args);
      },
    });
  }

  /** The table as another program opens it. */
  async externalWriter() {
    const { root = join(this.folder, 'tables'), options = {} } = this.#storage ?? {};
    const database = await connect(root, { storageOptions: { ...options } });
    return database.openTable('t');
  }

  async rows(columns: readonly string[] = ['id', 'v']): Promise<string[]> {
    await this.#dataset.refresh();
    const selected = columns.map((path) => ({ name: path.replace('.', '_'), expression: path }));
    const rows: string[] = [];
    for await (const file of this.#dataset.select(selected, undefined)) {
      rows.push(...rowsOf(file).map((row) => selected.map(({ name }) => String(row[name])).join(':')));
    }
    return rows.sort();
  }

  /** Puts another table at another location under the name of this one, at the version `version`. */
  async replace(rows: Table, version: number): Promise<void> {
    this.#location = 'another.lance' as Location;
    this.#dataset = await createDataset(this.engine, this.#location, ipcFile(rows), {});
    while ((await this.#dataset.version()) < version) await appendTo(this.#dataset, ipcFile(rows.slice(0, 0)));
  }

  /** As maintenance does, while the writer works. */
  async buildIndex(column: string): Promise<void> {
    const dataset = await this.engine.open({ location });
    await createIndex(dataset, column);
    dataset.close();
  }

  async moveRows(): Promise<void> {
    const dataset = await this.engine.open({ location });
    const { fragments } = await dataset.layout();
    const move = await dataset.prepareCompaction(fragments.flatMap(({ id }) => id ?? []));
    await move?.commit();
    move?.discard();
    dataset.close();
  }

  async compact(): Promise<void> {
    const table = await this.externalWriter();
    await table.optimize();
  }
}

const engineIn = (folder: string): LanceEngine =>
  new LanceEngine({
    root: join(folder, 'tables'),
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 26,
    metadataCacheBytes: 1 << 24,
  });

/** What an external writer does. */
export const byAppending = (stage: Stage, rows: Table) => async () => (await stage.externalWriter()).add(rows);
export const byMerging = (stage: Stage, rows: Table) => async () =>
  (await stage.externalWriter()).mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(rows);

const keyHasher = new KeyHasher(new Uint32Array(8));

const transaction = (version: number) => ({
  id: randomUUID() as TransactionId,
  operation: 'merge_insert' as const,
  branch: undefined,
  version,
  outcome: {},
  committedAtMs: 0,
});

/** Inserted and updated rows; the reason of a refusal. */
export const countsOf = (answers: readonly PromiseSettledResult<WriteCounts>[]): unknown[] =>
  answers.map((answer) =>
    answer.status === 'fulfilled'
      ? [answer.value.numInsertedRows, answer.value.numUpdatedRows]
      : (answer.reason as unknown),
  );
