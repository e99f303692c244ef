/**
 * Copies that consumers keep by the changes of a table, against the table itself, under random writes of every kind. By hand:
 *   LANCEGATE_CHANGES_SEED=7 LANCEGATE_CHANGES_STEPS=10000 node --test test/model/changes.test.ts
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { connect, type Table } from '@lancedb/lancedb';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { people } from '#test/http/rows.ts';
import { Random } from './random.ts';

const seed = Number(process.env.LANCEGATE_CHANGES_SEED ?? 1);
const steps = Number(process.env.LANCEGATE_CHANGES_STEPS ?? 60);

type Rows = Map<number, string>;

interface Row extends Record<string, unknown> {
  readonly _change?: string;
  readonly id: number;
}

/** A copy of the table at a version. */
class Copy {
  readonly after: () => object;
  readonly rows: Rows = new Map();
  version = 0;

  constructor(consumer?: string) {
    this.after = () => (consumer === undefined || this.version === 0 ? { after: this.version } : { consumer });
  }

  begin(rows: Rows, version: number): void {
    this.rows.clear();
    for (const [id, row] of rows) this.rows.set(id, row);
    this.version = version;
  }

  apply(changes: readonly Row[], version: number): void {
    const seen = new Set<number>();
    for (const { _change: change, _version: at, ...row } of changes) {
      assert.ok(!seen.has(row.id), `key ${row.id} comes twice`);
      seen.add(row.id);
      assert.ok(Number(at) > this.version && Number(at) <= version, `_version ${at}, after ${this.version}`);
      assert.equal(this.rows.has(row.id), change !== 'insert', `${change} of ${row.id}`);
      if (change === 'delete') this.rows.delete(row.id);
      else this.rows.set(row.id, textOf(row));
    }
    this.version = version;
  }
}

const textOf = (row: object): string => JSON.stringify(Object.entries(row).sort(([a], [b]) => (a < b ? -1 : 1)));

class Program {
  readonly #service: TestService;
  readonly #name: string;
  readonly #random: Random;
  #columns = 0;

  constructor(service: TestService, name: string, random: Random) {
    this.#service = service;
    this.#name = name;
    this.#random = random;
  }

  async post(path: string, body: object | Uint8Array = {}): Promise<Record<string, unknown>> {
    const answer = await this.#service.post(`/v1/table/${this.#name}/${path}`, body);
    assert.equal(answer.status, 200, `${path} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }

  async ask(
    path: string,
    body: object,
  ): Promise<{ status: number; version: number; rows: readonly Row[]; text: string }> {
    const authorization = `Bearer ${await this.#service.mint('lancegate:read')}`;
    const headers = { authorization, accept: 'application/x-ndjson' };
    const url = `${this.#service.url}/v1/table/${this.#name}/${path}`;
    const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body), headers });
    const text = await answer.text();
    const rows =
      answer.status === 200
        ? text
            .split('\n')
            .filter(Boolean)
            .map((line) => JSON.parse(line) as Row)
        : [];
    return { status: answer.status, version: Number(answer.headers.get('x-lancegate-version')), rows, text };
  }

  async rows(version: number): Promise<Rows> {
    const { status, rows, text } = await this.ask('query', { version });
    assert.equal(status, 200, text);
    return new Map(rows.map((row) => [row.id, textOf(row)]));
  }

  async version(): Promise<number> {
    return Number((await this.post('describe')).version);
  }

  async directly(write: (table: Table) => Promise<unknown>): Promise<void> {
    const table = await (await connect(this.#service.tablesFolder)).openTable(this.#name);
    await write(table);
    table.close();
  }

  #ids(most: number): number[] {
    return [...new Set(Array.from({ length: 1 + this.#random.int(most) }, () => this.#random.int(60)))];
  }

  /** Does one write, and returns which. */
  async step(): Promise<string> {
    const random = this.#random;
    const from = random.int(60);
    const kind = random.weighted(kinds);
    await this.#writes[kind]({
      name: `n${random.int(1_000)}`,
      range: `id >= ${from} AND id < ${from + 1 + random.int(12)}`,
    });
    return kind;
  }

  readonly #writes: Readonly<Record<Kind, (values: { name: string; range: string }) => Promise<unknown>>> = {
    merge: ({ name }) => this.post('merge_insert?on=id', people(this.#ids(this.#random.chance(20) ? 60 : 4), name)),
    'merge by source': ({ name }) => this.post(`merge_insert?on=id&${bySource}`, people(this.#ids(60), name)),
    delete: ({ range: predicate }) => this.post('delete', { predicate }),
    update: ({ range: predicate, name }) => this.post('update', { predicate, updates: [['name', `'${name}'`]] }),
    maintain: () => this.post('maintain'),
    'merge outside': ({ name }) =>
      this.directly((table) => {
        const rows = this.#ids(6).map((id) => ({ id, name }));
        return table.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(rows);
      }),
    'delete outside': ({ range }) => this.directly((table) => table.delete(range)),
    'compact outside': () => this.directly((table) => table.optimize()),
    restore: async () => {
      const { versions } = (await this.post('version/list')) as { versions: readonly { version: number }[] };
      await this.post('restore', { version: this.#random.pick(versions).version });
    },
    overwrite: ({ name }) => this.post('insert?mode=overwrite', people(this.#ids(60), name)),
    'add column': () => {
      this.#columns += 1;
      return this.post('add_columns', { new_columns: [{ name: `c${this.#columns}`, expression: 'id * 2' }] });
    },
    prune: async () =>
      this.post('version/delete', { ranges: [{ start_version: 0, end_version: await this.version() }] }),
    index: () => this.post('create_scalar_index', { column: 'id', index_type: 'BTREE' }),
  };
}

const bySource = 'when_not_matched_by_source_delete=true&when_not_matched_insert_all=true';

const kinds = [
  [30, 'merge'],
  [12, 'delete'],
  [10, 'update'],
  [8, 'maintain'],
  [8, 'merge outside'],
  [4, 'delete outside'],
  [4, 'compact outside'],
  [3, 'restore'],
  [2, 'overwrite'],
  [2, 'add column'],
  [2, 'prune'],
  [2, 'merge by source'],
  [2, 'index'],
] as const;
type Kind = (typeof kinds)[number][1];

describe('a copy that takes the changes of a table is the table', () => {
  let service: TestService;
  const cleanings: (() => void | Promise<void>)[] = [];
  before(async () => {
    service = await startTestService((clean) => cleanings.push(clean), {
      AUTO_MAINTENANCE: 'false',
      VERSION_RETENTION: '1h',
    });
  });
  after(async () => {
    for (const clean of cleanings.reverse()) await clean();
  });

  test('after every write, whatever it was', () => play(service, false));

  test('after every write to a table whose rows have ids', () => play(service, true));
});

/** Each copy is asked for in so many of a hundred rounds, some under the name of a consumer. */
const consumers = [[100], [12, 'slow'], [60, 'steady'], [30]] as const;

async function play(service: TestService, hasRowIds: boolean): Promise<void> {
  const random = new Random(seed);
  const program = new Program(service, `t-${hasRowIds}`, random);
  const options = encodeURIComponent(JSON.stringify({ new_table_enable_stable_row_ids: String(hasRowIds) }));
  await program.post(`create?storage_options=${options}`, people([1, 2, 3], 'x'));
  const copies = consumers.map(([often, consumer]) => ({ often, consumer, copy: new Copy(consumer) }));
  const done: string[] = [];
  let anew = 0;
  for (let step = 0; step < steps; step += 1) {
    done.push(await program.step());
    for (const { often, consumer, copy } of copies.filter((each) => random.chance(each.often))) {
      const last = often === 100 ? done.at(-1) : undefined;
      const isKept = await follow({ program, copy, consumer, last }).catch((error: unknown) => {
        const where = `step ${step} of seed ${seed}, consumer ${consumer}: ${done.slice(-12).join(', ')}`;
        throw new Error(where, { cause: error });
      });
      anew += Number(!isKept);
    }
  }
  assert.ok(anew < steps / 5, `${anew} of ${steps} times a copy began anew`);
}

interface Round {
  readonly program: Program;
  readonly copy: Copy;
  readonly consumer: string | undefined;
  /** The only write since the copy was like the table. */
  readonly last: string | undefined;
}

const movesOnly = new Set(['maintain', 'compact outside', 'index', 'prune']);

/** False where the copy had to begin anew. */
async function follow({ program, copy, consumer, last = '' }: Round): Promise<boolean> {
  const version = await program.version();
  const truth = await program.rows(version);
  const answer = await program.ask('changes', { ...copy.after(), on: ['id'] });
  if (answer.status === 410) copy.begin(truth, version);
  else {
    assert.deepEqual([answer.status, answer.version], [200, version], answer.text);
    if (movesOnly.has(last) && copy.version > 0) assert.deepEqual(answer.rows, []);
    copy.apply(answer.rows, version);
    assert.deepEqual(new Map([...copy.rows].sort()), new Map([...truth].sort()));
  }
  if (consumer !== undefined) await program.post('changes/acknowledge', { consumer, version });
  return answer.status === 200;
}
