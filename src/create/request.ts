import type { Schema } from '../arrow/schema/schema.ts';
import { checkStorable, requireSameSchema } from '../arrow/schema/schema-rules.ts';
import type { NamespaceCatalog, TableCatalog, TableRecord, TransactionCatalog } from '../catalog/port.ts';
import { namespaceNotFound, tableAlreadyExists } from '../catalog/refusals.ts';
import { type Idempotency, type Keyed, keyedAnswer, type Replayable } from '../idempotency/idempotency.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { CreateTableCommand, CreateTableResult } from './create-command.ts';
import type { TableMaker, WrittenTable } from './table-maker.ts';

interface CreateDeps {
  readonly catalog: NamespaceCatalog & TableCatalog & TransactionCatalog;
  readonly access: TableAccess;
  readonly maker: TableMaker;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
}

export function createTable(deps: CreateDeps & { idempotency: Idempotency }) {
  const creation = new CreateTable(deps);
  return (command: CreateTableCommand, scope: RequestScope): Promise<Replayable<CreateTableResult>> =>
    deps.idempotency.once('create_table', command, scope, (keyed) => creation.run(command, scope, keyed));
}

/**
 * Creates a table from a stream: reserve the name, write the chunks, publish under the table's lock. What was begun and not
 * published is undone (`TableMaker`).
 */
class CreateTable {
  readonly #deps: CreateDeps;

  constructor(deps: CreateDeps) {
    this.#deps = deps;
  }

  /** The answer of a `keyed` request is recorded with the publication, or by itself if the table was there already. */
  async run(command: CreateTableCommand, scope: RequestScope, keyed: Keyed | undefined): Promise<CreateTableResult> {
    await this.#requireNamespace(command);
    const existing = await this.#find(command);
    if (existing?.state === 'created' && command.mode === 'exist_ok') {
      command.requireDescribe();
      return this.#answerExisting(existing, await command.source.schema(), keyed);
    }
    if (existing?.state === 'created' && command.mode === 'create') throw tableAlreadyExists(command.table);
    checkStorable(await command.source.schema());
    const { source, mode } = command;
    await using creation = await this.#deps.maker.begin({ ...command, existing });
    const written = await creation.write(source.chunks(), scope.signal);
    const answer = this.#answer(written);
    const request = await keyed?.request(); // the body has passed by now, so nothing waits for it under the lock
    const release = await this.#deps.locks.lockExclusive(command.table, scope.signal);
    try {
      scope.signal.throwIfAborted();
      await creation.publish(written, {
        operation: 'create_table',
        outcome: { mode, num_inserted_rows: String(written.rows) },
        answer: request && keyedAnswer(request, answer),
      });
    } finally {
      release();
    }
    if (existing !== undefined) await this.#discardReplaced(existing, written);
    return answer;
  }

  /** Checked before the body is read, so that a hopeless upload ends early; publishing checks it again. */
  async #requireNamespace({ table }: CreateTableCommand): Promise<void> {
    if ((await this.#deps.catalog.findNamespace(table.namespace)) !== undefined) return;
    throw namespaceNotFound(table.namespace);
  }

  /** A dataset that a program of files has written for a declared table, and that cannot be read, is the maker's to refuse. */
  async #find({ table }: CreateTableCommand): Promise<TableRecord | undefined> {
    const { catalog, access } = this.#deps;
    const record = await catalog.findTable(table);
    return record?.state === 'declared' ? access.adopted(record).catch(() => record) : record;
  }

  async #discardReplaced(existing: TableRecord, { record }: WrittenTable): Promise<void> {
    if (existing.location === record.location) return;
    this.#deps.datasets.forget(existing.location);
    await this.#deps.maker.discard(existing);
  }

  /** As embedded LanceDB: whoever asks for a table of another schema could not write to this one. */
  async #answerExisting(record: TableRecord, wanted: Schema, keyed: Keyed | undefined): Promise<CreateTableResult> {
    const version = await this.#deps.access.read(record, undefined, undefined, async (dataset) => {
      requireSameSchema(wanted, (await dataset.columns()).schema);
      return dataset.version();
    });
    const { location, properties, storageOptions } = this.#deps.access.describe(record, undefined);
    const answer = { transactionId: undefined, location, version, properties, storageOptions };
    if (keyed !== undefined) {
      await this.#deps.catalog.recordTransactions([], [keyedAnswer(await keyed.request(), answer)]);
    }
    return answer;
  }

  #answer({ record, transactionId, version, rows }: WrittenTable): CreateTableResult {
    const { location, properties, storageOptions } = this.#deps.access.describe(record, undefined);
    return { transactionId, location, version, numInsertedRows: rows, properties, storageOptions };
  }
}
