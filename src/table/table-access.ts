import { nullBytesPerRow } from '../arrow/column/fitted-rows.ts';
import { isFitted } from '../arrow/schema/fitted-schema.ts';
import type { IpcChunk, Schema } from '../arrow/schema/schema.ts';
import type { CreationCatalog, TableCatalog, TableRecord } from '../catalog/port.ts';
import { tableNotFound } from '../catalog/refusals.ts';
import type { TableColumns } from '../engine/port/column-view.ts';
import type { Branched, BranchHead, History, Snapshot } from '../engine/port/dataset.ts';
import type { BranchRecovery, Datasets, Locations } from '../engine/port/engine.ts';
import type { Indexed } from '../engine/port/indexes.ts';
import type { Tagged } from '../engine/port/stored-tags.ts';
import { LancegateError } from '../kernel/errors.ts';
import { type BranchName, type Properties, showTable, type TableRef } from '../kernel/ids.ts';
import type { OpenDatasets } from './open-datasets.ts';

export interface TableDescription {
  readonly table: TableRef;
  readonly location: string;
  readonly properties: Properties;
  readonly storageOptions: Properties;
  /** Absent for a table that is only declared. */
  readonly created: { readonly version: number; readonly schema: Schema } | undefined;
}

/** What a client asks to read: a branch at a version, or at the newest. */
export interface ReadTarget {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly version?: number | undefined;
}

/** What `read` gives; `StorageUnavailable` where `read` would wait in vain. */
export type WhileStorageAnswers = <Result>(read: () => Promise<Result>) => Promise<Result>;

export const branchOfDeclared = ({ ref }: TableRecord): LancegateError =>
  new LancegateError('TableBranchNotFound', `table '${showTable(ref)}' is only declared and has no branch but main`);

/** A table that is only declared is read as one without rows: main, at its newest version. Any other is not there. */
export function isNothing(record: TableRecord, { branch, version }: Omit<ReadTarget, 'table'>): boolean {
  if (record.state === 'created') return false;
  if (branch !== undefined) throw branchOfDeclared(record);
  if (version === undefined) return true;
  const name = showTable(record.ref);
  throw new LancegateError('TableVersionNotFound', `table '${name}' is only declared and has no version`);
}

/** Throws `InvalidTableState` for a table that is only declared. */
export function requireCreated({ ref, state }: TableRecord): void {
  if (state === 'created') return;
  throw new LancegateError(
    'InvalidTableState',
    `table '${showTable(ref)}' is declared but not yet created: create it, or merge rows into it, first`,
  );
}

/** How operations find tables and read what is on storage. */
export class TableAccess {
  readonly #catalog: TableCatalog & Pick<CreationCatalog, 'unfinished'>;
  readonly #engine: Locations & Datasets & Pick<BranchRecovery, 'newestVersion'>;
  readonly #datasets: OpenDatasets;
  readonly #whileStorageAnswers: WhileStorageAnswers;

  constructor(
    catalog: TableCatalog & Pick<CreationCatalog, 'unfinished'>,
    engine: Locations & Datasets & Pick<BranchRecovery, 'newestVersion'>,
    datasets: OpenDatasets,
    whileStorageAnswers: WhileStorageAnswers,
  ) {
    this.#catalog = catalog;
    this.#engine = engine;
    this.#datasets = datasets;
    this.#whileStorageAnswers = whileStorageAnswers;
  }

  /**
   * Returns the record of a table. A declared one for which another program has written files becomes a table of these (`adopted`).
   * `TableNotFound`; the reason why the files cannot be read.
   */
  async find(table: TableRef): Promise<TableRecord> {
    const record = await this.known(table);
    return record.state === 'declared' ? this.adopted(record) : record;
  }

  /** Returns the record of the catalog, whatever is on storage: for callers that need the name alone. `TableNotFound`. */
  async known(table: TableRef): Promise<TableRecord> {
    const record = await this.#catalog.findTable(table);
    if (record === undefined) throw tableNotFound(table);
    return record;
  }

  /**
   * Programs of files ask for the name and the location alone, and write a dataset there: that is the table then. Of a create that is
   * under way nothing is seen. Of replicas the owner takes it, and the others read it. Throws why what is there cannot be read.
   */
  async adopted(declared: TableRecord): Promise<TableRecord> {
    const { ref, location, properties, id: replaces } = declared;
    const newest = await this.#engine.newestVersion({ location, branch: undefined }).catch(() => 0);
    const found = newest ? await this.#engine.resolve(location) : undefined;
    if (found === undefined) return declared;
    try {
      const seen = await this.#catalog.locationsAt(found.location, found.spelling);
      const dataset = await this.#engine.open({ location });
      await dataset.sync(0).finally(() => dataset.close());
      return await this.#catalog.registerTable({ ref, properties, seen, ...found, replaces });
    } catch (error) {
      const kind = error instanceof LancegateError ? error.kind : undefined;
      if (kind !== 'ConcurrentCreate' && kind !== 'WriterMoved') throw error;
      // Another create, replica or request has the name meanwhile, or had it all along: then this replica only reads.
      const { creations } = await this.#catalog.unfinished(ref);
      const now = (await this.#catalog.findTable(ref)) ?? declared;
      const isReadable = kind === 'WriterMoved' && now.state === 'declared' && creations.length === 0;
      return isReadable ? { ...now, state: 'created' } : now;
    }
  }

  /** `TableNotFound`; `InvalidTableState` for a table that is only declared. */
  async findCreated(table: TableRef): Promise<TableRecord> {
    const record = await this.find(table);
    requireCreated(record);
    return record;
  }

  /**
   * Finds a table again that a request was checked against: the check does not hold for one that was dropped or replaced since.
   */
  async requireUnchanged(record: TableRecord): Promise<TableRecord> {
    const now = await this.findCreated(record.ref);
    if (now.id === record.id) return now;
    throw new LancegateError(
      'ConcurrentModification',
      `table '${showTable(record.ref)}' was replaced while the write waited; nothing was written`,
      { retryAfterSeconds: 1 },
    );
  }

  /** Returns a branch at its newest version, shared with other requests. */
  latest(
    record: TableRecord,
    branch: BranchName | undefined,
  ): Promise<Snapshot & BranchHead & History & Branched & Tagged> {
    return this.readFilesOf(record, () => this.#datasets.latest(record.location, branch));
  }

  /** Returns a branch as it was last seen, without asking the storage whether it has grown. */
  lastSeen(record: TableRecord, branch: BranchName | undefined): Promise<Snapshot & BranchHead> {
    return this.onFilesOf(record, () => this.#datasets.lastSeen(record.location, branch));
  }

  /** Runs `read` on a branch, at a version if one is given. */
  read<Result>(
    record: TableRecord,
    branch: BranchName | undefined,
    version: number | undefined,
    read: (dataset: Snapshot & History & Indexed) => Promise<Result>,
  ): Promise<Result> {
    return this.readFilesOf(record, async () => {
      if (version === undefined) return read(await this.#datasets.latest(record.location, branch));
      const dataset = await this.#engine.open({ location: record.location, branch, version });
      try {
        return await read(dataset);
      } finally {
        dataset.close();
      }
    });
  }

  /** Finds the table as `findCreated` does, and reads. */
  async readCreated<Result>(
    { table, branch, version }: ReadTarget,
    read: (dataset: Snapshot & History & Indexed) => Promise<Result>,
  ): Promise<Result> {
    return this.read(await this.findCreated(table), branch, version, read);
  }

  /** Does what `onFilesOf` does; `StorageUnavailable` as soon as it is known that the storage does not answer. */
  readFilesOf<Result>(record: TableRecord, read: () => Promise<Result>): Promise<Result> {
    return this.onFilesOf(record, () => this.#whileStorageAnswers(read));
  }

  /**
   * All work on a table's files goes through this. Readers take no lock, so the table may be dropped or replaced while they
   * read: then the error says so. Files that are missing although the catalog points at them are lost, which is a fault of the
   * service and never "no such table".
   */
  async onFilesOf<Result>(record: TableRecord, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      const kind = error instanceof LancegateError ? error.kind : undefined;
      if (kind !== 'TableNotFound' && kind !== 'TableDamaged' && kind !== 'Internal') throw error;
      const now = await this.find(record.ref);
      if (now.location !== record.location)
        throw new LancegateError('ConcurrentModification', `table '${showTable(record.ref)}' was replaced meanwhile`, {
          cause: error,
          retryAfterSeconds: 1,
        });
      if (kind !== 'TableNotFound') throw error;
      throw new LancegateError('TableDamaged', 'the table is damaged on storage: its folder is missing', {
        cause: error,
        internal: { location: record.location },
      });
    }
  }

  describe(record: Omit<TableRecord, 'id'>, created: TableDescription['created']): TableDescription {
    const { ref, location, properties, storageOptions } = record;
    return { table: ref, location: this.#engine.uriOf(location), properties, storageOptions, created };
  }
}

/**
 * Returns the schema of the table, which a source fits: `requireFit` throws where it does not. It is taken as last seen; before
 * it leads to a refusal it is looked up again, since a writer outside this service may have changed it.
 */
export async function fittingSchema(
  dataset: Pick<Snapshot & BranchHead, 'columns' | 'refresh'>,
  requireFit: (table: Schema) => void,
): Promise<TableColumns> {
  const read = async (): Promise<TableColumns> => {
    const columns = await dataset.columns();
    requireFit(columns.schema);
    return columns;
  };
  return read().catch(async () => {
    await dataset.refresh();
    return read();
  });
}

/** Says that these rows fit the table with the schema `checked`, and with any other that `requireFit` lets pass. */
export const fitOf = (
  { schema: source, rows }: Pick<IpcChunk, 'schema' | 'rows'>,
  checked: Schema,
  requireFit: (source: Schema, table: Schema) => void,
) => ({
  checked,
  check: (now: Schema): void => {
    requireFit(source, now);
    if (!isFitted(source, now)) throw columnsAdded();
    const more = nullBytesPerRow(source, now) - nullBytesPerRow(source, checked);
    // The memory for NULLs in columns that came meanwhile is not reserved: many of them have to be sent again.
    if (more * rows > 16 * 2 ** 20) throw columnsAdded();
  },
});

const columnsAdded = (): LancegateError =>
  new LancegateError(
    'ConcurrentModification',
    'columns were added to the table while the rows waited; nothing was written',
    { retryAfterSeconds: 1 },
  );
