/** Columns that change while merges and inserts wait, or go on. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Int32, Int64, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { Random } from '#test/model/random.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people, type Row, storedRows, stream } from './rows.ts';
import { holdTurn, untilQueued } from './stalled-reads.ts';

const seed = 20_260_725;
const clients = 16;
const mergesPerClient = 8;
const idsPerClient = 12;

describe('columns change while others write', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });
  const create = async (table: string) =>
    succeeded(await service.post(`/v1/table/${table}/create`, people([1, 2], 'old')));
  const change = (table: string, what: string, body: object) => service.post(`/v1/table/${table}/${what}`, body);
  const merge = (table: string, body: Buffer, on = 'id') =>
    service.post(`/v1/table/${table}/merge_insert?on=${on}`, body);
  const insert = (table: string, body: Buffer) => service.post(`/v1/table/${table}/insert`, body);
  const alter = (...alterations: readonly object[]) => ({ alterations });

  test('a retry gets its first answer although the table is gone, without the metadata of the columns (P6)', async () => {
    await create('gone');
    const body = { updates: [{ path: 'id', metadata: { unit: 'one' } }] };
    const update = () =>
      service.post('/v1/table/gone/update_field_metadata', body, { 'idempotency-key': 'a-change-of-what-goes' });
    const { fields, context: _, ...first } = succeeded(await update());
    assert.deepEqual(fields, { id: { unit: 'one' } });
    succeeded(await service.post('/v1/table/gone/drop'));
    const { context: __, ...again } = succeeded(await update());
    assert.deepEqual(again, first);
  });

  const old = (...ids: readonly number[]): Row[] => ids.map((id) => ({ id, name: 'old' }));
  /** A change of columns that a merge of `people` does not get past: the refusal of the merge, and what is stored afterwards. */
  const changes: Readonly<
    Record<string, readonly [what: string, body: object, code: number, says: RegExp, after: Row[]]>
  > = {
    'the column goes': ['drop_columns', { columns: ['name'] }, 20, /name does not exist/, [{ id: 1 }, { id: 2 }]],
    'its key goes': ['drop_columns', { columns: ['id'] }, 12, /no column id/, [{ name: 'old' }, { name: 'old' }]],
    'the column gets another name': [
      'alter_columns',
      alter({ path: 'name', rename: 'label' }),
      20,
      /name does not exist/,
      [1, 2].map((id) => ({ id, label: 'old' })),
    ],
    'names are exchanged': [
      'alter_columns',
      alter({ path: 'id', rename: 'name' }, { path: 'name', rename: 'id' }),
      20,
      /id is utf8 in the table/,
      [1, 2].map((name) => ({ name, id: 'old' })),
    ],
    'its key gets another type': [
      'alter_columns',
      alter({ path: 'id', data_type: { type: 'int64' } }),
      20,
      /int64/,
      old(1, 2),
    ],
  };
  for (const [name, [what, body, code, says, after]] of Object.entries(changes)) {
    test(`a merge or an insert that waits is refused, and writes nothing: ${name} (P2)`, async (t) => {
      const table = name.replaceAll(' ', '_');
      await create(table);
      const hold = await holdTurn(
        service,
        table,
        (clean) => t.after(clean),
        () => merge(table, people([1], 'old')), // where it has not opened the file yet, it reads the rows after all
      );
      const changed = change(table, what, body);
      await untilQueued(service, 1);
      const merged = merge(table, people([1, 3], 'new'));
      await untilQueued(service, 2);
      const inserted = insert(table, people([4], 'new'));
      await untilQueued(service, 3);
      hold.release();
      await hold.holder;
      succeeded(await changed);
      refused(await merged, 400, code, says);
      refused(await inserted, 400, 20, code === 12 ? /column id does not exist/ : says);
      assert.deepEqual(await storedRows(service, table), after);
    });
  }

  test('a merge or an insert that waits fits a table with one column more, which its rows do not have (P2)', async (t) => {
    await create('grown');
    const hold = await holdTurn(
      service,
      'grown',
      (clean) => t.after(clean),
      () => merge('grown', people([1], 'held')),
    );
    const added = change('grown', 'add_columns', { new_columns: [{ name: 'double', expression: 'id * 2' }] });
    await untilQueued(service, 1);
    const merged = merge('grown', people([1, 3], 'new'));
    await untilQueued(service, 2);
    const appended = insert('grown', people([4], 'new'));
    await untilQueued(service, 3);
    hold.release();
    await hold.holder;
    succeeded(await added);
    const { num_updated_rows: updated, num_inserted_rows: inserted } = succeeded(await merged);
    assert.deepEqual([updated, inserted], [1, 1]);
    assert.equal(succeeded(await appended).num_inserted_rows, 1);
    assert.deepEqual(await storedRows(service, 'grown'), [
      { id: 1, name: 'new', double: 2 },
      { id: 2, name: 'old', double: 4 },
      { id: 3, name: 'new', double: null },
      { id: 4, name: 'new', double: null },
    ]);
  });

  test('upserts find each key where it is after its column was cast, renamed, or replaced by another (P2)', async () => {
    await create('keys');
    const upsert = async (keys: readonly number[], value: string, on = 'id') => {
      const { schema } = succeeded(await service.post('/v1/table/keys/describe'));
      const source = sourceFor(schema as SchemaAnswer, keys, value, on);
      const { num_updated_rows: updated, num_inserted_rows: inserted } = succeeded(await merge('keys', source, on));
      return [updated, inserted];
    };
    // So often that the key index is read.
    for (let round = 0; round < 4; round++) await upsert([1, 2, 3], 'warm');
    succeeded(await change('keys', 'alter_columns', alter({ path: 'id', data_type: { type: 'int64' } })));
    for (let round = 0; round < 3; round++) assert.deepEqual(await upsert([3, 4 + round], 'cast'), [1, 1]);
    succeeded(await change('keys', 'alter_columns', alter({ path: 'id', rename: 'key' })));
    for (let round = 0; round < 3; round++) assert.deepEqual(await upsert([6, 7 + round], 'renamed', 'key'), [1, 1]);
    succeeded(await change('keys', 'add_columns', { new_columns: [{ name: 'id', expression: 'key + 100' }] }));
    succeeded(await change('keys', 'drop_columns', { columns: ['key'] }));
    const columns = { name: ['new', 'new'], id: vectorFromArray([101n, 1n], new Int64()) };
    for (const [updated, inserted] of [
      [1, 1],
      [2, 0],
      [2, 0],
    ]) {
      const counts = succeeded(await merge('keys', stream(columns)));
      assert.deepEqual([counts.num_updated_rows, counts.num_inserted_rows], [updated, inserted]);
    }
    const ids = (await storedRows(service, 'keys')).map(({ id }) => Number(id)).sort((a, b) => a - b);
    assert.deepEqual(ids, [1, 101, 102, 103, 104, 105, 106, 107, 108, 109]);
  });

  test('the second of two changes is checked against what the first left', async (t) => {
    await create('twice');
    const hold = await holdTurn(
      service,
      'twice',
      (clean) => t.after(clean),
      () => merge('twice', people([1], 'held')),
    );
    const add = { new_columns: [{ name: 'double', expression: 'id * 2' }] };
    const first = change('twice', 'add_columns', add);
    await untilQueued(service, 1);
    const second = change('twice', 'add_columns', add);
    await untilQueued(service, 2);
    hold.release();
    // Where the merge has not opened the file yet, it reads the rows after all.
    const { status } = await hold.holder;
    assert.equal(succeeded(await first).version, status === 200 ? 3 : 2);
    refused(await second, 400, 20, /double exists in the table already/);
  });

  test(`no key is doubled or lost while columns come, change and go, seed ${seed} (P2, P11)`, async () => {
    const random = new Random(seed);
    await create('busy');
    const written = new Map<number, string>([1, 2].map((id) => [id, 'old']));
    let [done, refusals] = [0, 0];
    const upsert = async (number: number, round: number): Promise<void> => {
      const ids = random.sample(idsOf(number), 3);
      const value = `${number}-${round}`;
      const { schema } = succeeded(await service.post('/v1/table/busy/describe'));
      const answer = await merge('busy', sourceFor(schema as SchemaAnswer, ids, value));
      if (answer.status === 200) {
        for (const id of ids) written.set(id, value);
        return;
      }
      refused(answer, 400, answer.body.code as number, /in the table|no column id/);
      refusals += 1;
    };
    const client = async (number: number): Promise<void> => {
      for (let round = 0; round < mergesPerClient; round++) await upsert(number, round);
      done += 1;
    };
    const columns = async (): Promise<void> => {
      for (let round = 0; done < clients; round++) {
        for (const [what, body] of changesOf(random, round)) succeeded(await change('busy', what, body));
      }
    };
    await Promise.all([columns(), ...Array.from({ length: clients }, (_, number) => client(number + 1))]);
    const rows = await storedRows(service, 'busy');
    assert.deepEqual(
      rows.map(({ id, name }) => `${id} ${name}`).sort(),
      [...written].map(([id, name]) => `${id} ${name}`).sort(),
    );
    assert.ok(refusals < clients * mergesPerClient, 'some merges were done');
  });
});

const idsOf = (client: number): readonly number[] =>
  Array.from({ length: idsPerClient }, (_, index) => 100 * client + index);

/** As a client sends it that has just asked for the columns, and writes the first two. */
function sourceFor({ fields: [id, name] }: SchemaAnswer, ids: readonly number[], value: string, key = 'id'): Buffer {
  const isLong = id?.type.type === 'int64';
  const keys = isLong ? vectorFromArray(ids.map(BigInt), new Int64()) : vectorFromArray([...ids], new Int32());
  return stream({ [key]: keys, [name?.name ?? '']: ids.map(() => value) });
}

interface SchemaAnswer {
  readonly fields: readonly { readonly name: string; readonly type: { readonly type: string } }[];
}

/** Each leaves the columns as they were, save for those that came between and went. */
function changesOf(random: Random, round: number): readonly (readonly [what: string, body: object])[] {
  const name = `extra${round}`;
  const add = { new_columns: [{ name, expression: `id * ${1 + random.int(9)}` }] };
  const rename = (from: string, to: string) => ({ alterations: [{ path: from, rename: to }] });
  const cast = (type: string) => ({ alterations: [{ path: 'id', data_type: { type } }] });
  return random.pick([
    [
      ['add_columns', add],
      ['drop_columns', { columns: [name] }],
    ],
    [
      ['alter_columns', rename('name', 'label')],
      ['alter_columns', rename('label', 'name')],
    ],
    [
      ['alter_columns', cast('int64')],
      ['alter_columns', cast('int32')],
    ],
    [
      ['add_columns', add],
      ['alter_columns', rename(name, 'other')],
      ['drop_columns', { columns: ['other'] }],
    ],
    [['update_field_metadata', { updates: [{ path: 'name', metadata: { round: String(round) } }] }]],
  ] as const);
}
