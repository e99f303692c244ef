/** Dry runs, which say what a write would do, and `max_deleted`, beyond which a write does nothing. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { Answer, HeaderFields, TestService } from '#test/fixtures/service.ts';
import { startCheckedService, succeeded } from './checked-service.ts';
import { part, transact } from './multipart-body.ts';
import { people, type Row, storedRows, stream } from './rows.ts';

const bySource = 'when_not_matched_by_source_delete=true';
const counts = ({ num_updated_rows, num_inserted_rows, num_deleted_rows }: Row) => [
  num_updated_rows,
  num_inserted_rows,
  num_deleted_rows,
];
function refused({ status, body }: Answer, expected: number, why = /(?:)/): void {
  assert.equal(status, expected, JSON.stringify(body));
  assert.match(String(body.error), why);
}

const dry = { 'x-lancegate-dry-run': 'true' };
const most = (rows: number) => ({ 'x-lancegate-max-deleted': String(rows) });

describe('a bounded write', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startCheckedService(later);
  });
  const newTable = async (properties?: Record<string, string>, ids = [1, 2, 3]): Promise<string> => {
    tables += 1;
    const query = properties ? `?properties=${encodeURIComponent(JSON.stringify(properties))}` : '';
    succeeded(await service.post(`/v1/table/t${tables}/create${query}`, people(ids, 'old')));
    return `t${tables}`;
  };
  const merge = (table: string, query: string, body = people([2, 3, 4], 'new'), headers: HeaderFields = {}) =>
    service.post(`/v1/table/${table}/merge_insert?on=id&${query}`, body, headers);
  const remove = (table: string, predicate: string, query = '', headers: HeaderFields = {}) =>
    service.post(`/v1/table/${table}/delete?${query}`, { predicate }, headers);
  const ids = async (table: string) => (await storedRows(service, table)).map(({ id, name }) => `${id} ${name}`);
  const versionOf = async (table: string) => (await (await connect(service.tablesFolder)).openTable(table)).version();

  /** Nothing is written by the dry run, and the write does what that said at the version after the one it named. */
  const foretold = async (
    table: string,
    write: (query: string) => Promise<Answer>,
    of: (answer: Row) => unknown,
  ): Promise<unknown> => {
    const [before, version] = [await storedRows(service, table), await versionOf(table)];
    const said = succeeded(await write('dry_run=true'));
    assert.deepEqual([said.dry_run, said.version, said.transaction_id], [true, version, undefined]);
    assert.deepEqual(await storedRows(service, table), before);
    assert.equal(await versionOf(table), version);
    const done = succeeded(await write(''));
    assert.deepEqual([done.dry_run, typeof done.transaction_id], [undefined, 'string']);
    assert.deepEqual(of(said), of(done));
    assert.equal(done.version, version + 1);
    return of(said);
  };

  const merges = {
    'an upsert by row address': ['', [2, 1, 0]],
    'an insert of new keys': ['when_not_matched_insert_all=true', [0, 1, 0]],
    'an update': ['when_matched_update_all=true', [2, 0, 0]],
    'an update under a filter': ['when_matched_update_all_filt=target.id > 2', [1, 0, 0]],
    'a merge that deletes by source': [`when_not_matched_insert_all=true&${bySource}`, [0, 1, 1]],
    'a merge that deletes by source under a filter': ['when_not_matched_by_source_delete_filt=id < 2', [0, 0, 1]],
  } as const;
  for (const [name, [query, expected]] of Object.entries(merges)) {
    test(`${name}: a dry run counts what the merge then does, and writes nothing (P4)`, async () => {
      const table = await newTable();
      assert.deepEqual(await foretold(table, (more) => merge(table, `${query}&${more}`), counts), expected);
    });
  }

  test('so it does when the addresses of the rows are in memory', async () => {
    const table = await newTable();
    for (const name of ['a', 'b', 'c']) succeeded(await merge(table, '', people([1, 2, 3], name)));
    assert.deepEqual(await foretold(table, (more) => merge(table, more), counts), [2, 1, 0]);
    const partial = stream({ id: [1, 9] });
    assert.deepEqual(await foretold(table, (more) => merge(table, more, partial), counts), [1, 1, 0]);
  });

  test('so it does of a table of many columns', async () => {
    const columns = (ids: readonly number[], value: number) => ({
      id: ids,
      ...Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`c${i}`, ids.map(() => value)])),
    });
    succeeded(await service.post('/v1/table/wide/create', stream(columns([1, 2, 3], 0))));
    const sent = stream(columns([2, 3, 4], 1));
    const query = `when_matched_update_all_filt=target.id > 2&when_not_matched_insert_all=true&${bySource}`;
    assert.deepEqual(await foretold('wide', (more) => merge('wide', `${query}&${more}`, sent), counts), [1, 1, 1]);
  });

  test('a dry run of a delete, an update and several operations counts what they then do (P4)', async () => {
    const table = await newTable(undefined, [1, 2, 3, 4, 5, 6]);
    assert.equal(
      await foretold(
        table,
        (more) => remove(table, 'id < 3', more),
        (answer) => answer.num_deleted_rows,
      ),
      2,
    );
    const update = { predicate: 'id > 4', updates: [['name', "'x'"]] };
    const updating = (more: string) => service.post(`/v1/table/${table}/update?${more}`, update);
    assert.equal(await foretold(table, updating, (answer) => answer.updated_rows), 2);
    const parts = [
      part('gone', { operation: 'delete', predicate: 'id = 3' }),
      part('more', { operation: 'insert', source: 'rows' }),
      part('rows', people([7, 8], 'inserted')),
    ];
    const several = (more: string) => transact(service, table, parts, more === '' ? {} : dry);
    const operations = await foretold(table, several, (answer) => answer.operations);
    assert.deepEqual((operations as Row[]).map(counts), [
      [0, 0, 1],
      [0, 2, 0],
    ]);
  });

  test('a dry run of a write that changes nothing says so', async () => {
    const table = await newTable();
    const said = succeeded(await remove(table, 'id > 70', 'dry_run'));
    assert.deepEqual([said.dry_run, said.num_deleted_rows, said.version], [true, 0, 1]);
    assert.deepEqual(counts(succeeded(await merge(table, 'dry_run', people([], 'none')))), [0, 0, 0]);
  });

  test('a dry run counts rows that its rules pass over', async () => {
    const table = await newTable();
    const sent = stream({ id: [1, 1, 9], name: ['a', 'b', 'c'] });
    const said = succeeded(await merge(table, 'dry_run=true&on_duplicate=last', sent));
    assert.deepEqual([counts(said), said.num_duplicate_rows], [[1, 1, 0], 1]);
  });

  test('a dry run is of the branch that is named', async () => {
    const table = await newTable();
    succeeded(await service.post(`/v1/table/${table}/branches/create`, { name: 'b' }));
    succeeded(await merge(table, 'branch=b'));
    assert.deepEqual(counts(succeeded(await merge(table, 'dry_run=true&branch=b'))), [3, 0, 0]);
    assert.deepEqual(counts(succeeded(await merge(table, 'dry_run=true'))), [2, 1, 0]);
    assert.equal(succeeded(await remove(table, 'true', 'dry_run=true&branch=b')).num_deleted_rows, 4);
    refused(await remove(table, 'true', 'max_deleted=3&branch=b'), 400, /4 rows would be deleted, and 3 may be/);
    assert.equal(succeeded(await remove(table, 'true', 'max_deleted=3')).num_deleted_rows, 3);
  });

  test('a dry run into a table that is only declared leaves it so', async () => {
    const isOnlyDeclared = async (table: string) =>
      succeeded(await service.post(`/v1/table/${table}/describe`)).is_only_declared;
    succeeded(await service.post('/v1/table/declared/declare', {}));
    const fields = [
      { name: 'id', type: { type: 'int32' }, nullable: true },
      { name: 'name', type: { type: 'string' }, nullable: true },
    ];
    const properties = { 'lancegate.schema': JSON.stringify({ fields }) };
    succeeded(await service.post('/v1/table/columns/declare', { properties }));
    for (const table of ['declared', 'columns']) {
      const said = succeeded(await merge(table, 'dry_run=true'));
      assert.deepEqual([said.dry_run, said.version, counts(said)], [true, 0, [0, 3, 0]]);
      assert.equal(await isOnlyDeclared(table), true);
    }
    const json = { 'content-type': 'application/json' };
    const text = Buffer.from('[{"id": 1, "name": "a"}, {"id": 2}]');
    assert.deepEqual(counts(succeeded(await merge('columns', 'dry_run=true', text, json))), [0, 2, 0]);
    refused(await merge('columns', 'dry_run=true', stream({ id: [1], other: [2] })), 400, /other/);
    refused(await remove('declared', 'true', 'dry_run=true'), 400, /not yet created/);
  });

  test('a dry run takes no notice of an Idempotency-Key, which then stands for the write (P6)', async () => {
    const table = await newTable();
    const key = { 'idempotency-key': `dry-${table}` };
    for (let time = 0; time < 2; time += 1) {
      const said = await remove(table, 'id = 1', 'dry_run=true', key);
      assert.deepEqual([said.body.num_deleted_rows, said.headers.get('idempotency-replayed')], [1, null]);
    }
    const first = succeeded(await remove(table, 'id = 1', '', key));
    const again = await remove(table, 'id = 1', '', key);
    assert.deepEqual([again.body.version, again.headers.get('idempotency-replayed')], [first.version, 'true']);
    assert.equal(succeeded(await remove(table, 'id = 1', 'dry_run=true', key)).num_deleted_rows, 0);
    const other = { 'idempotency-key': `dry-merge-${table}` };
    assert.deepEqual(counts(succeeded(await merge(table, 'dry_run=true', people([9], 'x'), other))), [0, 1, 0]);
    assert.deepEqual(counts(succeeded(await merge(table, '', people([9], 'x'), other))), [0, 1, 0]);
  });

  test('more deletions than max_deleted are refused with their number, and nothing is written (P1)', async () => {
    const table = await newTable();
    const stays = ['1 old', '2 old', '3 old'];
    refused(await remove(table, 'id > 1', 'max_deleted=1'), 400, /max_deleted: 2 rows would be deleted, and 1 may be/);
    refused(await merge(table, `${bySource}&max_deleted=0`), 400, /1 rows would be deleted, and 0 may be/);
    refused(await merge(table, `${bySource}&max_deleted=2`, people([], '')), 400, /3 rows would be deleted/);
    refused(await remove(table, 'id > 1', 'max_deleted=1&dry_run=true'), 400, /2 rows/);
    const parts = [
      part('one', { operation: 'delete', predicate: 'id = 1' }),
      part('two', { operation: 'delete', predicate: 'id = 2' }),
    ];
    refused(await transact(service, table, parts, most(1)), 400, /2 rows would be deleted, and 1 may be/);
    assert.deepEqual([await ids(table), await versionOf(table)], [stays, 1]);
    assert.equal(succeeded(await remove(table, 'id > 2', 'max_deleted=1')).num_deleted_rows, 1);
    assert.deepEqual(counts(succeeded(await merge(table, `${bySource}&max_deleted=1`))), [0, 0, 1]);
  });

  test('a refusal of too many deletions leaves an Idempotency-Key free', async () => {
    const table = await newTable();
    const key = { 'idempotency-key': `most-${table}` };
    refused(await remove(table, 'id > 1', 'max_deleted=1', key), 400);
    assert.equal(succeeded(await remove(table, 'id > 1', 'max_deleted=2', key)).num_deleted_rows, 2);
    refused(await remove(table, 'id > 1', 'max_deleted=3', key), 400, /other operation, table or parameters/);
  });

  test('an upsert shares its commit whatever max_deleted says', async () => {
    const table = await newTable({ 'lancegate.max_deleted': '0' });
    const answers = await Promise.all([10, 11, 12, 13].map((id) => merge(table, '', people([id], 'x'), most(0))));
    assert.ok(answers.every((answer) => counts(succeeded(answer))[1] === 1));
    assert.ok(new Set(answers.map(({ body }) => body.version)).size < 4);
  });

  test('a table has a max_deleted of its own, and a request another one, or none', async () => {
    const table = await newTable({ 'lancegate.max_deleted': '1' });
    refused(await remove(table, 'id > 1'), 400, /lancegate.max_deleted, a default of the table: 2 rows/);
    refused(await merge(table, bySource, people([1], 'x')), 400, /a default of the table: 2 rows/);
    const parts = [part('one', { operation: 'delete', predicate: 'id > 1' })];
    refused(await transact(service, table, parts), 400, /a default of the table: 2 rows/);
    assert.equal(succeeded(await remove(table, 'id > 1', 'max_deleted=2')).num_deleted_rows, 2);
    succeeded(await service.post(`/v1/table/${table}/insert`, people([5, 6], 'x')));
    assert.equal(succeeded(await remove(table, 'id > 1', 'max_deleted=')).num_deleted_rows, 2);
  });

  test('the metadata of the schema goes before the properties, and what is no number is refused', async () => {
    const table = await newTable({ 'lancegate.max_deleted': '1' });
    const metadata = (text: string) =>
      service.post(`/v1/table/${table}/schema_metadata/update`, { 'lancegate.max_deleted': text });
    succeeded(await metadata('many'));
    refused(
      await remove(table, 'id = 1'),
      400,
      /lancegate.max_deleted, a default of the table: expected a whole number/,
    );
    succeeded(await metadata('2'));
    assert.equal(succeeded(await remove(table, 'id > 1')).num_deleted_rows, 2);
    refused(await remove(table, 'id > 1', 'max_deleted=0.5'), 400, /max_deleted: expected a whole number/);
  });

  test('a dry run is no default of a table', async () => {
    const properties = encodeURIComponent(JSON.stringify({ 'lancegate.dry_run': 'true' }));
    const made = await service.post(`/v1/table/always_dry/create?properties=${properties}`, people([1], 'x'));
    refused(made, 400, /no "lancegate.dry_run" is known/);
  });

  test('both come as headers, a parameter goes before them, and a misspelt one is refused by every write', async () => {
    const table = await newTable();
    assert.equal(succeeded(await remove(table, 'true', '', dry)).dry_run, true);
    assert.equal(succeeded(await merge(table, '', undefined, dry)).dry_run, true);
    refused(await remove(table, 'true', '', most(2)), 400, /3 rows would be deleted, and 2 may be/);
    for (const path of ['delete', 'update', 'insert', 'merge_insert?on=id', 'drop']) {
      const misspelt = await service.post(`/v1/table/${table}/${path}`, {}, { 'x-lancegate-dryrun': 'true' });
      refused(misspelt, 400, /x-lancegate-dryrun: no such header is known; did you mean x-lancegate-dry-run\?/);
    }
    refused(await remove(table, 'true', '', { 'x-lancegate-dry-run': 'yes' }), 400, /expected true or false/);
    assert.equal(
      succeeded(await remove(table, 'id = 1', 'dry_run=false&max_deleted=1', { ...dry, ...most(0) })).num_deleted_rows,
      1,
    );
    assert.deepEqual(await ids(table), ['2 old', '3 old']);
  });

  test('a write that has no dry run refuses to be one, and writes nothing', async () => {
    const table = await newTable();
    for (const path of ['insert', 'drop', 'drop_columns', 'create?mode=overwrite', 'branches/create']) {
      const said = /x-lancegate-dry-run: this operation has no dry run; nothing was written/;
      refused(await service.post(`/v1/table/${table}/${path}`, people([9], 'x'), dry), 400, said);
    }
    refused(await service.post(`/v1/table/${table}/insert?dry_run=true`, people([9], 'x')), 400, /"dry_run"/);
    assert.equal(succeeded(await service.post(`/v1/table/${table}/describe`, {}, dry)).version, 1);
    assert.deepEqual(await ids(table), ['1 old', '2 old', '3 old']);
  });

  test('a dry run needs the rights of the write', async () => {
    const table = await newTable();
    const reader = { authorization: `Bearer ${await service.mint('lancegate:read')}` };
    refused(await remove(table, 'true', 'dry_run=true', reader), 403);
    refused(await merge(table, 'dry_run=true', undefined, reader), 403);
  });

  test('beside other writes its counts are those of one version (P4, P5)', async () => {
    const table = await newTable();
    const sent = Array.from({ length: 12 }, (_, i) => merge(table, '', people([100 + i], 'x')));
    const asked = Array.from({ length: 12 }, () => remove(table, 'id >= 100', 'dry_run=true'));
    const written = (await Promise.all(sent)).map((answer) => succeeded(answer));
    for (const answer of await Promise.all(asked)) {
      const { version, num_deleted_rows } = succeeded(answer);
      const there = written.filter((each) => Number(each.version) <= Number(version)).length;
      assert.equal(num_deleted_rows, there);
    }
    assert.equal((await ids(table)).length, 15);
  });
});
