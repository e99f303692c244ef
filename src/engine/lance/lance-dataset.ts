import { readSchemaOfIpcFile } from '../../arrow/read-schema.ts';
import type { Schema } from '../../arrow/schema.ts';
import type { IpcFile } from '../../arrow/source.ts';
import type { BranchName } from '../../kernel/ids.ts';
import {
  type PreparedMove,
  type Replacing,
  type RowAddress,
  type RowPlace,
  rowAddress,
  type TrackedRows,
} from '../places.ts';
import type {
  BranchFacts,
  Dataset,
  Layout,
  MergeCounts,
  MergeSpec,
  OptimizeRequest,
  OptimizeResult,
  Projection,
  RowChange,
  VersionFacts,
} from '../port.ts';
import { branchesOf } from './branches-of.ts';
import { changedRows } from './changed-rows.ts';
import type { Durability } from './durability.ts';
import type { FragmentMove } from './fragment-move.ts';
import { IndexChoice } from './index-choice.ts';
import { configured, filterName } from './merge-builder.ts';
import { type NativeIndex, type NativeTable, nativeBtree } from './native.ts';
import { schemaOfNullColumn } from './null-column.ts';
import { resultsOf } from './query-results.ts';
import { rowChangeBetween } from './row-change.ts';
import type { RowReplacement } from './row-replacement.ts';
import { FragmentRows } from './tracked-rows.ts';
import { hasTransactionOn } from './transaction-files.ts';
import { type EngineCall, engineCall } from './translate-errors.ts';
import { layoutOf, oldestTaggedAtMs, optimize, plainIndexName, versionsOf } from './upkeep.ts';
import type { VersionsFolder } from './versions-folder.ts';

/** The caches that a dataset was opened with. */
export interface DatasetCaches {
  areReplaced(): boolean;
  /** Whether an index of so many bytes can be kept, which may take other caches than these. */
  makeRoom(column: string, bytes: number): boolean;
  /** The newest version, with the caches there are now. */
  open(): Promise<NativeTable>;
}

interface Surroundings {
  readonly lineage?: symbol | undefined;
  /** Of a branch at its newest version. */
  readonly caches?: DatasetCaches;
  /** Of such a one on a file system. */
  readonly versions?: VersionsFolder;
  readonly durability?: Durability;
  readonly replacement?: RowReplacement;
}

/** One open native table, on one branch. */
export class LanceDataset implements Dataset {
  readonly lineage: symbol;
  readonly #table: NativeTable;
  readonly #caches: DatasetCaches | undefined;
  readonly #versions: VersionsFolder | undefined;
  readonly #durability: Durability | undefined;
  readonly #replacement: RowReplacement | undefined;
  readonly #indexChoice: IndexChoice | undefined;
  /** Where the native table stands, if that is known: each question to it costs 0.1 ms, and a merge has several. */
  #version: number | undefined;
  /** A commit was made beside the native table, which stands at the version before. */
  #isBehind = false;
  #seen: { readonly version: number; readonly schema: Schema } | undefined;

  /** On object stores every refresh asks the engine, and what is written counts as durable at once. */
  constructor(table: NativeTable, surroundings: Surroundings = {}) {
    const { lineage, caches, versions, durability, replacement } = surroundings;
    this.lineage = lineage ?? Symbol('dataset');
    this.#table = table;
    this.#caches = caches;
    this.#versions = versions;
    this.#indexChoice = versions && new IndexChoice(versions.path);
    this.#durability = durability;
    this.#replacement = replacement;
  }

  get isOutgrown(): boolean {
    return this.#caches?.areReplaced() === true;
  }

  version(): Promise<number> {
    return engineCall('open', () => this.#currentVersion());
  }

  refresh(): Promise<void> {
    return engineCall('open', async () => {
      const known = this.#versions;
      if (known !== undefined && !known.mayHaveMoreThan(await this.#currentVersion())) return;
      known?.remember();
      await this.#table.checkoutLatest();
      this.#isBehind = false;
      this.#version = undefined;
    });
  }

  async catchUp(): Promise<void> {
    await engineCall('open', () => this.#native());
  }

  /** Read once per version: every merge asks for it, and it rarely changes. */
  schema(): Promise<Schema> {
    return engineCall('open', async () => {
      const version = await this.#currentVersion();
      if (this.#seen?.version === version) return this.#seen.schema;
      const schema = readSchemaOfIpcFile(await (await this.#native()).schema());
      this.#seen = { version, schema };
      return schema;
    });
  }

  countRows(filter?: string): Promise<number> {
    return engineCall('count', async () => (await this.#native()).countRows(filter));
  }

  async *select(columns: readonly Projection[], where: string | undefined): AsyncIterable<IpcFile> {
    const query = (await this.#native()).query();
    query.select(columns.map(({ name, expression }) => [name, expression]));
    if (where !== undefined) query.onlyIf(where);
    yield* resultsOf(query);
  }

  async *take(rows: readonly RowAddress[], columns: readonly Projection[]): AsyncIterable<IpcFile> {
    const query = (await this.#native()).takeRowIds(rows.map(BigInt));
    query.select(columns.map(({ name, expression }) => [name, expression]));
    yield* resultsOf(query);
  }

  async append(file: IpcFile): Promise<void> {
    await this.#commit('append', (table) => table.add(file, 'append'));
  }

  merge(spec: MergeSpec, file: IpcFile, timeoutMs: number | undefined): Promise<MergeCounts> {
    const run = async (): Promise<MergeCounts> => {
      const useIndex = this.#indexChoice?.usesIndex(spec, await this.#currentVersion(), file.length) ?? spec.useIndex;
      const builder = configured((await this.#native()).mergeInsert(spec.on), { ...spec, useIndex });
      if (timeoutMs !== undefined) builder.setTimeout(Math.max(1, Math.floor(timeoutMs)));
      const { version, numInsertedRows, numUpdatedRows, numDeletedRows, numAttempts } = await builder.execute(file);
      const counts = { version, numInsertedRows, numUpdatedRows, numDeletedRows, numAttempts };
      this.#committed(version);
      this.#indexChoice?.merged(counts);
      return counts;
    };
    return engineCall('merge', run, filterName(spec));
  }

  trackRows(): TrackedRows | undefined {
    return this.#replacement && this.#versions && new FragmentRows(this.#versions.path);
  }

  replaceRows(
    tracked: TrackedRows,
    places: Iterable<RowPlace>,
    { file, rows }: { file: IpcFile; rows: number },
  ): Promise<Replacing> {
    return engineCall('replace', async () => {
      if (!(tracked instanceof FragmentRows)) return 'refused';
      if (tracked.version !== (await this.#currentVersion())) return 'overtaken';
      const replaced = (await this.#replacement?.commit(tracked, places, file, rows)) ?? 'refused';
      if (typeof replaced === 'object') {
        this.#committed(replaced.version);
        this.#isBehind = true;
      }
      return replaced;
    });
  }

  gainsByIndex(spec: MergeSpec, sourceBytes: number): Promise<boolean> {
    return engineCall(
      'open',
      async () => this.#indexChoice?.gainsByIndex(spec, await this.#currentVersion(), sourceBytes) ?? spec.useIndex,
    );
  }

  mayHaveCommitted(matched: number): Promise<boolean> {
    return engineCall('open', async () => {
      if (this.#versions !== undefined) return hasTransactionOn(this.#versions.path, matched);
      await this.refresh();
      return (await this.#currentVersion()) > matched;
    });
  }

  deleteRows(addresses: readonly RowAddress[]): Promise<{ readonly numDeletedRows: number }> {
    return engineCall('maintain', async () => {
      const { version, numDeletedRows } = await (await this.#native()).delete(
        `${rowAddress} IN (${addresses.join(', ')})`,
      );
      this.#committed(version);
      return { numDeletedRows };
    });
  }

  async rowChange(after: number, through: number): Promise<RowChange> {
    if (after === through) return 'none';
    return this.#versions === undefined ? 'unknown' : rowChangeBetween(this.#versions.path, after, through);
  }

  async changedRows(version: number, change: 'removed' | 'added'): Promise<readonly RowAddress[] | undefined> {
    return this.#versions && (await changedRows(this.#versions.path, version, change));
  }

  async addNullColumn(name: string): Promise<void> {
    await this.#commit('maintain', (table) => table.addColumnsWithSchema(schemaOfNullColumn(name)));
  }

  async dropColumn(name: string): Promise<void> {
    await this.#commit('maintain', (table) => table.dropColumns([name]));
  }

  createScalarIndex(column: string): Promise<void> {
    return this.#commit('maintain', (table) => table.createIndex(nativeBtree(), column, true));
  }

  warmIndex(column: string): Promise<boolean> {
    return engineCall('maintain', async () => {
      const name = plainIndexName(column);
      const index = (await (await this.#native()).listIndices()).find((each) => each.name === name);
      if (index === undefined || this.#caches === undefined) return true;
      if (!this.#caches.makeRoom(column, bytesInMemory(index))) return false;
      const table = await this.#caches.open();
      await table.prewarmIndex(name).finally(() => table.close());
      return true;
    });
  }

  dropScalarIndex(column: string): Promise<void> {
    return this.#commit('maintain', (table) => table.dropIndex(plainIndexName(column)));
  }

  layout(): Promise<Layout> {
    return engineCall('maintain', async () =>
      layoutOf(await this.#native(), await this.schema(), this.#versions?.path),
    );
  }

  versions(): Promise<readonly VersionFacts[]> {
    return engineCall('maintain', async () => versionsOf(await this.#native()));
  }

  oldestTaggedAtMs(): Promise<number | undefined> {
    return engineCall('maintain', async () => oldestTaggedAtMs(await this.#native()));
  }

  optimize(request: OptimizeRequest): Promise<OptimizeResult> {
    return this.#commit('maintain', (table) => optimize(table, request));
  }

  prepareMove(ids: readonly number[]): Promise<PreparedMove | undefined> {
    return engineCall('maintain', async () => {
      const move = await this.#replacement?.prepareMove(await this.#currentVersion(), ids);
      return move && { commit: () => this.#commitMove(move), discard: () => move.discard() };
    });
  }

  #commitMove(move: FragmentMove): Promise<number | undefined> {
    return engineCall('maintain', async () => {
      const made = move.commit(await this.#currentVersion());
      if (made === undefined) return undefined;
      this.#committed(made.version);
      this.#isBehind = true;
      return made.removedFragments;
    });
  }

  async createBranch(
    name: BranchName,
    from: { branch: BranchName | undefined; version: number | undefined },
  ): Promise<void> {
    await engineCall('branch', async () => {
      const branches = await (await this.#native()).branches();
      const made = await branches.create(name, from.branch ?? null, from.version ?? null);
      await this.#durability?.branchMade(name, await made.version());
      made.close();
    });
  }

  listBranches(): Promise<readonly BranchFacts[]> {
    return engineCall('branch', async () => branchesOf(await this.#native()));
  }

  async deleteBranch(name: BranchName): Promise<void> {
    await engineCall('branch', async () => {
      await (await (await this.#native()).branches()).delete(name);
      await this.#durability?.branchDeleted();
    });
  }

  sync(after?: number): Promise<void> {
    return engineCall('sync', async () => this.#durability?.sync(await this.#currentVersion(), after));
  }

  close(): void {
    this.#table.close();
  }

  /** A merge changes no columns, and asking for them while the next one is under way waits for that. */
  #committed(version: number): void {
    this.#versions?.remember();
    this.#version = version;
    if (this.#seen?.version === version - 1) this.#seen = { version, schema: this.#seen.schema };
  }

  /** Standing at the version of this dataset. */
  async #native(): Promise<NativeTable> {
    if (!this.#isBehind) return this.#table;
    await this.#table.checkoutLatest();
    this.#isBehind = false;
    this.#version = await this.#table.version();
    return this.#table;
  }

  async #currentVersion(): Promise<number> {
    this.#version ??= await (await this.#native()).version();
    return this.#version;
  }

  /** A commit whose version nobody has to know at once. */
  async #commit<Result>(call: EngineCall, run: (table: NativeTable) => Promise<Result>): Promise<Result> {
    const result = await engineCall(call, async () => {
      const table = await this.#native();
      this.#version = undefined;
      return run(table);
    });
    this.#version = undefined;
    return result;
  }
}

/** Keys are stored packed; in memory each takes its row's address beside it, and numbers eight bytes. */
const bytesInMemory = ({ sizeBytes = 0, numIndexedRows = 0 }: NativeIndex): number => sizeBytes + 16 * numIndexedRows;
