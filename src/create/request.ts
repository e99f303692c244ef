import { checkStorable } from '../arrow/schema/schema-rules.ts';
import type { Catalog, TableRecord } from '../catalog/port.ts';
import { LancegateError } from '../kernel/errors.ts';
import { showTable } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import { type Keyed, keyedAnswer } from '../operations/idempotency/keyed-request.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { CreateTableCommand, CreateTableResult } from './create-command.ts';
import type { Made, TableMaker } from './table-maker.ts';

/** Creates a table from a stream, in chunks; see `TableMaker` for how it stays atomic. */
export class CreateTable {
  readonly #catalog: Catalog;
  readonly #access: TableAccess;
  readonly #maker: TableMaker;
  readonly #locks: TableLocks;
  readonly #datasets: OpenDatasets;

  constructor(parts: {
    catalog: Catalog;
    access: TableAccess;
    maker: TableMaker;
    locks: TableLocks;
    datasets: OpenDatasets;
  }) {
    this.#catalog = parts.catalog;
    this.#access = parts.access;
    this.#maker = parts.maker;
    this.#locks = parts.locks;
    this.#datasets = parts.datasets;
  }

  /** A `keyed` request's answer is recorded with the publication; one that finds its table there, by itself. */
  async run(command: CreateTableCommand, scope: RequestScope, keyed: Keyed | undefined): Promise<CreateTableResult> {
    await this.#requireNamespace(command);
    const existing = await this.#catalog.findTable(command.table);
    if (existing?.state === 'created' && command.mode === 'exist_ok') return this.#answerExisting(existing, keyed);
    if (existing?.state === 'created' && command.mode === 'create') throw alreadyExists(command);
    checkStorable(await command.source.schema());
    const made = await this.#make(command, existing, scope, keyed);
    if (existing !== undefined) await this.#discardReplaced(existing, made);
    return this.#answer(made);
  }

  /** Asked before the body is read, so that a hopeless upload ends early; publishing asks again. */
  async #requireNamespace({ table }: CreateTableCommand): Promise<void> {
    if ((await this.#catalog.findNamespace(table.namespace)) !== undefined) return;
    throw new LancegateError('NamespaceNotFound', `the namespace of table '${showTable(table)}' does not exist`);
  }

  #make(
    command: CreateTableCommand,
    existing: TableRecord | undefined,
    scope: RequestScope,
    keyed: Keyed | undefined,
  ): Promise<Made> {
    return this.#maker.make({
      table: command.table,
      existing,
      chunks: command.source.chunks(),
      properties: command.properties,
      storageOptions: command.storageOptions,
      signal: scope.signal,
      operation: 'create_table',
      outcome: (rows) => ({ mode: command.mode, num_inserted_rows: String(rows) }),
      beforePublish: () => this.#locks.lockExclusive(command.table, scope.signal),
      keyed: keyed && { request: keyed.request, answer: (made) => this.#answer(made) },
    });
  }

  async #discardReplaced(existing: TableRecord, made: Made): Promise<void> {
    if (existing.location === made.record.location) return;
    this.#datasets.forget(existing.location);
    await this.#maker.discard(existing.location);
  }

  async #answerExisting(record: TableRecord, keyed: Keyed | undefined): Promise<CreateTableResult> {
    const version = await this.#access.read(record, undefined, undefined, (dataset) => dataset.version());
    const { location, properties, storageOptions } = this.#access.describe(record, undefined);
    const answer = { transactionId: undefined, location, version, properties, storageOptions };
    if (keyed !== undefined) {
      await this.#catalog.recordTransactions([], [keyedAnswer(await keyed.request(), answer)]);
    }
    return answer;
  }

  #answer({ record, transactionId, version, rows }: Made): CreateTableResult {
    const { location, properties, storageOptions } = this.#access.describe(record, undefined);
    return { transactionId, location, version, numInsertedRows: rows, properties, storageOptions };
  }
}

const alreadyExists = ({ table }: CreateTableCommand): LancegateError =>
  new LancegateError('TableAlreadyExists', `table '${showTable(table)}' already exists`);
