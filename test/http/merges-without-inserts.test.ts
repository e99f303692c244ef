/** Merges that insert nothing: of their sources they need the keys, and the columns that they update. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeStream, field, type Rows, schemaOf } from '#test/fixtures/ipc-writer.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { part, transact } from './multipart-body.ts';
import { storedRows } from './rows.ts';

const sql = (name: string, text: string): string => `${name}=${encodeURIComponent(text)}`;
const update = 'when_matched_update_all=true';
const insert = 'when_not_matched_insert_all=true';
const remove = 'when_not_matched_by_source_delete=true';
const removeWhere = (text: string): string => sql('when_not_matched_by_source_delete_filt', text);

const id = field('id', { kind: 'int', bitWidth: 32, signed: true }, { nullable: false });
const owner = field('owner', { kind: 'utf8' }, { nullable: false });
const load = field('load', { kind: 'utf8' });
const at = field('at', { kind: 'struct' }, { nullable: false, children: [load] });
const tag = field(
  'tag',
  { kind: 'utf8' },
  { dictionary: { id: 1n, index: { bitWidth: 8, signed: true }, ordered: false } },
);
const whole = schemaOf([id, owner, load, at, tag]);

/** Rows 0 to 5 of the loads a, a, b, b, c and NULL. */
const loads = ['a', 'a', 'b', 'b', 'c', null];
const table: Rows = {
  id: loads.map((_, row) => row),
  owner: loads.map(() => 'me'),
  load: loads,
  at: loads.map((each) => ({ load: each })),
  tag: loads,
};

describe('a merge that inserts nothing', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startCheckedService(later);
  });
  const newTable = async (): Promise<string> => {
    tables += 1;
    succeeded(await service.post(`/v1/table/t${tables}/create`, encodeStream(whole, [table])));
    return `t${tables}`;
  };
  const merge = (name: string, query: string, rows: Uint8Array) =>
    service.post(`/v1/table/${name}/merge_insert?${query}`, rows);
  const ids = async (name: string) => (await storedRows(service, name)).map((row) => row.id);

  const members = ['b', 'b', null, 'b', 'z', 'b'];
  const sources: readonly (readonly [what: string, on: string, bytes: Uint8Array])[] = [
    ['a column', 'load', encodeStream(schemaOf([load]), [{ load: members }, { load: members }])],
    ['a field of a struct', 'at.load', encodeStream(schemaOf([at]), [{ at: members.map((each) => ({ load: each })) }])],
    ['a dictionary', 'tag', encodeStream(schemaOf([tag]), [{ tag: members }])],
  ];
  for (const [what, on, bytes] of sources) {
    test(`deletes by a source that holds a key twice, since membership alone counts: ${what} (P2)`, async () => {
      const name = await newTable();
      const some = succeeded(await merge(name, `on=${on}&${removeWhere('id > 0')}`, bytes));
      assert.deepEqual([some.num_deleted_rows, some.num_updated_rows, some.num_inserted_rows], [3, 0, 0]);
      assert.deepEqual(await ids(name), [0, 2, 3]);
      assert.equal(succeeded(await merge(name, `on=${on}&${remove}`, bytes)).num_deleted_rows, 1);
      assert.deepEqual(await ids(name), [2, 3]);
    });

    test(`refuses a key twice if it also updates or inserts: ${what}`, async () => {
      const name = await newTable();
      refused(await merge(name, `on=${on}&${remove}&${update}`, bytes), 400, 13, /a key twice/);
    });
  }

  test('deletes by a source with a key twice as a step of several operations', async () => {
    const name = await newTable();
    const step = { operation: 'merge_insert', on: 'load', when_not_matched_by_source_delete: true, source: 'rows' };
    succeeded(await transact(service, name, [part('a', step), part('rows', sources[0]![2])]));
    assert.deepEqual(await ids(name), [2, 3]);
  });

  test('empties the table where it deletes by a source of no rows, or what its filter names', async () => {
    const name = await newTable();
    const none = encodeStream(schemaOf([load]), []);
    assert.equal(succeeded(await merge(name, `on=load&${update}`, none)).version, 1);
    assert.equal(succeeded(await merge(name, `on=load&${removeWhere('id < 2')}`, none)).num_deleted_rows, 2);
    assert.equal(succeeded(await merge(name, `on=load&${remove}`, none)).num_deleted_rows, 4);
    assert.deepEqual(await ids(name), []);
  });

  test('may leave out columns that allow no NULL, and keeps what they hold', async () => {
    const name = await newTable();
    const rows = encodeStream(schemaOf([id, load]), [{ id: [1, 9], load: ['new', 'new'] }]);
    assert.equal(succeeded(await merge(name, `on=id&${update}`, rows)).num_updated_rows, 1);
    const filtered = sql('when_matched_update_all_filt', "target.load = 'new'");
    const more = encodeStream(schemaOf([load, id]), [{ id: [1, 2], load: ['newer', 'newer'] }]);
    assert.equal(succeeded(await merge(name, `on=id&${filtered}`, more)).num_updated_rows, 1);
    const nested = encodeStream(schemaOf([at, load]), [{ at: [{ load: 'c' }], load: ['C'] }]);
    assert.equal(succeeded(await merge(name, `on=at.load&${update}`, nested)).num_updated_rows, 1);
    const keys = encodeStream(schemaOf([id]), [{ id: [0, 1, 4] }]);
    assert.equal(succeeded(await merge(name, `on=id&${remove}`, keys)).num_deleted_rows, 3);
    const step = { operation: 'merge_insert', on: 'id', when_matched_update_all: true, source: 'rows' };
    const last = encodeStream(schemaOf([id, load]), [{ id: [0], load: ['last'] }]);
    succeeded(await transact(service, name, [part('a', step), part('rows', last)]));
    assert.deepEqual(await storedRows(service, name), [
      { id: 0, owner: 'me', load: 'last', at: { load: 'a' }, tag: 'a' },
      { id: 1, owner: 'me', load: 'newer', at: { load: 'a' }, tag: 'a' },
      { id: 4, owner: 'me', load: 'C', at: { load: 'c' }, tag: 'c' },
    ]);
  });

  test('a merge that inserts needs all columns that allow no NULL, though every row would match', async () => {
    const name = await newTable();
    const rows = encodeStream(schemaOf([id, load]), [{ id: [1], load: ['new'] }]);
    for (const flags of [`${update}&${insert}`, insert, '']) {
      refused(await merge(name, `on=id&${flags}`, rows), 400, 20, /^column owner is missing in the source/);
    }
  });
});
