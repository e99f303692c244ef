/**
 * Tables whose rows have ids of their own: an update leaves a row its id and the version that created it, whatever way it takes
 * through the service. LanceDB itself reads what is stored.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Field, Int32, Struct, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { Answer, TestService } from '#test/fixtures/service.ts';
import { Random } from '#test/model/random.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { stream } from './rows.ts';

interface StoredRow {
  readonly id: number;
  readonly a: number;
  readonly b: number | null;
  readonly rowId: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What a step leaves of each key, by the reference. */
interface ExpectedRow {
  readonly a: number;
  readonly b: number | null;
  readonly isChanged: boolean;
}

const rowIds = encodeURIComponent(JSON.stringify({ new_table_enable_stable_row_ids: 'true' }));

class Table {
  readonly #service: TestService;
  readonly name: string;
  readonly #others: Readonly<Record<string, number>>;
  rows: ReadonlyMap<number, StoredRow> = new Map();
  readonly #usedIds = new Set<number>();

  /** `columns`: how many more it has. */
  constructor(service: TestService, name: string, columns: number) {
    this.#service = service;
    this.name = name;
    this.#others = Object.fromEntries(Array.from({ length: columns }, (_, i) => [`w${i}`, i]));
  }

  send(operation: string, body: Buffer | object = {}): Promise<Answer> {
    return this.#service.post(`/v1/table/${this.name}/${operation}`, body);
  }

  /** Of all columns, or without `b` and those that are not named here. */
  source(ids: readonly number[], a: number, isWhole: boolean): Buffer {
    const others = Object.entries(this.#others).map(([name, value]) => [name, ids.map(() => value)] as const);
    const rest = isWhole ? { b: ids.map(() => a + 1), ...Object.fromEntries(others) } : {};
    return stream({ id: ids, a: ids.map(() => a), ...rest });
  }

  async stored(): Promise<Map<number, StoredRow>> {
    const table = await (await connect(this.#service.tablesFolder)).openTable(this.name);
    const columns = ['id', 'a', 'b', '_rowid', '_row_created_at_version', '_row_last_updated_at_version'];
    const found = await table.query().select(columns).toArray();
    const rows = found.map((row) => ({
      id: Number(row.id),
      a: Number(row.a),
      b: row.b === null ? null : Number(row.b),
      rowId: Number(row._rowid),
      createdAt: Number(row._row_created_at_version),
      updatedAt: Number(row._row_last_updated_at_version),
    }));
    assert.equal(new Set(rows.map(({ id }) => id)).size, rows.length, 'a key twice');
    assert.equal(new Set(rows.map(({ rowId }) => rowId)).size, rows.length, 'a row id twice');
    for (const { id, rowId } of rows.slice(0, 3)) {
      const [taken] = await table.takeRowIds([rowId]).select(['id']).toArray();
      assert.equal(taken?.id, id, 'a row by its id');
    }
    for (const value of new Set(rows.map(({ a }) => a))) {
      const found = await table.query().where(`a = ${value}`).select(['id']).toArray();
      const ids = rows.filter(({ a }) => a === value).map(({ id }) => id);
      assert.deepEqual(found.map(({ id }) => Number(id)).sort(), ids.sort(), `rows by the index, of ${value}`);
    }
    return new Map(rows.map((row) => [row.id, row]));
  }

  /** Looks whether all is stored as expected, if the step made this version. */
  async expect(expected: ReadonlyMap<number, ExpectedRow>, version: number): Promise<void> {
    const now = await this.stored();
    assert.deepEqual([...now.keys()].sort(), [...expected.keys()].sort());
    for (const [id, row] of now) {
      const { a, b, isChanged } = expected.get(id)!;
      const old = this.rows.get(id);
      const identity =
        old === undefined
          ? { rowId: row.rowId, createdAt: version, updatedAt: version }
          : { rowId: old.rowId, createdAt: old.createdAt, updatedAt: isChanged ? version : old.updatedAt };
      assert.deepEqual(row, { id, a, b, ...identity });
      if (old === undefined) assert.ok(!this.#usedIds.has(row.rowId), `row id ${row.rowId} again`);
      this.#usedIds.add(row.rowId);
    }
    this.rows = now;
  }
}

interface Drawn {
  readonly table: Table;
  readonly keys: readonly number[];
  /** Of column a. */
  readonly value: number;
  readonly isWhole: boolean;
  /** What is expected afterwards. */
  readonly rows: Map<number, ExpectedRow>;
}

const write = ({ rows, value, isWhole }: Drawn, id: number): void => {
  rows.set(id, { a: value, b: isWhole ? value + 1 : (rows.get(id)?.b ?? null), isChanged: true });
};

const merging = ({ table, keys, value, isWhole }: Drawn, flags: string) =>
  [`merge_insert?on=id&${flags}`, table.source(keys, value, isWhole)] as const;

const updates = 'when_matched_update_all=true';
const inserts = 'when_not_matched_insert_all=true';

/** Each says what it leaves, and returns the request. */
const changes: readonly ((drawn: Drawn) => readonly [operation: string, body: Buffer | object])[] = [
  (drawn) => {
    for (const id of drawn.keys) write(drawn, id);
    return merging(drawn, `${updates}&${inserts}`);
  },
  (drawn) => {
    for (const id of drawn.keys) if (drawn.rows.has(id)) write(drawn, id);
    return merging(drawn, updates);
  },
  (drawn) => {
    for (const id of drawn.keys) if (!drawn.rows.has(id)) write(drawn, id);
    return merging(drawn, inserts);
  },
  (drawn) => {
    for (const id of drawn.keys) if (!drawn.rows.has(id) || id % 2 === 0) write(drawn, id);
    return merging(drawn, `when_matched_update_all_filt=${encodeURIComponent('target.id % 2 = 0')}&${inserts}`);
  },
  (drawn) => {
    for (const id of drawn.rows.keys()) if (id < 5 && !drawn.keys.includes(id)) drawn.rows.delete(id);
    for (const id of drawn.keys) write(drawn, id);
    const deletes = `when_not_matched_by_source_delete_filt=${encodeURIComponent('id < 5')}`;
    return merging(drawn, `${updates}&${inserts}&when_not_matched_by_source_delete=true&${deletes}`);
  },
  (drawn) => {
    const { table, value, isWhole } = drawn;
    const keys = drawn.keys.map((key) => value + key);
    for (const id of keys) write(drawn, id);
    return ['insert', table.source(keys, value, isWhole)];
  },
  ({ keys, rows }) => {
    for (const id of keys) rows.delete(id);
    return ['delete', { predicate: `id IN (${keys.join(', ')})` }];
  },
  ({ keys, rows, value }) => {
    for (const id of keys) {
      const before = rows.get(id);
      if (before !== undefined) rows.set(id, { ...before, a: value, isChanged: true });
    }
    return ['update', { updates: [['a', `${value}`]], predicate: `id IN (${keys.join(', ')})` }];
  },
];

const unchanged = ({ rows }: Table): Map<number, ExpectedRow> =>
  new Map([...rows].map(([id, { a, b }]) => [id, { a, b, isChanged: false }]));

const allKeys = Array.from({ length: 40 }, (_, key) => key);

async function changeRandomly(table: Table, random: Random, round: number): Promise<void> {
  const rows = unchanged(table);
  const keys = random.sample(allKeys, 1 + random.int(8));
  const kind = random.chance(30) ? changes[0]! : random.pick(changes);
  const request = kind({ table, keys, value: 1_000 * (round + 1), isWhole: random.chance(60), rows });
  const { version } = succeeded(await table.send(...request));
  await table.expect(rows, Number(version));
}

describe('rows with ids of their own that are merged by keys inside structs', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { AUTO_MAINTENANCE: 'false' });
  });
  const place = new Struct([new Field('x', new Int32()), new Field('y', new Int32())]);
  const source = (keys: readonly (readonly [x: number, y: number])[], value: number) =>
    stream({
      at: vectorFromArray(
        keys.map(([x, y]) => ({ x, y })),
        place,
      ),
      value: keys.map(() => value),
    });
  const storedIn = async (name: string) => {
    const columns: [string, string][] = [
      ['x', 'at.x'],
      ['y', 'at.y'],
      ...['value', '_rowid', '_row_created_at_version'].map((each): [string, string] => [each, each]),
    ];
    const rows = await (await (await connect(service.tablesFolder)).openTable(name))
      .query()
      .select(new Map(columns))
      .toArray();
    return rows
      .map((row) => columns.map(([column]) => Number(row[column])))
      .sort(([, , , a = 0], [, , , b = 0]) => a - b);
  };

  test('keep them where the engine finds the rows, also those that a condition chose besides (P1)', async () => {
    const keys = [
      [1, 1],
      [1, 2],
      [2, 1],
      [2, 2],
      [3, 3],
    ] as const;
    succeeded(await service.post(`/v1/table/nested/create?storage_options=${rowIds}`, source(keys, 0)));
    const merge = (flags: string, body: Buffer) =>
      service.post(`/v1/table/nested/merge_insert?on=at.x&on=at.y${flags}`, body);
    succeeded(
      await merge(
        '',
        source(
          [
            [2, 2],
            [7, 7],
            [1, 1],
          ],
          5,
        ),
      ),
    );
    assert.deepEqual(await storedIn('nested'), [
      [1, 1, 5, 0, 1],
      [1, 2, 0, 1, 1],
      [2, 1, 0, 2, 1],
      [2, 2, 5, 3, 1],
      [3, 3, 0, 4, 1],
      [7, 7, 5, (await storedIn('nested'))[5]?.[3], 2],
    ]);
    const all = `&when_matched_update_all=true&when_not_matched_insert_all=true&when_not_matched_by_source_delete=true`;
    succeeded(
      await merge(
        all,
        source(
          [
            [7, 7],
            [1, 2],
          ],
          6,
        ),
      ),
    );
    const [kept, newer] = await storedIn('nested');
    assert.deepEqual([kept, newer?.slice(0, 3), newer?.[4]], [[1, 2, 6, 1, 1], [7, 7, 6], 2]);
  });
});

describe('a service whose new tables have rows with ids of their own', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    const options = JSON.stringify({ new_table_enable_stable_row_ids: 'true' });
    service = await startCheckedService(later, { STORAGE_OPTIONS: options, MAX_MERGE_SIZE: '64KiB' });
  });

  for (const isPlain of [false, true]) {
    test(`stages rows for ${isPlain ? 'a table without them' : 'one'} in any number of parts (P1)`, async () => {
      const table = new Table(service, `staged_${isPlain}`, 0);
      const options = encodeURIComponent(JSON.stringify({ new_table_enable_stable_row_ids: String(!isPlain) }));
      succeeded(await table.send(`create?storage_options=${options}`, table.source([1], 0, true)));
      const many = Array.from({ length: 20_000 }, (_, id) => id + 2);
      const { version } = succeeded(await table.send('insert', table.source(many, 1, true)));
      assert.equal(version, 2);
      const stored = await (await connect(service.tablesFolder)).openTable(table.name);
      const last = await stored.query().where('id = 20001').select(['_rowid', '_rowaddr']).toArray();
      const [{ _rowid, _rowaddr }] = last as [{ _rowid: bigint; _rowaddr: bigint }];
      assert.equal(Number(_rowid), isPlain ? Number(_rowaddr) : 20_000);
      const { num_updated_rows } = succeeded(await table.send('merge_insert?on=id', table.source([5, 6], 2, true)));
      assert.equal(num_updated_rows, 2);
    });
  }
});

/** By how many more columns a table has: beyond 128 the service reads views of few columns. */
for (const columns of [0, 140]) {
  describe(`rows with ids of their own, of ${columns + 3} columns`, () => {
    const later = afterSuite();
    let service: TestService;
    before(async () => {
      service = await startCheckedService(later, { AUTO_MAINTENANCE: 'false' });
    });

    for (const seed of [1, 2]) {
      test(`keep them through random changes, compactions and index builds (seed ${seed}; P1, P2)`, async () => {
        const random = new Random(seed);
        const table = new Table(service, `t${seed}_${columns}`, columns);
        const first = [1, 2, 3, 4, 5, 6];
        succeeded(await table.send(`create?storage_options=${rowIds}`, table.source(first, 0, true)));
        await table.expect(new Map(first.map((id) => [id, { a: 0, b: 1, isChanged: true }])), 1);
        for (let round = 0; round < 40; round++) {
          await changeRandomly(table, random, round);
          if (round === 10) {
            succeeded(await table.send('create_scalar_index', { column: 'id', index_type: 'BTREE' }));
            succeeded(await table.send('create_scalar_index', { column: 'a', index_type: 'BTREE' }));
          }
          if (round % 13 !== 12) continue;
          succeeded(await table.send('maintain'));
          await table.expect(unchanged(table), 0);
        }
      });
    }
  });
}
