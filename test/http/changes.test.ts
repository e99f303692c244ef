/** The changes of a table between two versions, over HTTP. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Table, tableFromIPC } from 'apache-arrow';
import { refused, succeeded } from './checked-service.ts';
import { ownTablesUnder } from './own-tables.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"counter", action == Action::"CountTableRows", resource);
permit (principal == Principal::"taker", action == Action::"QueryTable", resource);
`;

describe('the changes of a table', () => {
  const own = ownTablesUnder(policies, [1, 2, 3, 4]);
  const merge = async (ids: readonly number[], name: string, query = '') =>
    succeeded(await own.post(`merge_insert?on=id${query}`, people(ids, name))).version as number;
  const remove = async (predicate: string) => succeeded(await own.post('delete', { predicate })).version as number;

  interface Changes {
    readonly version: number;
    readonly rows: readonly string[];
    readonly versions: readonly number[];
    readonly table: Table;
  }
  const ask = async (body: object, query = '', headers: Record<string, string> = {}) => {
    const authorization = `Bearer ${await own.service.mint('lancegate:read', 'tester')}`;
    return fetch(`${own.service.url}/v1/table/${own.table}/changes${query}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { authorization, ...headers },
    });
  };
  const changes = async (body: object, query = ''): Promise<Changes> => {
    const answer = await ask(body, query, { accept: 'application/vnd.apache.arrow.stream' });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    assert.equal(answer.status, 200, Buffer.from(bytes).toString());
    const table = tableFromIPC(bytes);
    const rows = table.toArray().map((row) => row.toJSON() as Record<string, unknown>);
    return {
      version: Number(answer.headers.get('x-lancegate-version')),
      rows: rows.map(({ _change, id, name }) => `${_change} ${id} ${name}`).sort(),
      versions: rows.map(({ _version }) => Number(_version)).sort(),
      table,
    };
  };
  const on = ['id'];
  const shortened = (row: string) => row.split(' ').slice(0, 2).join(' ');

  test('are the rows that were inserted and updated and the keys of those deleted, each once', async () => {
    await merge([4, 5], 'y');
    const updated = await merge([1, 6], 'z');
    const version = await remove('id = 2');
    const found = await changes({ after: 1, on });
    assert.equal(found.version, version);
    assert.deepEqual(found.rows, ['delete 2 null', 'insert 5 y', 'insert 6 z', 'update 1 z', 'update 4 y']);
    assert.deepEqual(found.versions, [2, 2, updated, updated, version]);
    assert.deepEqual(
      found.table.schema.fields.map(({ name, type }) => `${name} ${type}`),
      ['_change Utf8', '_version Int64', 'id Int32', 'name Utf8'],
    );
    assert.deepEqual((await changes({ after: updated, on })).rows, ['delete 2 null']);
    assert.deepEqual((await changes({ after: 1, until: 2, on })).rows, ['insert 5 y', 'update 4 y']);
  });

  test('are the net ones: what came and went is none, and what went and came again an update', async () => {
    await merge([9], 'y');
    await remove('id = 9 OR id = 1');
    await merge([1], 'back');
    assert.deepEqual((await changes({ after: 1, on })).rows, ['update 1 back']);
  });

  test('are all rows after version 0, without a key', async () => {
    await remove('id = 2');
    assert.deepEqual((await changes({ after: 0 })).rows, ['insert 1 x', 'insert 3 x', 'insert 4 x']);
    assert.deepEqual((await changes({ after: 2, on })).rows, []);
  });

  test('are not what a compaction moves', async () => {
    for (const id of [5, 6, 7, 8]) await merge([id], 'y');
    await remove('id = 3');
    succeeded(await own.post('maintain'));
    const compacted = succeeded(await own.post('describe')).version as number;
    assert.ok(compacted > 6, 'the table was compacted');
    assert.deepEqual((await changes({ after: 6, on })).rows, []);
    await merge([1], 'late');
    assert.deepEqual((await changes({ after: 5, on })).rows, ['delete 3 null', 'update 1 late']);
    assert.deepEqual((await changes({ after: 4, on })).versions, [5, compacted + 1, compacted + 1]);
  });

  test('are those that a restore made, also of rows that it brought back', async () => {
    await merge([5], 'y');
    await remove('id = 1');
    succeeded(await own.post('restore', { version: 1 }));
    assert.deepEqual((await changes({ after: 1, on })).rows, []);
    assert.deepEqual((await changes({ after: 3, on })).rows, ['delete 5 null', 'insert 1 x']);
    assert.deepEqual((await changes({ after: 2, on })).rows, ['delete 5 null']);
  });

  test('come with the columns that are asked for, as NDJSON too, and those that were added', async () => {
    succeeded(await own.post('add_columns', { new_columns: [{ name: 'n', expression: 'id * 2' }] }));
    await merge([2], 'y');
    const answer = await ask({ after: 2, on, columns: ['n'] }, '', { accept: 'application/x-ndjson' });
    assert.equal(await answer.text(), '{"_change":"update","_version":3,"id":2,"n":4}\n');
    assert.deepEqual(
      (await changes({ after: 1, on, columns: ['n'] })).rows.length,
      4,
      'a column with values updates every row',
    );
  });

  test('are all rows where a column has the name of another one now, or another name', async () => {
    const expression = 'CAST(id AS INT)';
    succeeded(await own.post('add_columns', { new_columns: [{ name: 'n', expression }] }));
    succeeded(await own.post('alter_columns', { alterations: [{ path: 'n', rename: 'm' }] }));
    const updates = [1, 2, 3, 4].map((id) => `update ${id}`);
    const updated = async (after: number) => (await changes({ after, on, columns: ['id'] })).rows.map(shortened);
    assert.deepEqual(await updated(2), updates);
    succeeded(await own.post('drop_columns', { columns: ['m'] }));
    succeeded(await own.post('add_columns', { new_columns: [{ name: 'm', expression: 'CAST(NULL AS INT)' }] }));
    assert.deepEqual(await updated(3), updates);
    for (const id of [5, 6, 7, 8]) await merge([id], 'y');
    await remove('id = 2');
    succeeded(await own.post('maintain'));
    assert.ok(!(await updated(3)).some((row) => /insert [1-4]|delete [13]/.test(row)));
    assert.deepEqual(
      (await updated(3)).filter((row) => /update|delete/.test(row)),
      ['delete 2', 'update 1', 'update 3', 'update 4'],
    );
    const after = await merge([5], 'z');
    assert.deepEqual(await updated(after - 1), ['update 5'], 'a column that is what it was changes no row');
  });

  test('are all rows where a column was dropped, and was made again after a compaction or brought back', async () => {
    for (const id of [5, 6, 7, 8]) await merge([id], 'y');
    const after = await merge([9], 'y');
    succeeded(await own.post('drop_columns', { columns: ['name'] }));
    const without = Number(succeeded(await own.post('describe')).version);
    succeeded(await own.post('maintain'));
    assert.deepEqual((await changes({ after, on, columns: ['id'] })).rows, [], 'a column that is gone changes no row');
    succeeded(await own.post('add_columns', { new_columns: [{ name: 'name', expression: 'CAST(NULL AS STRING)' }] }));
    assert.equal((await changes({ after, on, columns: ['id'] })).rows.length, 9);
    succeeded(await own.post('restore', { version: after }));
    const { rows } = await changes({ after: without, on, columns: ['id'] });
    assert.equal(rows.length, 9, 'a restore has brought the column back');
  });

  test('come with the same columns whether there are any or not, those of the key included', async () => {
    const version = await merge([2], 'y');
    const columnsOf = ({ table }: Changes) => table.schema.fields.map(({ name }) => name);
    for (const after of [0, 1, version]) {
      const found = await changes({ after, on, columns: ['name'] });
      assert.deepEqual(columnsOf(found), ['_change', '_version', 'id', 'name'], `after ${after}`);
      refused(await own.post('changes', { after, on: ['none'] }), 400, 12, /on: .*none/);
    }
    refused(await own.post('changes', { after: version }), 400, 13, /on: name the columns/);
  });

  test('up to a version have the columns and the key of that version', async () => {
    await merge([2], 'y');
    succeeded(await own.post('drop_columns', { columns: ['id'] }));
    assert.deepEqual((await changes({ after: 1, until: 2, on })).rows, ['update 2 y']);
  });

  test('of a table with a column of the name _change come with the other columns', async () => {
    succeeded(await own.post('add_columns', { new_columns: [{ name: '_change', expression: 'id' }] }));
    const after = Number(succeeded(await own.post('describe')).version);
    await remove('id = 1');
    refused(await own.post('changes', { after, on }), 400, 13, /columns: .* _change/);
    assert.deepEqual((await changes({ after, on, columns: ['name'] })).rows, ['delete 1 null']);
  });

  test('of rows whose key is NULL are inserts and deletes, and a key that two rows have comes once', async () => {
    const rows = (ids: readonly (number | null)[], name: string) =>
      own.post('insert', people(ids as readonly number[], name));
    succeeded(await rows([null, null, 8, 8], 'a'));
    const after = Number(succeeded(await own.post('describe')).version);
    await remove("id IS NULL AND name = 'a' OR id = 8");
    succeeded(await rows([null], 'b'));
    const found = await changes({ after, on });
    assert.deepEqual(found.rows, ['delete 8 null', 'delete null null', 'delete null null', 'insert null b']);
  });

  test('of an insert in place of all are those of the rows', async () => {
    succeeded(await own.post('insert?mode=overwrite', people([3, 8], 'new')));
    const found = await changes({ after: 1, on });
    assert.deepEqual(found.rows, ['delete 1 null', 'delete 2 null', 'delete 4 null', 'insert 8 new', 'update 3 new']);
  });

  test('are of one branch', async () => {
    succeeded(await own.post('branches/create', { name: 'dev' }));
    await merge([7], 'dev', '&branch=dev');
    assert.deepEqual((await changes({ after: 1, branch: 'dev', on })).rows, ['insert 7 dev']);
    assert.deepEqual((await changes({ after: 1, on })).rows, []);
  });

  test('wait for the next commit, and for no longer than was asked', async () => {
    const waiting = changes({ after: 1, on }, '?wait=30s');
    await merge([5], 'y');
    assert.deepEqual((await waiting).rows, ['insert 5 y']);
    assert.deepEqual((await changes({ after: 2, on }, '?wait=1ms')).rows, []);
    refused(await own.post('changes?wait=2h', { after: 1, on }), 400, 13, /wait/);
    const startMs = performance.now();
    refused(await own.post('changes?wait=20s', { after: 99, on }), 410, 11, /newest version is 2/);
    assert.ok(performance.now() - startMs < 10_000, 'a version that is not there yet is not waited for');
  });

  test('need a key, of the request or of the table, and columns that are there', async () => {
    await merge([5], 'y');
    refused(await own.post('changes', { after: 1 }), 400, 13, /on: name the columns/);
    refused(await own.post('changes', { after: 1, on: ['none'] }), 400, 12, /none/);
    refused(await own.post('changes', { after: 1, on: ['id', '`id`'] }), 400, 13, /on: id is given twice/);
    refused(await own.post('changes', { after: 1, on, columns: ['none'] }), 400, 12, /none/);
    refused(await own.post('changes', { on }), 400, 13, /after/);
    refused(await own.post('changes', { after: 2, until: 1, on }), 400, 13, /until/);
    refused(await own.post('changes', { after: 1, until: 9, on }), 404, 11, /until/);
    refused(await own.post('changes', { after: 9, on }), 410, 11, /newest version is 2/);
  });

  test('of a table that declares its primary key need none', async () => {
    const key = { 'lance-schema:unenforced-primary-key': 'true' };
    succeeded(await own.post('alter_columns', { alterations: [{ path: 'id', nullable: false }] }));
    const updates = [{ path: 'id', metadata: key }];
    const { version } = succeeded(await own.post('update_field_metadata', { updates }));
    await merge([5], 'y');
    await remove('id = 1');
    const found = await changes({ after: version });
    assert.deepEqual(found.rows, ['delete 1 null', 'insert 5 y']);
    const [, , id, name] = found.table.schema.fields;
    assert.deepEqual([id?.metadata, id?.nullable, name?.nullable], [new Map(Object.entries(key)), true, true]);
  });

  test('of versions that are gone are 410, with the oldest that is left', async () => {
    const version = await merge([5], 'y');
    succeeded(await own.post('version/delete', { ranges: [{ start_version: 0, end_version: version }] }));
    refused(await own.post('changes', { after: 1, on }), 410, 11, /oldest version.* 2/);
  });

  test('of a key that was of another type are 410', async () => {
    await remove('id = 1');
    succeeded(await own.post('alter_columns', { alterations: [{ path: 'id', data_type: { type: 'int64' } }] }));
    refused(await own.post('changes', { after: 1, on }), 410, 11, /on: id .*another type/);
  });

  test('are read by those who may query, and acknowledged by those who may do that (P9)', async () => {
    const as = async (subject: string) => ({
      authorization: `Bearer ${await own.service.mint('lancegate:read', subject)}`,
    });
    refused(await own.post('changes', { after: 1, on }, await as('counter')), 403, 15);
    assert.equal((await own.post('changes', { after: 1, on }, await as('taker'))).status, 200);
    const acknowledged = { consumer: 'c', version: 1 };
    refused(await own.post('changes/acknowledge', acknowledged, await as('taker')), 403, 15);
  });

  test('are kept for a consumer from the version that it has acknowledged', async () => {
    const acknowledge = (version: number, consumer = 'copy') => own.post('changes/acknowledge', { consumer, version });
    refused(await own.post('changes', { consumer: 'copy', on }), 410, 11, /consumer 'copy'/);
    refused(await own.post('changes', { consumer: 'C!', on }), 400, 13, /consumer/);
    succeeded(await acknowledge(1));
    await merge([5], 'y');
    const version = await merge([6], 'y');
    succeeded(await own.post('version/delete', { ranges: [{ start_version: 0, end_version: version }] }));
    assert.deepEqual((await changes({ consumer: 'copy', on })).rows, ['insert 5 y', 'insert 6 y']);
    succeeded(await acknowledge(version));
    succeeded(await acknowledge(version));
    refused(await acknowledge(1), 400, 13, /already/);
    assert.deepEqual((await changes({ consumer: 'copy', on })).rows, []);
    const listed = succeeded(await own.post('tags/list')).tags as Record<string, { version: number }>;
    assert.equal(listed['consumer-copy']?.version, version);
    for (let i = 1; i < 16; i += 1) succeeded(await acknowledge(version, `c${i}`));
    refused(await acknowledge(version, 'c16'), 400, 13, /16/);
    refused(await acknowledge(version, 'C!'), 400, 13, /consumer/);
    refused(await own.post('changes/acknowledge', { consumer: 'c1', version: 99 }), 404, 11);
  });
});
