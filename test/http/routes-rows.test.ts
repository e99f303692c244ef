/** `update` and `delete`: rows that a predicate finds, changed in one version. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people, storedRows, stream } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"updater", action == Action::"UpdateTable", resource)
  when { context.branch == "main" };
permit (principal == Principal::"deleter", action == Action::"DeleteFromTable", resource);
permit (principal == Principal::"others", action, resource);
forbid (principal == Principal::"others", action in [Action::"UpdateTable", Action::"DeleteFromTable"], resource);
`;

describe('rows are changed by a predicate', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startUnderPolicies(later, policies);
  });
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });
  /** A table of the keys 1 to 4. */
  const newTable = async (): Promise<string> => {
    tables += 1;
    succeeded(await service.post(`/v1/table/t${tables}/create`, people([1, 2, 3, 4], 'old')));
    return `t${tables}`;
  };
  const update = (table: string, body: object, headers?: Record<string, string>, slash = '') =>
    service.post(`/v1/table/${table}/update${slash}`, body, headers);
  const remove = (table: string, body: object, headers?: Record<string, string>) =>
    service.post(`/v1/table/${table}/delete`, body, headers);
  const names = async (table: string) => (await storedRows(service, table)).map(({ id, name }) => `${id} ${name}`);

  test('an update sets columns to expressions over the old row, and counts its rows (P4)', async () => {
    const table = await newTable();
    const updates = [
      ['name', "name || '!' || id"],
      ['id', 'id + 10'],
    ];
    const { transaction_id: transaction, ...answer } = succeeded(await update(table, { predicate: 'id > 2', updates }));
    assert.deepEqual(answer, { updated_rows: 2, version: 2 });
    assert.deepEqual(await names(table), ['1 old', '13 old!3', '14 old!4', '2 old']);
    const described = succeeded(await service.post(`/v1/transaction/${transaction}/describe`));
    assert.equal((described.properties as Record<string, string>).num_updated_rows, '2');
  });

  test('a name in double quotes is a column in an expression too, and never a text', async () => {
    const table = await newTable();
    succeeded(await update(table, { predicate: '"id" = 4', updates: [['name', `"name" || '!'`]] }));
    succeeded(await update(table, { predicate: 'id = 3', updates: [['id', '"id" + 10']] }));
    assert.deepEqual(await names(table), ['1 old', '13 old', '2 old', '4 old!']);
  });

  test('every expression of an update sees the old row, whatever the order (P2, P4)', async () => {
    tables += 1;
    const table = `t${tables}`;
    succeeded(
      await service.post(`/v1/table/${table}/create`, stream({ a: [1, 2], b: [10, 20], c: [100, 200], d: [0, 0] })),
    );
    const updates = [
      ['b', 'a + 1'],
      ['C', 'B + `a`'],
      ['d', 'c + b + d'],
      ['a', 'a * 2'],
    ].map(([column = '', value]) => [column.toLowerCase(), value]);
    for (const [round, order] of [updates, updates.toReversed()].entries()) {
      const answer = succeeded(await update(table, { predicate: 'c >= 100 AND b = 10', updates: order }));
      const other = succeeded(
        await update(table, {
          predicate: 'a = 2 AND b = 2',
          updates: [
            ['a', '1'],
            ['b', '10'],
            ['c', '100'],
            ['d', '0'],
          ],
        }),
      );
      assert.deepEqual([answer.updated_rows, answer.version, other.updated_rows], [1, 2 + 2 * round, 1]);
    }
    const answer = succeeded(await update(table, { updates }));
    assert.equal(answer.updated_rows, 2);
    assert.deepEqual(await storedRows(service, table), [
      { a: 2, b: 2, c: 11, d: 110 },
      { a: 4, b: 3, c: 22, d: 220 },
    ]);
    const none = succeeded(await update(table, { predicate: 'a > 99', updates }));
    assert.deepEqual([none.updated_rows, none.version], [0, 6]);
  });

  test('an upsert finds the rows of such an update (P2)', async () => {
    const table = await newTable();
    const upsert = (ids: readonly number[]) => service.post(`/v1/table/${table}/merge_insert?on=id`, people(ids, 'up'));
    for (let round = 0; round < 3; round++) succeeded(await upsert([1, 2]));
    const updates = [
      ['id', 'id + 10'],
      ['name', "name || '-' || id"],
    ];
    assert.equal(succeeded(await update(table, { predicate: 'id < 4', updates })).updated_rows, 3);
    assert.deepEqual(await names(table), ['11 up-1', '12 up-2', '13 old-3', '4 old']);
    assert.deepEqual(succeeded(await upsert([11, 1])).num_updated_rows, 1);
    assert.deepEqual(await names(table), ['1 up', '11 up', '12 up-2', '13 old-3', '4 old']);
  });

  test('an update without a predicate changes all rows; the SDKs get the count under their name for it', async () => {
    const table = await newTable();
    const { transaction_id: _, ...answer } = succeeded(
      await update(table, { predicate: null, updates: [['name', "'x'"]] }, undefined, '/'),
    );
    assert.deepEqual(answer, { rows_updated: 4, version: 2 });
    assert.deepEqual(await names(table), ['1 x', '2 x', '3 x', '4 x']);
  });

  test('a delete removes the rows of which the predicate is true, and counts them (P4)', async () => {
    const table = await newTable();
    const { transaction_id: _, ...answer } = succeeded(await remove(table, { predicate: 'id IN (1, 4, 9)' }));
    assert.deepEqual(answer, { num_deleted_rows: 2, version: 2 });
    assert.deepEqual(await names(table), ['2 old', '3 old']);
    assert.equal(succeeded(await remove(table, { predicate: 'true' })).num_deleted_rows, 2);
    assert.deepEqual(await names(table), []);
  });

  test('what changes no row makes no version', async () => {
    const table = await newTable();
    assert.equal(succeeded(await update(table, { predicate: 'id > 9', updates: [['name', "'x'"]] })).version, 1);
    assert.equal(succeeded(await remove(table, { predicate: 'id > 9' })).version, 1);
  });

  test('an upsert afterwards finds each key where it is now (P2)', async () => {
    const table = await newTable();
    const upsert = async (ids: readonly number[]) =>
      succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id`, people(ids, 'up')));
    for (let round = 0; round < 3; round++) await upsert([1, 2]);
    succeeded(await update(table, { predicate: 'id = 2', updates: [['id', '1']] }));
    succeeded(await remove(table, { predicate: 'id = 3' }));
    const { num_updated_rows, num_inserted_rows, num_deleted_rows } = await upsert([1, 3, 4]);
    assert.deepEqual([num_updated_rows, num_inserted_rows, num_deleted_rows], [2, 1, 1]);
    assert.deepEqual(await names(table), ['1 up', '3 up', '4 up']);
  });

  test('a branch is changed alone', async () => {
    const table = await newTable();
    succeeded(await service.post(`/v1/table/${table}/branches/create`, { name: 'dev' }));
    succeeded(await update(table, { branch: 'dev', updates: [['name', "'dev'"]] }));
    succeeded(await remove(table, { branch: 'dev', predicate: 'id = 1' }));
    assert.equal((await names(table)).length, 4);
    const count = await service.post(`/v1/table/${table}/count_rows`, { branch: 'dev', predicate: "name = 'dev'" });
    assert.equal(count.body as unknown, 3);
  });

  test('columns of every sort of name can be updated, but no part of one', async () => {
    const columns = { id: [1, 2], 'two words': ['a', 'b'], 'UPPER-case': [5, 6] };
    succeeded(await service.post('/v1/table/odd/create', stream(columns)));
    const updates = [
      ['two words', "'x'"],
      ['`UPPER-case`', 'id * 2'],
    ];
    succeeded(await update('odd', { updates }));
    assert.deepEqual(
      (await storedRows(service, 'odd')).map((row) => [row['two words'], row['UPPER-case']]),
      [
        ['x', 2],
        ['x', 4],
      ],
    );
  });

  test('the same update under the same x-request-id is done once (P6)', async () => {
    const table = await newTable();
    const body = { updates: [['id', 'id + 100']] };
    const first = await update(table, body, { 'x-request-id': 'one' });
    const again = await update(table, body, { 'x-request-id': 'one' });
    assert.deepEqual(succeeded(again), succeeded(first));
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.equal(succeeded(await update(table, body, { 'x-request-id': 'two' })).version, 3);
    const other = { updates: [['id', 'id + 1']] };
    assert.equal(succeeded(await update(table, other, { 'x-request-id': 'one' })).version, 4);
    assert.equal((await names(table))[0], '202 old');
  });

  test('one x-request-id for two tables, or two branches, stands for two updates', async () => {
    const [first, second] = [await newTable(), await newTable()];
    succeeded(await service.post(`/v1/table/${first}/branches/create`, { name: 'dev' }));
    const body = { updates: [['id', 'id + 100']] };
    const headers = { 'x-request-id': 'shared' };
    for (const table of [first, second]) assert.equal(succeeded(await update(table, body, headers)).version, 2);
    const onBranch = succeeded(await service.post(`/v1/table/${first}/update?branch=dev`, body, headers));
    assert.equal(onBranch.updated_rows, 4);
    assert.deepEqual([(await names(first))[0], (await names(second))[0]], ['101 old', '101 old']);
  });

  test('an Idempotency-Key answers again, and is refused for another body (P6)', async () => {
    const table = await newTable();
    const key = { 'idempotency-key': 'k1' };
    const first = await remove(table, { predicate: 'id = 1' }, key);
    assert.deepEqual(succeeded(await remove(table, { predicate: 'id = 1' }, key)), succeeded(first));
    refused(await remove(table, { predicate: 'id = 2' }, key), 400, 13, /idempotency-key/);
  });

  const mistakes: readonly (readonly [what: string, body: object, code: number, says: RegExp])[] = [
    ['no update', { updates: [] }, 13, /updates/],
    ['updates of another form', { updates: { name: "'x'" } }, 13, /updates/],
    ['an unknown column', { updates: [['none', '1']] }, 12, /none/],
    [
      'a column twice',
      {
        updates: [
          ['id', '1'],
          ['`id`', '2'],
        ],
      },
      13,
      /twice/,
    ],
    ['an expression of another type', { updates: [['id', "'x'"]] }, 13, /./],
    ['an expression with an unknown column', { updates: [['id', 'none + 1']] }, 12, /none/],
    ['an expression that is not one', { updates: [['id', '1 +']] }, 13, /updates\[0\]\[1\]/],
    ['an expression with a function that is not allowed', { updates: [['name', "repeat('x', 9)"]] }, 13, /repeat/],
    ['a predicate with a subquery', { predicate: 'id IN (SELECT 1)', updates: [['id', '1']] }, 13, /SELECT/],
    [
      'columns that swap their values',
      {
        updates: [
          ['id', 'length(name)'],
          ['name', 'CAST(ID AS string)'],
        ],
      },
      13,
      /id, name need each other/,
    ],
    ['a division by zero', { updates: [['id', 'id / (id - id)']] }, 13, /divides by zero/],
  ];
  for (const [what, body, code, says] of mistakes) {
    test(`an update is refused, and changes nothing: ${what}`, async () => {
      const table = await newTable();
      refused(await update(table, body), 400, code, says);
      assert.deepEqual(await names(table), ['1 old', '2 old', '3 old', '4 old']);
    });
  }

  test('an update that leaves a NULL where the table has none is refused by the name of the column, as an insert is', async () => {
    const table = await newTable();
    const required = { alterations: [{ path: 'id', nullable: false }] };
    succeeded(await service.post(`/v1/table/${table}/alter_columns`, required));
    for (const value of ['NULL', 'nullif(id, 4)']) {
      refused(await update(table, { updates: [['id', value]] }), 400, 20, /^column id must not be null/);
    }
    refused(
      await service.post(`/v1/table/${table}/insert`, stream({ id: [null], name: ['new'] })),
      400,
      20,
      /column id/,
    );
    succeeded(await update(table, { predicate: 'id > 9', updates: [['id', 'NULL']] }));
    assert.deepEqual(await names(table), ['1 old', '2 old', '3 old', '4 old']);
  });

  test('a delete is refused without a predicate, or with one that is none', async () => {
    const table = await newTable();
    refused(await remove(table, {}), 400, 13, /predicate/);
    refused(await remove(table, { predicate: '' }), 400, 13, /predicate/);
    refused(await remove(table, { predicate: 'none = 1' }), 400, 12, /none/);
    refused(await remove(table, { predicate: 'id + 1' }), 400, 13, /predicate/);
  });

  test('each needs its own action, on its own branch (P9)', async () => {
    const table = await newTable();
    const change = { updates: [['name', "'x'"]] };
    const [updater, deleter, others] = await Promise.all(['updater', 'deleter', 'others'].map(as));
    succeeded(await update(table, change, updater));
    refused(await update(table, { ...change, branch: 'none' }, updater), 403, 15);
    refused(await remove(table, { predicate: 'true' }, updater), 403, 15);
    succeeded(await remove(table, { predicate: 'id = 1' }, deleter));
    refused(await update('none', change, deleter), 403, 15);
    for (const answer of [await update(table, change, others), await remove(table, { predicate: 'true' }, others)]) {
      refused(answer, 403, 15);
    }
  });

  test('what is not there is named: a table, a branch, the rows of a declared table', async () => {
    const change = { updates: [['name', "'x'"]] };
    succeeded(await service.post('/v1/table/declared/declare', {}));
    for (const ask of [
      (table: string, branch?: string) => update(table, { ...change, branch }),
      (table: string, branch?: string) => remove(table, { predicate: 'true', branch }),
    ]) {
      refused(await ask('none'), 404, 4);
      refused(await ask(await newTable(), 'none'), 404, 22);
      refused(await ask('declared'), 400, 19, /declared/);
    }
  });
});
