import { requireExtendable } from '../arrow/schema/extended-schema.ts';
import type { Schema } from '../arrow/schema/schema.ts';
import { checkStorable, requireSameSchema } from '../arrow/schema/schema-rules.ts';
import type { ArrowSource } from '../arrow/stream/source-reader.ts';
import type { NamespaceCatalog, TableCatalog, TableRecord, TransactionCatalog } from '../catalog/port.ts';
import { namespaceNotFound, tableAlreadyExists } from '../catalog/refusals.ts';
import {
  type Idempotency,
  type IdempotencyHeader,
  type Keyed,
  keyedAnswer,
  type Replayable,
} from '../idempotency/idempotency.ts';
import type { Properties, TableRef, TransactionId } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { OpenDatasets } from '../table/open-datasets.ts';
import {
  leftOutOf,
  rulesOfFirst,
  sourceRulesOf,
  type ToldOfRules,
  toldOfRules,
  validChunks,
} from '../table/row-faults.ts';
import type { RuleTexts } from '../table/standing-rules.ts';
import type { TableAccess } from '../table/table-access.ts';
import type { TableLocks } from '../table/table-locks.ts';
import type { TableMaker } from './table-maker.ts';

export interface CreateTableCommand {
  readonly table: TableRef;
  readonly mode: 'create' | 'exist_ok' | 'overwrite';
  /** `PermissionDenied`. Called where `exist_ok` finds a table: the answer describes one that another principal may have made. */
  readonly requireDescribe: () => void;
  readonly properties: Properties | undefined;
  readonly storageOptions: Properties;
  /** Those that the request says; the properties of the new table may have others. */
  readonly rules: RuleTexts;
  readonly source: ArrowSource;
  readonly idempotency: IdempotencyHeader | undefined;
}

interface CreateTableResult extends ToldOfRules {
  /** undefined if no table was created or replaced, and in replayed answers of earlier releases. */
  readonly numInsertedRows?: number | undefined;
  readonly transactionId: TransactionId | undefined;
  readonly location: string;
  readonly version: number;
  readonly storageOptions: Properties;
  readonly properties: Properties;
}

interface CreateDeps {
  readonly catalog: NamespaceCatalog & TableCatalog & TransactionCatalog;
  readonly access: TableAccess;
  readonly maker: TableMaker;
  readonly locks: TableLocks;
  readonly datasets: OpenDatasets;
}

export const createTable =
  (deps: CreateDeps & { readonly idempotency: Idempotency }) =>
  (command: CreateTableCommand, scope: RequestScope): Promise<Replayable<CreateTableResult>> =>
    deps.idempotency.once('create_table', command, scope, (keyed) => create(deps, command, scope, keyed));

/**
 * Creates a table from a stream: reserves the name, writes the chunks, publishes under the table's lock. What was begun and not
 * published is undone (`TableMaker`). The answer of a `keyed` request is recorded with the publication, or by itself if the table was
 * there already.
 */
async function create(
  deps: CreateDeps,
  command: CreateTableCommand,
  scope: RequestScope,
  keyed: Keyed | undefined,
): Promise<CreateTableResult> {
  const { catalog, access, maker, locks, datasets } = deps;
  const { table, mode, source } = command;
  // A hopeless upload ends before its body is read; publishing checks it again.
  if ((await catalog.findNamespace(table.namespace)) === undefined) throw namespaceNotFound(table.namespace);
  const record = await catalog.findTable(table);
  // A dataset that a program of files has written for a declared table, and that cannot be read, is the maker's to refuse.
  const existing = record?.state === 'declared' ? await access.adopted(record).catch(() => record) : record;
  const properties = command.properties ?? (existing?.state === 'declared' ? existing.properties : {});
  const rulesWith = (metadata: Schema['metadata']) => sourceRulesOf(command.rules, properties, metadata);
  if (existing?.state === 'created' && mode === 'exist_ok') {
    command.requireDescribe();
    leftOutOf(source, rulesWith(new Map()).invalid);
    return answerExisting(deps, existing, command, keyed);
  }
  if (existing?.state === 'created' && mode === 'create') throw tableAlreadyExists(table);
  const { schema, ...taking } = await rulesOfFirst(source, rulesWith);
  checkStorable(schema);
  await using creation = await maker.begin({ ...command, existing });
  const written = await creation.write(validChunks(source, taking, undefined), scope.signal);
  const { transactionId, version, rows } = written;
  const told = toldOfRules(taking);
  const answer = { transactionId, version, numInsertedRows: rows, ...shown(deps, written.record), ...told };
  const request = await keyed?.request(); // the body has passed by now, so nothing waits for it under the lock
  const release = await locks.lockExclusive(table, scope.signal);
  try {
    scope.signal.throwIfAborted();
    await creation.publish(written, {
      operation: 'create_table',
      outcome: {
        mode,
        num_inserted_rows: String(rows),
        ...(told.numInvalidRows !== undefined && { num_invalid_rows: String(told.numInvalidRows) }),
      },
      answer: request && keyedAnswer(request, answer),
    });
  } finally {
    release();
  }
  if (existing !== undefined && existing.location !== written.record.location) {
    datasets.forget(existing.location);
    await maker.discard(existing);
  }
  return answer;
}

/**
 * Refuses a source of another schema, whose sender could not write to the table that is there. Embedded LanceDB refuses it too. Where
 * sources may extend the table, it is one whose columns the table neither has nor could get. Nothing is added: the rows are not taken
 * either.
 */
async function answerExisting(
  deps: CreateDeps,
  record: TableRecord,
  { source, rules }: CreateTableCommand,
  keyed: Keyed | undefined,
): Promise<CreateTableResult> {
  const wanted = await source.schema();
  const version = await deps.access.read(record, undefined, undefined, async (dataset) => {
    const { schema } = await dataset.columns();
    if (sourceRulesOf(rules, record.properties, schema.metadata).extends) requireExtendable(wanted, schema);
    else requireSameSchema(wanted, schema);
    return dataset.version();
  });
  const answer = { transactionId: undefined, version, ...shown(deps, record) };
  if (keyed !== undefined) {
    await deps.catalog.recordTransactions([], [keyedAnswer(await keyed.request(), answer)]);
  }
  return answer;
}

function shown({ access }: CreateDeps, record: Omit<TableRecord, 'id'>) {
  const { location, properties, storageOptions } = access.describe(record, undefined);
  return { location, properties, storageOptions };
}
