/**
 * Random programs of operations, once as one commit and once one by one on a copy of the table. By hand:
 *   LANCEGATE_MODEL_SEED=7 LANCEGATE_MODEL_STEPS=500 node --test test/http/transact-programs.test.ts
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Int32, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { Answer, TestService } from '#test/fixtures/service.ts';
import { Random } from '#test/model/random.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { type Part, part, transact } from './multipart-body.ts';
import { type Row, storedRows, stream } from './rows.ts';

const { LANCEGATE_MODEL_SEED, LANCEGATE_MODEL_STEPS } = process.env;
const seeds = LANCEGATE_MODEL_SEED === undefined ? [1, 2] : LANCEGATE_MODEL_SEED.split(',').map(Number);
const programs = Number(LANCEGATE_MODEL_STEPS ?? 15);

interface Operation {
  readonly kind: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly source?: Buffer;
}

const keys = 12;
/** `id` and `name` stay. */
const columnNames = ['a', 'b', 'c'];

/** Makes operations, most of which fit the columns that those before them leave. */
class Programs {
  readonly #random: Random;
  #columns: readonly string[];
  #later: readonly string[];
  #fresh = 1_000;

  constructor(seed: number, columns: readonly string[]) {
    this.#random = new Random(seed);
    this.#columns = columns;
    this.#later = columns;
  }

  next(): readonly Operation[] {
    this.#later = this.#columns;
    return Array.from({ length: 1 + this.#random.int(5) }, () => this.#operation());
  }

  /** The last program was applied. */
  applied(): void {
    this.#columns = this.#later;
  }

  #operation(): Operation {
    const random = this.#random;
    switch (random.int(9)) {
      case 0:
      case 1:
        return this.#merge();
      case 2:
        return { kind: 'insert', fields: {}, source: this.#rows(this.#freshIds()) };
      case 3:
      case 4:
        return { kind: 'delete', fields: { predicate: this.#condition() } };
      case 5:
      case 6: {
        const updates = [[this.#known(), random.pick(["'u'", 'NULL', "'id ' || id", 'name'])]];
        return { kind: 'update', fields: { predicate: this.#condition(), updates } };
      }
      default:
        return this.#columnChange();
    }
  }

  /** One of the columns, or sometimes none of them. */
  #known(): string {
    return this.#random.chance(4) ? 'none' : this.#random.pick(['name', ...this.#later]);
  }

  #columnChange(): Operation {
    const random = this.#random;
    const fresh = columnNames.filter((name) => !this.#later.includes(name) || random.chance(4));
    const [known] = random.sample(this.#later, 1);
    if (known === undefined || (fresh.length > 0 && random.chance(40))) {
      const name = random.pick(fresh);
      this.#later = [...this.#later, name];
      const expression = random.pick(["'added'", 'CAST(id AS string)', "name || '+'"]);
      return { kind: 'add_columns', fields: { new_columns: [{ name, expression }] } };
    }
    if (random.chance(30)) {
      return { kind: 'update_field_metadata', fields: { updates: [{ path: known, metadata: { unit: 'one' } }] } };
    }
    this.#later = this.#later.filter((name) => name !== known);
    if (fresh.length === 0 || random.chance(50)) return { kind: 'drop_columns', fields: { columns: [known] } };
    const rename = random.pick(fresh);
    this.#later = [...this.#later, rename];
    return { kind: 'alter_columns', fields: { alterations: [{ path: known, rename }] } };
  }

  #merge(): Operation {
    const random = this.#random;
    const fields = random.pick([
      {},
      { when_not_matched_insert_all: true },
      { when_matched_update_all: true },
      { when_matched_update_all_filt: 'target.id > 5', when_not_matched_insert_all: true },
      { when_matched_update_all: true, when_not_matched_by_source_delete_filt: 'id > 8' },
    ]);
    const ids = random.sample(
      Array.from({ length: keys }, (_, id) => id),
      random.int(6),
    );
    return { kind: 'merge_insert', fields: { on: 'id', ...fields }, source: this.#rows(ids) };
  }

  /** Of some of the columns. */
  #rows(ids: readonly number[]): Buffer {
    const text = `s${this.#random.int(100)}`;
    const values = () =>
      vectorFromArray(
        ids.map((id) => (id % 3 === 0 ? null : text)),
        new Utf8(),
      );
    const columns = new Set([this.#known(), ...(this.#random.chance(50) ? ['name', ...this.#later] : [])]);
    return stream({
      id: vectorFromArray(ids, new Int32()),
      ...Object.fromEntries([...columns].map((name) => [name, values()])),
    });
  }

  #freshIds(): readonly number[] {
    this.#fresh += 3;
    return [this.#fresh, this.#fresh + 1, this.#fresh + 2].slice(0, this.#random.int(4));
  }

  #condition(): string {
    const at = this.#random.int(keys);
    return this.#random.pick([`id = ${at}`, `id > ${at}`, `id % 3 = ${at % 3}`, "name LIKE 's%'", 'name IS NULL']);
  }
}

/** The keys of an insert are new, so an upsert is one. */
async function applyAlone(service: TestService, table: string, { kind, fields, source }: Operation): Promise<Answer> {
  if (source === undefined) return service.post(`/v1/table/${table}/${kind}`, fields);
  const parameters = kind === 'insert' ? { on: 'id' } : fields;
  return service.post(
    `/v1/table/${table}/merge_insert?${new URLSearchParams(parameters as Record<string, string>)}`,
    source,
  );
}

const partsOf = (program: readonly Operation[]): readonly Part[] => [
  ...program.map(({ kind, fields, source }, index) =>
    part(`op${index}`, { operation: kind, ...fields, ...(source && { source: `rows${index}` }) }),
  ),
  ...program.flatMap(({ source }, index) => (source === undefined ? [] : part(`rows${index}`, source))),
];

const counted = ['num_inserted_rows', 'num_updated_rows', 'num_deleted_rows'];
const countsOf = (answer: Row): readonly number[] =>
  counted.map((name) => Number(answer[name] ?? (name === 'num_updated_rows' ? (answer.updated_rows ?? 0) : 0)));

describe('a program of operations', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { AUTO_MAINTENANCE: 'false' });
  });

  const versionOf = async (table: string) =>
    Number(succeeded(await service.post(`/v1/table/${table}/describe`)).version);

  /** What the operations do one by one; nothing where one is refused. */
  async function oneByOne(table: string, program: readonly Operation[]) {
    const version = await versionOf(table);
    const counts: (readonly number[])[] = [];
    for (const operation of program) {
      const answer = await applyAlone(service, table, operation);
      if (answer.status !== 200) {
        succeeded(await service.post(`/v1/table/${table}/restore`, { version }));
        return 'refused';
      }
      counts.push(countsOf(answer.body));
    }
    return counts;
  }

  for (const seed of seeds) {
    test(`seed ${seed}: ${programs} programs leave the rows and counts that their operations do one by one (P1, P4)`, async (t) => {
      t.diagnostic(`LANCEGATE_MODEL_SEED=${seed} LANCEGATE_MODEL_STEPS=${programs}`);
      const [one, other] = [`one${seed}`, `other${seed}`];
      const first = stream({
        id: [0, 1, 2, 3, 4, 5],
        name: ['s', 's', 'x', 'x', 's', 'y'],
        a: ['a', 'a', 'a', 'a', 'a', 'a'],
      });
      for (const table of [one, other]) succeeded(await service.post(`/v1/table/${table}/create`, first));
      const random = new Programs(seed, ['a']);
      for (let round = 0; round < programs; round++) {
        const program = random.next();
        const before = await versionOf(one);
        const alone = await oneByOne(other, program);
        const answer = await transact(service, one, partsOf(program));
        const what = `program ${round}: ${JSON.stringify(program.map(({ kind, fields }) => ({ kind, ...fields })))}: ${JSON.stringify(answer.body)}`;
        if (alone === 'refused') {
          assert.equal(answer.status, 400, what);
          assert.match(String(answer.body.error), /^operation op\d:/, what);
          assert.equal(await versionOf(one), before, what);
        } else {
          random.applied();
          assert.deepEqual((succeeded(answer).operations as Row[]).map(countsOf), alone, what);
          assert.ok(Number(answer.body.version) <= before + 1, what);
        }
        assert.deepEqual(await storedRows(service, one), await storedRows(service, other), what);
      }
    });
  }
});
