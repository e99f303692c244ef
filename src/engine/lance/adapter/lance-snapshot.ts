import { randomUUID } from 'node:crypto';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { leastRowBytes, type Schema } from '../../../arrow/schema/schema.ts';
import { checkWrittenColumns } from '../../../arrow/schema/schema-rules.ts';
import type { CheckedSql } from '../../../kernel/checked-sql.ts';
import { noLimits } from '../../port/change-limits.ts';
import type { TableColumns } from '../../port/column-view.ts';
import type { Snapshot, TableStatistics } from '../../port/dataset.ts';
import type { Projection } from '../../port/merge-spec.ts';
import type { PlanForm, QuerySpec } from '../../port/query-spec.ts';
import type { ToTry } from '../../port/reader-work.ts';
import { addressesAmong, type RowAddressSql } from '../../port/row-address.ts';
import type { DatasetHead } from '../head/dataset-head.ts';
import { queryOf, resultsOf } from '../native/native.ts';
import {
  countByScan,
  explainQuery,
  namesRows,
  queryResults,
  rowsPerBatch,
  type TableSizes,
} from '../native/native-query.ts';
import { engineCall } from '../native/translate-errors.ts';
import { versionFault } from '../native/version-fault.ts';
import { statisticsOf } from './engine-upkeep.ts';
import type { Surroundings } from './surroundings.ts';

/** What can be read of an open native table, at the version where its head stands. */
export class LanceSnapshot implements Snapshot {
  readonly lineage: string = randomUUID();
  protected readonly head: DatasetHead;
  readonly #readInReader: Surroundings['readInReader'];
  #sizes: (TableSizes & { readonly version: number }) | undefined;

  constructor(head: DatasetHead, readInReader?: Surroundings['readInReader']) {
    this.head = head;
    this.#readInReader = readInReader;
  }

  version(): Promise<number> {
    return engineCall('open', () => this.head.version());
  }

  schema(): Promise<Schema> {
    return engineCall('open', async () => (await this.head.columns()).schema);
  }

  columns(): Promise<TableColumns> {
    return engineCall('open', () => this.head.columns());
  }

  countRows(filter?: CheckedSql): Promise<number> {
    return engineCall(filter === undefined ? 'select' : 'count', async () => {
      const table = await this.head.table();
      return filter !== undefined && namesRows(filter) ? countByScan(table, filter) : table.countRows(filter);
    });
  }

  async *select(
    columns: readonly Projection[],
    where: CheckedSql | undefined,
    limits = noLimits,
  ): AsyncIterable<IpcFile> {
    if (this.#readInReader === undefined) {
      yield* resultsOf(async () => queryOf(await this.head.table(), where), columns);
      return;
    }
    yield* this.#readInReader({ columns, where, rows: undefined, version: await this.version(), ...limits });
  }

  /** Rows with identifiers of their own are found by a condition. */
  take(rows: readonly RowAddressSql[], columns?: readonly Projection[]): AsyncIterable<IpcFile> {
    if (this.head.hasRowIds) return this.select(columns ?? [], addressesAmong(rows));
    return resultsOf(async () => (await this.head.table()).takeRowIds(rows.map(BigInt)), columns);
  }

  async *query(spec: QuerySpec): AsyncIterable<IpcFile> {
    const table = await engineCall('open', () => this.head.table());
    yield* queryResults(table, spec, await rowsPerBatch(spec, () => this.#sizesOf()));
  }

  /** Asked once for each version: the engine reads all its fragments for it. */
  async #sizesOf(): Promise<TableSizes> {
    const version = await this.version();
    if (this.#sizes?.version !== version) {
      const { bytes, rows } = await this.statistics();
      this.#sizes = { version, bytes, rows, leastRowBytes: leastRowBytes(await this.schema()) };
    }
    return this.#sizes;
  }

  async explain(spec: QuerySpec, form: PlanForm): Promise<string> {
    return explainQuery(await engineCall('open', () => this.head.table()), spec, form);
  }

  fault(toTry: ToTry): Promise<string | undefined> {
    return engineCall('select', async () => {
      const { schema } = await this.head.columns();
      const added = new Set(toTry.columns);
      checkWrittenColumns(schema.fields.filter(({ name }) => added.has(name)));
      return versionFault(await this.head.table(), toTry);
    });
  }

  statistics(): Promise<TableStatistics> {
    return engineCall('open', async () => statisticsOf(await this.head.table()));
  }

  close(): void {
    this.head.close();
  }
}
