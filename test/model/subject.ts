/** The service as the model drives it: steps become requests, and LanceDB itself reads what was stored. */
import assert from 'node:assert/strict';
import { basename, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { connect, Index, type Table as LanceTable } from '@lancedb/lancedb';
import { decodeFile } from '#test/fixtures/column-decoder.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { encodeRows } from './columns.ts';
import type { Counts } from './merge-rows.ts';
import { main } from './reference.ts';
import { mergeParameters, type Source, type Step } from './steps.ts';
import type { Row, Value } from './values.ts';

export type Answer =
  | { readonly refused: number; readonly why: string }
  | { readonly counts: Counts; readonly version: number | undefined };

interface Description {
  readonly version: number;
  readonly columns: readonly string[];
  readonly location: string;
}

interface Body {
  readonly [field: string]: unknown;
  readonly version?: number;
  readonly code?: number;
}

/** Native parts of LanceDB's public table: results as IPC files, which keep every type, and branches. */
interface NativeTable {
  branches(): Promise<{ checkout(name: string): Promise<NativeTable> }>;
  checkout(version: number): Promise<void>;
  query(): { execute(): Promise<{ next(): Promise<Buffer | null> }> };
  close(): void;
}

export class Subject {
  readonly #service: Pick<TestService, 'post' | 'restart'>;
  readonly #namespace: string;
  readonly #hasRowIds: boolean;

  /** Each sequence has a namespace for itself. `hasRowIds`: the rows of its tables have ids of their own. */
  static async open(
    service: Pick<TestService, 'post' | 'restart'>,
    namespace: string,
    hasRowIds = false,
  ): Promise<Subject> {
    const { status, body } = await service.post(`/v1/namespace/${namespace}/create`, {});
    assert.equal(status, 200, JSON.stringify(body));
    return new Subject(service, namespace, hasRowIds);
  }

  private constructor(service: Pick<TestService, 'post' | 'restart'>, namespace: string, hasRowIds: boolean) {
    this.#service = service;
    this.#namespace = namespace;
    this.#hasRowIds = hasRowIds;
  }

  async apply(step: Step): Promise<Answer> {
    switch (step.kind) {
      case 'create':
        return this.#send(step.table, `create?mode=${step.mode}&${this.#options}`, streamOf(step.source));
      case 'merge':
        return this.#send(step.table, `merge_insert?${mergeParameters(step)}`, streamOf(step.source));
      case 'declare':
      case 'drop':
        return this.#send(step.table, step.kind);
      case 'create branch': {
        const from = { from_branch: step.fromBranch, from_version: step.fromVersion };
        return this.#send(step.table, 'branches/create', { name: step.branch, ...from });
      }
      case 'delete branch':
        return this.#send(step.table, 'branches/delete', { name: step.branch });
      case 'index':
        return this.#index(step.table, step.column);
      case 'restart':
        await this.#service.restart();
        return { counts: noCounts, version: undefined };
    }
  }

  async describe(table: string, branch: string): Promise<Description> {
    const { body } = await this.#service.post<Body>(this.#path(table, 'describe'), { branch });
    const { fields = [] } = (body.schema ?? {}) as { fields?: { name: string }[] };
    return { version: body.version ?? -1, columns: fields.map(({ name }) => name), location: String(body.location) };
  }

  /** Undefined for a table that does not exist. */
  async isDeclaredOnly(table: string): Promise<boolean | undefined> {
    const { status, body } = await this.#service.post<Body>(this.#path(table, 'describe'), {});
    return status === 404 ? undefined : body.is_only_declared === true;
  }

  async countRows(table: string, branch: string, version: number): Promise<unknown> {
    return (await this.#service.post<unknown>(this.#path(table, 'count_rows'), { branch, version })).body;
  }

  /** What is stored, as LanceDB alone reads it. */
  async storedRows(location: string, branch: string, version?: number): Promise<readonly Row[]> {
    const table = nativeOf(await openStored(location));
    const opened = branch === main ? table : await (await table.branches()).checkout(branch);
    if (version !== undefined) await opened.checkout(version);
    const rows: Row[] = [];
    const batches = await opened.query().execute();
    for (let file = await batches.next(); file !== null; file = await batches.next()) rows.push(...rowsOfFile(file));
    opened.close();
    return rows;
  }

  async #index(table: string, column: string): Promise<Answer> {
    const { location, version } = await this.describe(table, main);
    if (version === -1) return { refused: 4, why: 'nothing to index' };
    const stored = await openStored(location);
    await stored.createIndex(column, { config: Index.btree() });
    return { counts: noCounts, version: await stored.version() };
  }

  get #options(): string {
    const options = { new_table_enable_stable_row_ids: String(this.#hasRowIds) };
    return `storage_options=${encodeURIComponent(JSON.stringify(options))}`;
  }

  #path(table: string, operation: string): string {
    return `/v1/table/${this.#namespace}$${table}/${operation}`;
  }

  async #send(table: string, operation: string, body?: Buffer | object): Promise<Answer> {
    const answer = await this.#service.post<Body>(this.#path(table, operation), body);
    if (answer.status !== 200) {
      return { refused: answer.body.code ?? -1, why: `${answer.status} ${JSON.stringify(answer.body)}` };
    }
    const { version, num_inserted_rows = 0, num_updated_rows = 0, num_deleted_rows = 0 } = answer.body;
    const counts = { inserted: num_inserted_rows, updated: num_updated_rows, deleted: num_deleted_rows } as Counts;
    return { counts, version };
  }
}

const noCounts: Counts = { inserted: 0, updated: 0, deleted: 0 };

const streamOf = ({ columns, rows, batches, codec }: Source): Buffer => encodeRows(columns, rows, batches, codec);

async function openStored(location: string): Promise<LanceTable> {
  const path = fileURLToPath(location);
  return (await connect(dirname(path))).openTable(basename(path, '.lance'));
}

const nativeOf = (table: LanceTable): NativeTable => (table as unknown as { inner: NativeTable }).inner;

export function rowsOfFile(file: Buffer): Row[] {
  const columns = Object.entries(decodeFile(file)) as [string, Value[]][];
  const count = columns[0]?.[1].length ?? 0;
  return Array.from({ length: count }, (_, i) =>
    Object.fromEntries(columns.map(([name, values]) => [name, values[i] ?? null])),
  );
}
