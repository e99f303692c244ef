/** `transact`: several operations on a table as one version, or nothing. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect, Index } from '@lancedb/lancedb';
import { Field, Int32, Schema, Struct, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { type Part, part, transact } from './multipart-body.ts';
import { people, type Row, storedRows, stream } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"deleter", action == Action::"DeleteFromTable", resource);
permit (principal == Principal::"others", action, resource);
forbid (principal == Principal::"others", action == Action::"DeleteFromTable", resource);
permit (principal == Principal::"reader", action == Action::"QueryTable", resource);
`;

interface Answered {
  readonly name: string;
  readonly num_inserted_rows: number;
  readonly num_updated_rows: number;
  readonly num_deleted_rows: number;
}

/** What each operation did: inserted, updated, deleted. */
const countsIn = ({ operations }: Row): unknown =>
  Object.fromEntries(
    (operations as Answered[]).map((each) => [
      each.name,
      [each.num_inserted_rows, each.num_updated_rows, each.num_deleted_rows],
    ]),
  );

const upsert = (source: string) => ({ operation: 'merge_insert', on: 'id', source });

describe('several operations are one commit', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startUnderPolicies(later, policies);
  });
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });
  /** A table of the keys 1 to 4. */
  const newTable = async (rows = people([1, 2, 3, 4], 'old')): Promise<string> => {
    tables += 1;
    succeeded(await service.post(`/v1/table/t${tables}/create`, rows));
    return `t${tables}`;
  };
  const names = async (table: string) => (await storedRows(service, table)).map(({ id, name }) => `${id} ${name}`);
  const send = (table: string, ...parts: readonly Part[]) => transact(service, table, parts);

  test('they are applied in their order, counted each, and make one version (P1, P4)', async () => {
    const table = await newTable();
    const answer = succeeded(
      await send(
        table,
        part('gone', { operation: 'delete', predicate: 'id = 1' }),
        part('put', upsert('rows')),
        part('shout', { operation: 'update', predicate: "name = 'new'", updates: [['name', "'NEW'"]] }),
        part('more', { operation: 'insert', source: 'others' }),
        part('rows', people([1, 2, 9], 'new')),
        part('others', people([9], 'twice')),
      ),
    );
    assert.equal(answer.version, 2);
    assert.deepEqual(countsIn(answer), { gone: [0, 0, 1], put: [2, 1, 0], shout: [0, 3, 0], more: [1, 0, 0] });
    assert.deepEqual(await names(table), ['1 NEW', '2 NEW', '3 old', '4 old', '9 NEW', '9 twice']);
    const described = succeeded(await service.post(`/v1/transaction/${answer.transaction_id}/describe`));
    const { num_inserted_rows, num_updated_rows, num_deleted_rows } = described.properties as Row;
    assert.deepEqual([num_inserted_rows, num_updated_rows, num_deleted_rows], ['3', '4', '1']);
  });

  test('an operation finds the columns that those before it leave', async () => {
    const table = await newTable();
    const wider = stream({ id: [5], label: ['five'], double: [50], extra: ['x'] });
    const schema = new Schema([new Field('extra', new Utf8(), true)]);
    const answer = succeeded(
      await send(
        table,
        part('a', { operation: 'add_columns', new_columns: [{ name: 'double', expression: 'id * 2' }] }),
        part('b', { operation: 'alter_columns', alterations: [{ path: 'name', rename: 'label' }] }),
        part('c', { operation: 'add_columns', source: 'nulls' }),
        part('d', { operation: 'merge_insert', on: 'id', source: 'wide' }),
        part('e', { operation: 'update', predicate: 'double = 2', updates: [['extra', "label || '!'"]] }),
        part('f', { operation: 'update_field_metadata', updates: [{ path: 'double', metadata: { unit: 'one' } }] }),
        part('g', { operation: 'drop_columns', columns: ['label'] }),
        part('nulls', Buffer.from(tableToIPC(new Table(schema), 'stream'))),
        part('wide', wider),
      ),
    );
    assert.equal(answer.version, 2);
    assert.deepEqual(await storedRows(service, table), [
      { id: 1, double: 2, extra: 'old!' },
      { id: 2, double: 4, extra: null },
      { id: 3, double: 6, extra: null },
      { id: 4, double: 8, extra: null },
      { id: 5, double: 50, extra: 'x' },
    ]);
    succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id`, stream({ id: [5, 6], double: [1, 2] })));
    assert.equal((await storedRows(service, table)).length, 6);
  });

  const mistakes: readonly (readonly [
    what: string,
    operation: object,
    source: Buffer | undefined,
    code: number,
    says: RegExp,
  ])[] = [
    ['a column that is gone', { operation: 'update', updates: [['none', '1']] }, undefined, 12, /none/],
    [
      'an expression that the engine refuses',
      { operation: 'update', updates: [['id', "CAST('x' AS int)"]] },
      undefined,
      13,
      /./,
    ],
    ['a source that holds a key twice', upsert('rows'), people([7, 7], 'x'), 13, /twice/],
    ['a source with another type', { operation: 'insert', source: 'rows' }, stream({ id: ['x'] }), 20, /id/],
    [
      'a source with an unknown column',
      { operation: 'insert', source: 'rows' },
      stream({ id: [1], no: [1] }),
      20,
      /no/,
    ],
    [
      'a column that exists',
      { operation: 'add_columns', new_columns: [{ name: 'name', expression: '1' }] },
      undefined,
      20,
      /name/,
    ],
    ['a key column that is not there', { ...upsert('rows'), on: 'none' }, people([1], 'x'), 12, /none/],
    [
      'a mode that is not offered',
      { operation: 'insert', mode: 'overwrite', source: 'rows' },
      people([1], 'x'),
      13,
      /mode/,
    ],
  ];
  for (const position of [0, 1, 2, 3]) {
    for (const isLate of [false, true]) {
      test(`a refusal of operation ${position + 1} of 4 names it and leaves nothing${isLate ? ', after a change of columns' : ''} (P1, P6)`, async () => {
        const table = await newTable();
        const others = [
          isLate
            ? part('p0', { operation: 'add_columns', new_columns: [{ name: 'more', expression: 'id' }] })
            : part('p0', { operation: 'delete', predicate: 'id = 1' }),
          part('p1', { operation: 'update', updates: [['name', "'changed'"]] }),
          part('p2', { operation: 'insert', source: 'good' }),
        ];
        for (const [what, operation, source, code, says] of mistakes) {
          const operations = others.toSpliced(position, 0, part('bad', operation));
          const sources = [part('good', people([8], 'good')), ...(source === undefined ? [] : [part('rows', source)])];
          const answer = await send(table, ...operations, ...sources);
          refused(answer, 400, code, /operation bad/);
          assert.match(String(answer.body.error), says, what);
        }
        assert.deepEqual(await names(table), ['1 old', '2 old', '3 old', '4 old']);
        assert.equal(succeeded(await send(table, ...others, part('good', people([8], 'good')))).version, 2);
      });
    }
  }

  test('all of them that change no row make no version', async () => {
    const table = await newTable();
    const answer = succeeded(
      await send(
        table,
        part('a', { operation: 'delete', predicate: 'id > 9' }),
        part('b', { operation: 'insert', source: 'none' }),
        part('c', { ...upsert('rows'), when_matched_update_all: true }),
        part('none', people([], 'x')),
        part('rows', people([7], 'x')),
      ),
    );
    assert.equal(answer.version, 1);
    assert.deepEqual(countsIn(answer), { a: [0, 0, 0], b: [0, 0, 0], c: [0, 0, 0] });
  });

  test('an upsert leaves one row of a key that an operation before has doubled, and counts the others (P2, P4)', async () => {
    const table = await newTable();
    const answer = succeeded(
      await send(
        table,
        part('double', { operation: 'insert', source: 'again' }),
        part('heal', upsert('rows')),
        part('again', people([1, 1, 2], 'again')),
        part('rows', people([1, 2, 7], 'new')),
      ),
    );
    assert.deepEqual(countsIn(answer), { double: [3, 0, 0], heal: [1, 2, 3] });
    assert.deepEqual(await names(table), ['1 new', '2 new', '3 old', '4 old', '7 new']);
  });

  test('several upserts of a table that says what its primary key is are one commit', async () => {
    const table = await newTable();
    const metadata = { 'lance-schema:unenforced-primary-key': 'true' };
    succeeded(
      await service.post(`/v1/table/${table}/alter_columns`, { alterations: [{ path: 'id', nullable: false }] }),
    );
    succeeded(await service.post(`/v1/table/${table}/update_field_metadata`, { updates: [{ path: 'id', metadata }] }));
    const ids = (given: readonly number[], name: string) =>
      Buffer.from(
        tableToIPC(
          new Table(new Schema([new Field('id', new Int32(), false), new Field('name', new Utf8(), true)]), {
            id: vectorFromArray(given, new Int32()),
            name: vectorFromArray(
              given.map(() => name),
              new Utf8(),
            ),
          }),
          'stream',
        ),
      );
    const answer = succeeded(
      await send(
        table,
        part('a', upsert('r')),
        part('b', upsert('s')),
        part('r', ids([4, 5], 'first')),
        part('s', ids([5, 6], 'second')),
      ),
    );
    assert.deepEqual(countsIn(answer), { a: [1, 1, 0], b: [1, 1, 0] });
    succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id`, ids([6, 7], 'third')));
    assert.deepEqual(await names(table), ['1 old', '2 old', '3 old', '4 first', '5 second', '6 third', '7 third']);
  });

  test('rows whose key is NULL are inserted each, also twice', async () => {
    const table = await newTable();
    const nulls = stream({ id: vectorFromArray([null, null, 4], new Int32()), name: ['n', 'n', 'four'] });
    const answer = succeeded(await send(table, part('a', upsert('rows')), part('rows', nulls)));
    assert.deepEqual(countsIn(answer), { a: [2, 1, 0] });
    assert.deepEqual(await names(table), ['1 old', '2 old', '3 old', '4 four', 'null n', 'null n']);
  });

  test('a merge has its flags and filters', async () => {
    const table = await newTable();
    const answer = succeeded(
      await send(
        table,
        part('some', { ...upsert('rows'), when_matched_update_all_filt: 'target.id > 1' }),
        part('rest', {
          ...upsert('kept'),
          when_not_matched_insert_all: true,
          when_not_matched_by_source_delete_filt: "name = 'old'",
        }),
        part('rows', people([1, 2, 9], 'new')),
        part('kept', people([4, 5], 'kept')),
      ),
    );
    assert.deepEqual(countsIn(answer), { some: [0, 1, 0], rest: [1, 0, 2] });
    assert.deepEqual(await names(table), ['2 new', '4 old', '5 kept']);
  });

  test('a merge on a nested key is a step as any other (P4)', async () => {
    const row = (id: number, text: string) => ({ key: { id }, text });
    const key = new Struct([new Field('id', new Int32(), true)]);
    const nested = (rows: readonly { key: { id: number }; text: string }[]) =>
      stream({
        key: vectorFromArray(
          rows.map((each) => each.key),
          key,
        ),
        text: rows.map(({ text }) => text),
      });
    const table = await newTable(nested([row(1, 'a'), row(2, 'b')]));
    const answer = succeeded(
      await send(
        table,
        part('gone', { operation: 'delete', predicate: 'key.id = 1' }),
        part('put', { operation: 'merge_insert', on: ['key.id'], source: 'rows' }),
        part('rows', nested([row(1, 'c'), row(2, 'd'), row(3, 'e')])),
      ),
    );
    assert.deepEqual(countsIn(answer), { gone: [0, 0, 1], put: [2, 1, 0] });
    assert.deepEqual(await storedRows(service, table), [row(1, 'c'), row(2, 'd'), row(3, 'e')]);
  });

  test('a branch is changed alone', async () => {
    const table = await newTable();
    succeeded(await service.post(`/v1/table/${table}/branches/create`, { name: 'dev' }));
    const parts = [
      part('a', { operation: 'delete', predicate: 'id = 1' }),
      part('b', upsert('r')),
      part('r', people([2, 8], 'dev')),
    ];
    succeeded(await transact(service, `${table}`, parts));
    const onBranch = await service.post(`/v1/table/${table}/count_rows`, { branch: 'dev' });
    assert.equal(onBranch.body as unknown, 4);
  });

  test('sent again under its Idempotency-Key it is answered again, whatever the boundary (P6)', async () => {
    const table = await newTable();
    const parts = [
      part('a', { operation: 'update', updates: [['id', 'id + 10']] }),
      part('b', upsert('r')),
      part('r', people([2], 'x')),
    ];
    const key = { 'idempotency-key': `k-${table}` };
    const first = await transact(service, table, parts, key);
    const form = new FormData();
    form.append('a', JSON.stringify({ updates: [['id', 'id + 10']], operation: 'update' }));
    form.append('b', new Blob([JSON.stringify(upsert('r'))], { type: 'application/json' }));
    form.append('r', new Blob([new Uint8Array(people([2], 'x'))]));
    const again = await fetch(`${service.url}/v1/table/${table}/transact`, {
      method: 'POST',
      body: form,
      headers: { ...key, authorization: `Bearer ${await service.mint('lancegate:admin')}` },
    });
    assert.deepEqual(await again.json(), succeeded(first));
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    refused(
      await transact(service, table, [...parts.slice(0, 2), part('r', people([3], 'x'))], key),
      400,
      13,
      /another body/,
    );
    refused(await transact(service, table, parts.slice(0, 1), key), 400, 13, /parameters/);
    assert.equal((await names(table)).length, 5);
  });

  test('the action of every operation is required, before anything is looked up (P9)', async () => {
    const table = await newTable();
    const remove = part('a', { operation: 'delete', predicate: 'id = 1' });
    const update = part('b', { operation: 'update', updates: [['name', "'x'"]] });
    const replace = part('c', { ...upsert('r'), when_not_matched_by_source_delete: true });
    for (const name of [table, 'nowhere']) {
      refused(await transact(service, name, [remove, update], await as('deleter')), 403, 15, /UpdateTable/);
      refused(await transact(service, name, [update, remove], await as('others')), 403, 15, /DeleteFromTable/);
      refused(await transact(service, name, [remove], await as('reader')), 403, 15);
      refused(await transact(service, name, [replace], await as('deleter')), 403, 15, /MergeInsertIntoTable/);
    }
    refused(await transact(service, 'nowhere', [remove], await as('deleter')), 404, 4);
    assert.equal(succeeded(await transact(service, table, [remove], await as('deleter'))).version, 2);
    assert.equal(succeeded(await transact(service, table, [update], await as('others'))).version, 3);
  });

  test('the audit record has the operations, the actions and the sums', async () => {
    const table = await newTable();
    succeeded(
      await send(
        table,
        part('a', { operation: 'delete', predicate: 'id < 3' }),
        part('b', upsert('r')),
        part('r', people([3, 9], 'x')),
      ),
    );
    const line = service.log
      .map((text) => JSON.parse(text) as Row)
      .findLast(({ route }) => String(route).endsWith('/transact'));
    const { mode, actions, insertedRows, updatedRows, deletedRows, version } = line ?? {};
    assert.deepEqual(
      { mode, actions, insertedRows, updatedRows, deletedRows, version },
      {
        mode: 'delete+merge_insert',
        actions: ['DeleteFromTable', 'MergeInsertIntoTable'],
        insertedRows: 1,
        updatedRows: 1,
        deletedRows: 2,
        version: 2,
      },
    );
  });

  test('a table that only the engine commits to takes one operation, and of several nothing is done (P1)', async () => {
    const database = await connect(service.tablesFolder);
    const rows = new Table({ id: vectorFromArray([1, 2], new Int32()) });
    const table = await database.createTable('indexed', rows);
    await table.createIndex('id', { config: Index.btree(), name: '__own' });
    succeeded(await service.post('/v1/table/indexed/register', { location: 'indexed.lance' }));
    const remove = (name: string, id: number) => part(name, { operation: 'delete', predicate: `id = ${id}` });
    refused(await send('indexed', remove('a', 1), remove('b', 2)), 406, 0, /one by one/);
    assert.equal((await storedRows(service, 'indexed')).length, 2);
    assert.deepEqual(countsIn(succeeded(await send('indexed', remove('a', 1)))), { a: [0, 0, 1] });
  });

  test('beside another program that commits, each is applied once (P1, P2, P4)', async () => {
    const table = await newTable(stream({ id: [0], n: [0] }));
    const external = await (await connect(service.tablesFolder)).openTable(table);
    const adding = (async () => {
      for (let id = 100; id < 105; id++) await external.add([{ id, n: 0 }]);
    })();
    const answers = await Promise.all(
      [1, 2, 3, 4, 5, 6].map((id) =>
        send(
          table,
          part('count', { operation: 'update', predicate: 'id = 0', updates: [['n', 'n + 1']] }),
          part('put', upsert('r')),
          part('r', stream({ id: [id], n: [id] })),
        ),
      ),
    );
    await adding;
    for (const answer of answers) assert.deepEqual(countsIn(succeeded(answer)), { count: [0, 1, 0], put: [1, 0, 0] });
    const rows = await storedRows(service, table);
    assert.equal(rows.find(({ id }) => id === 0)?.n, 6);
    assert.equal(rows.length, 12);
  });
});
