/** The service as this model drives and reads it: over HTTP alone. */
import assert from 'node:assert/strict';
import { type Clock, systemClock } from '#src/kernel/clock.ts';
import type { Answer, HeaderFields, TestService } from '#test/fixtures/service.ts';
import { eventually } from '#test/http/eventually.ts';
import { type Condition, conditionSql } from '../conditions.ts';
import { rowsOfFile } from '../subject.ts';
import type { Row } from '../values.ts';
import { type Request, tableRequest } from './operation.ts';
import { requestOf, type Step } from './operations.ts';
import type { World } from './world.ts';

type Service = Pick<TestService, 'post' | 'get' | 'restart'>;
type Body = Readonly<Record<string, unknown>>;

/** Runs ahead of the machine's while a step says so, as if the retention of all versions had ended. */
export class RetentionClock implements Clock {
  aheadMs = 0;
  readonly schedule = systemClock.schedule.bind(systemClock);
  nowMs = (): number => systemClock.nowMs() + this.aheadMs;
}

export interface Described {
  readonly version: number;
  readonly columns: readonly {
    readonly name: string;
    readonly type: string;
    readonly nullable: boolean;
    readonly metadata: Readonly<Record<string, string>>;
  }[];
  readonly metadata: Readonly<Record<string, string>>;
}

export class OperationsSubject {
  readonly #service: Service;
  readonly #clock: RetentionClock;
  readonly root: string;

  /** Each sequence has a namespace for itself. */
  static async open(service: Service, clock: RetentionClock, root: string): Promise<OperationsSubject> {
    const { status, body } = await service.post(`/v1/namespace/${root}/create`, {});
    assert.equal(status, 200, JSON.stringify(body));
    return new OperationsSubject(service, clock, root);
  }

  private constructor(service: Service, clock: RetentionClock, root: string) {
    this.#service = service;
    this.#clock = clock;
    this.root = root;
  }

  async apply(world: World, step: Step): Promise<Answer> {
    const request = requestOf(world, step);
    if (request === undefined) {
      await this.#service.restart();
      return { status: 200, headers: new Headers(), body: {} };
    }
    this.#clock.aheadMs = step.kind === 'maintain' && step.isLater ? retentionMs * 2 : 0;
    try {
      const answer = await this.#send(request);
      const { job_id: job } = (answer.body ?? {}) as Body;
      return job === undefined ? answer : await this.#afterJob(String(job), answer, request);
    } finally {
      this.#clock.aheadMs = 0;
    }
  }

  async describe(table: string, branch: string, version?: number): Promise<Described> {
    const body = await this.#ask(table, 'describe', { branch, version });
    const { fields, metadata = {} } = body.schema as { fields: DescribedField[]; metadata?: Described['metadata'] };
    const columns = fields.map(({ name, type, nullable, metadata: of = {} }) => ({
      name,
      type: type.type,
      nullable,
      metadata: of,
    }));
    return { version: Number(body.version), columns, metadata };
  }

  /** The state of a table that may not be there. */
  async stateOf(table: string): Promise<'created' | 'declared' | undefined> {
    const { status, body } = await this.#send(tableRequest(table, 'describe', {}));
    if (status === 404) return undefined;
    return (body as Body).is_only_declared === true ? 'declared' : 'created';
  }

  async rows(table: string, branch: string, version?: number, filter?: Condition): Promise<readonly Row[]> {
    const request = { branch, version, filter: filter && conditionSql(filter) };
    return rowsOfFile((await this.#ask(table, 'query', request)) as unknown as Buffer);
  }

  count = async (table: string, branch: string, version?: number): Promise<unknown> =>
    this.#ask(table, 'count_rows', { branch, version });

  /** The oldest first. */
  async versions(table: string, branch: string): Promise<readonly number[]> {
    const { versions } = await this.#ask(table, 'version/list', { branch, limit: 10_000, descending: false });
    return (versions as { version: number }[]).map(({ version }) => version);
  }

  async indexes(table: string, branch: string): Promise<ReadonlyMap<string, string>> {
    const { indexes } = await this.#ask(table, 'index/list', { branch, limit: 1_000 });
    const listed = indexes as { index_name: string; columns: string[] }[];
    return new Map(listed.map(({ index_name: name, columns }) => [name, columns.join()]));
  }

  async branches(table: string): Promise<Readonly<Record<string, BranchListed>>> {
    return (await this.#ask(table, 'branches/list', {})).branches as Record<string, BranchListed>;
  }

  async tags(table: string): Promise<Readonly<Record<string, { readonly branch?: string; readonly version: number }>>> {
    return (await this.#ask(table, 'tags/list', {})).tags as Record<string, { branch?: string; version: number }>;
  }

  async list(namespace: string, what: 'tables' | 'namespaces'): Promise<readonly string[]> {
    const path = `/v1/namespace/${this.#id(namespace)}/${what === 'tables' ? 'table/' : ''}list`;
    const { status, body } = await this.#service.get(path);
    assert.equal(status, 200, `${path} ${JSON.stringify(body)}`);
    return body[what] as readonly string[];
  }

  #id = (name: string): string => encodeURIComponent(name === '' ? this.root : `${this.root}$${name}`);

  #send({ of, id, operation, body, headers }: Request): Promise<Answer> {
    return this.#service.post(`/v1/${of}/${this.#id(id)}/${operation}`, body, headers as HeaderFields);
  }

  async #ask(table: string, operation: string, body: object): Promise<Body> {
    const answer = await this.#send(tableRequest(table, operation, body));
    assert.equal(
      answer.status,
      200,
      `${operation} of ${table}: ${JSON.stringify(body)} ${JSON.stringify(answer.body)}`,
    );
    return answer.body;
  }

  /** The build of an index that takes long goes on after the answer. */
  async #afterJob(job: string, answer: Answer, { id, body }: Request): Promise<Answer> {
    let state: unknown;
    await eventually('the index is built', async () => {
      state = (await this.#service.post('/v1/jobs/describe', { job_id: job })).body.job_state;
      return state !== 'IN_PROGRESS';
    });
    assert.equal(state, 'DONE', 'the job that builds the index');
    const { branch = 'main' } = body as { branch?: string };
    return { ...answer, body: { version: (await this.describe(id, branch)).version } };
  }
}

/** The service must be started with it. */
export const retentionMs = 15 * 60_000;

interface DescribedField {
  readonly name: string;
  readonly type: { readonly type: string };
  readonly nullable: boolean;
  readonly metadata?: Readonly<Record<string, string>>;
}

export interface BranchListed {
  readonly parentBranch?: string;
  readonly parentVersion: number;
}
