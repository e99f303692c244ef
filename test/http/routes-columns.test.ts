/** `add_columns`, `alter_columns`, `drop_columns`, `update_field_metadata`, `schema_metadata/update` and `restore`. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Field, Int32, Schema, Table, tableToIPC, Utf8 } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type Answer, arrowStream, type HeaderFields, type TestService } from '#test/fixtures/service.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people, storedRows, stream } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);
`;

const actionsOf: Readonly<Record<string, string>> = {
  add_columns: 'AlterTableAddColumns',
  alter_columns: 'AlterTableAlterColumns',
  drop_columns: 'AlterTableDropColumns',
  update_field_metadata: 'UpdateFieldMetadata',
  'schema_metadata/update': 'UpdateTableSchemaMetadata',
  restore: 'RestoreTable',
};

/** One of each, of a table of ids and names with one version. */
const changes: Readonly<Record<string, object>> = {
  add_columns: { new_columns: [{ name: 'double', expression: 'id * 2' }] },
  alter_columns: { alterations: [{ path: 'name', rename: 'label' }] },
  drop_columns: { columns: ['name'] },
  update_field_metadata: { updates: [{ path: 'id', metadata: { unit: 'one' } }] },
  'schema_metadata/update': { owner: 'ann' },
  restore: { version: 1 },
};

const forEach = `${Object.values(actionsOf)
  .map(
    (action) => `
permit (principal == Principal::"${action}", action == Action::"${action}", resource);
permit (principal == Principal::"not ${action}", action, resource);
forbid (principal == Principal::"not ${action}", action == Action::"${action}", resource);`,
  )
  .join('')}`;

/** Arrow bytes of columns without rows. */
const schemaOf = (...fields: readonly Field[]): Buffer =>
  Buffer.from(tableToIPC(new Table(new Schema([...fields])), 'stream'));

describe('columns are changed', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startUnderPolicies(later, policies + forEach);
  });
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });
  const newTable = async (bytes: Buffer = people([1, 2, 3], 'old')): Promise<string> => {
    tables += 1;
    succeeded(await service.post(`/v1/table/t${tables}/create`, bytes));
    return `t${tables}`;
  };
  const ask = (table: string, what: string, body: object | Buffer, headers?: HeaderFields): Promise<Answer> =>
    service.post(`/v1/table/${table}/${what}`, body, headers);
  const upsert = async (table: string, bytes: Buffer, on = 'id') =>
    succeeded(await service.post(`/v1/table/${table}/merge_insert?on=${on}`, bytes));
  const describeTable = async (table: string) =>
    succeeded(await service.post(`/v1/table/${table}/describe`)) as {
      version: number;
      schema: {
        fields: { name: string; type: { type: string }; nullable: boolean; metadata?: Record<string, string> }[];
        metadata?: Record<string, string>;
      };
    };
  const columnsOf = async (table: string) =>
    (await describeTable(table)).schema.fields.map(
      ({ name, type, nullable }) => `${name} ${type.type}${nullable ? '?' : ''}`,
    );

  test('a column is added by an expression, computed from each row; upserts go on (P2)', async () => {
    const table = await newTable();
    for (const name of ['a', 'b', 'c']) await upsert(table, people([1, 2], name));
    const columns = [
      { name: 'double', expression: 'id * 2' },
      { name: 'shout', expression: "name || '!'", computed: null, virtual_column: null },
    ];
    const { transaction_id: _, ...answer } = succeeded(await ask(table, 'add_columns', { new_columns: columns }));
    assert.deepEqual(answer, { version: 5 });
    const counts = await upsert(table, people([2, 4], 'new'));
    assert.deepEqual([counts.num_updated_rows, counts.num_inserted_rows], [1, 1]);
    assert.deepEqual(await storedRows(service, table), [
      { id: 1, name: 'c', double: 2, shout: 'c!' },
      { id: 2, name: 'new', double: 4, shout: 'c!' },
      { id: 3, name: 'old', double: 6, shout: 'old!' },
      { id: 4, name: 'new', double: null, shout: null },
    ]);
  });

  test('columns of an Arrow schema are added, NULL in every row; on a branch too', async () => {
    const table = await newTable();
    succeeded(await ask(table, 'branches/create', { name: 'dev' }));
    const schema = schemaOf(
      new Field('age', new Int32(), true),
      new Field('note', new Utf8(), true, new Map([['k', 'v']])),
    );
    succeeded(await ask(table, 'add_columns?branch=dev', schema, { 'content-type': arrowStream }));
    assert.deepEqual(await columnsOf(table), ['id int32?', 'name string?']);
    succeeded(await ask(table, 'add_columns/', schema, { 'content-type': arrowStream }));
    assert.deepEqual(await columnsOf(table), ['id int32?', 'name string?', 'age int32?', 'note string?']);
    assert.deepEqual((await describeTable(table)).schema.fields.at(-1)?.metadata, { k: 'v' });
    assert.deepEqual(await storedRows(service, table).then(([row]) => row), {
      id: 1,
      name: 'old',
      age: null,
      note: null,
    });
  });

  test('columns are renamed and cast in one version, and made to allow no NULL', async () => {
    const table = await newTable();
    const alterations = [
      { path: 'id', rename: 'key', data_type: { type: 'int64' } },
      { path: 'name', data_type: { type: 'large_utf8' }, rename: 'label' },
    ];
    assert.equal(succeeded(await ask(table, 'alter_columns', { alterations })).version, 2);
    succeeded(await ask(table, 'alter_columns', alter({ path: 'key', nullable: false })));
    assert.deepEqual(await columnsOf(table), ['key int64', 'label large_string?']);
    assert.equal((await storedRows(service, table)).length, 3);
    refused(await service.post(`/v1/table/${table}/merge_insert?on=id`, people([1], 'x')), 400, 12, /id/);
  });

  test('columns and parts of them are dropped', async () => {
    const table = await newTable();
    succeeded(await ask(table, 'drop_columns', { columns: ['name'] }));
    assert.deepEqual(await columnsOf(table), ['id int32?']);
    refused(await ask(table, 'drop_columns', { columns: ['id'] }), 400, 13, /at least one column/);
  });

  test('metadata of columns is added to, removed and replaced, and the answer has all of it', async () => {
    const table = await newTable();
    const update = async (metadata: object, replace?: boolean) => {
      const updates = [
        { path: 'id', metadata, replace },
        { path: 'name', metadata: {} },
      ];
      return succeeded(await ask(table, 'update_field_metadata', { updates })).fields;
    };
    assert.deepEqual(await update({ a: '1', b: '2' }), { id: { a: '1', b: '2' }, name: {} });
    assert.deepEqual(await update({ a: null, c: '3' }), { id: { b: '2', c: '3' }, name: {} });
    assert.deepEqual(await update({ d: '4' }, true), { id: { d: '4' }, name: {} });
    assert.deepEqual((await describeTable(table)).schema.fields[0]?.metadata, { d: '4' });
  });

  test('metadata of the schema is replaced: body and answer are the map itself', async () => {
    const table = await newTable();
    const metadata = { branch: 'no branch', id: 'no identifier', owner: 'ann' };
    assert.deepEqual(succeeded(await ask(table, 'schema_metadata/update', metadata)), metadata);
    assert.deepEqual((await describeTable(table)).schema.metadata, metadata);
    assert.deepEqual(succeeded(await ask(table, 'schema_metadata/update', { a: 'b' })), { a: 'b' });
    await upsert(table, people([1], 'x'));
    const { version, schema } = await describeTable(table);
    assert.deepEqual([version, schema.metadata], [4, { a: 'b' }]);
  });

  test('an older version is restored as a new one, rows, columns and all (P1)', async () => {
    const table = await newTable();
    for (const name of ['a', 'b', 'c']) await upsert(table, people([1, 4], name));
    succeeded(await ask(table, 'drop_columns', { columns: ['name'] }));
    const { transaction_id: transaction, ...answer } = succeeded(await ask(table, 'restore', { version: 1 }));
    assert.deepEqual(answer, { version: 6 });
    assert.deepEqual(
      await storedRows(service, table),
      [1, 2, 3].map((id) => ({ id, name: 'old' })),
    );
    const counts = await upsert(table, people([3, 4], 'new'));
    assert.deepEqual([counts.num_updated_rows, counts.num_inserted_rows], [1, 1]);
    assert.equal(succeeded(await ask(table, 'restore', { version: 7 })).version, 8);
    assert.equal((await storedRows(service, table)).length, 4);
    const described = succeeded(await service.post(`/v1/transaction/${transaction}/describe`));
    assert.equal((described.properties as Record<string, string>).operation, 'restore');
  });

  test('only a version that is there is restored', async () => {
    const table = await newTable();
    refused(await ask(table, 'restore', { version: 2 }), 404, 11);
    refused(await ask(table, 'restore', { version: null }), 400, 13, /version/);
    refused(await ask(table, 'restore', { version: 1.5 }), 400, 13, /version/);
    assert.equal((await describeTable(table)).version, 1);
  });

  test('an index follows its column to another name, keeps it from a cast, and goes with it', async () => {
    const table = await newTable();
    succeeded(await ask(table, 'create_scalar_index', { column: 'id', index_type: 'BTREE' }));
    const indexed = async () => {
      const { indexes } = succeeded(await ask(table, 'index/list', {}));
      return (indexes as { columns: string[] }[]).map(({ columns }) => columns.join());
    };
    assert.deepEqual(await indexed(), ['id']);
    const cast = (path: string) => alter({ path, data_type: { type: 'int64' } });
    refused(await ask(table, 'alter_columns', cast('id')), 400, 13, /id: an index is on the column/);
    succeeded(await ask(table, 'alter_columns', alter({ path: 'id', rename: 'key' })));
    assert.deepEqual(await indexed(), ['key']);
    await upsert(table, stream({ key: [3, 4], name: ['new', 'new'] }), 'key');
    succeeded(await ask(table, 'drop_columns', { columns: ['key'] }));
    assert.deepEqual(await indexed(), []);
    assert.equal((await storedRows(service, table)).length, 4);
  });

  test('a declared primary key needs a column without NULL, and stays where it is', async () => {
    const key = { 'lance-schema:unenforced-primary-key:position': '1', 'lance-schema:unenforced-primary-key': null };
    const table = await newTable();
    const declare = { updates: [{ path: 'id', metadata: key }] };
    refused(await ask(table, 'update_field_metadata', declare), 400, 13, /must not be nullable/);
    succeeded(await ask(table, 'alter_columns', { alterations: [{ path: 'id', nullable: false }] }));
    succeeded(await ask(table, 'update_field_metadata', declare));
    refused(await ask(table, 'update_field_metadata', declare), 400, 13, /primary key stays/);
    refused(await ask(table, 'alter_columns', alter({ path: 'id', nullable: true })), 400, 13, /must not be nullable/);
    await upsert(table, people([3, 4], 'new'));
    succeeded(await ask(table, 'alter_columns', alter({ path: 'id', rename: 'key' })));
    const keyed = stream({ key: [4, 5], name: ['newer', 'newer'] });
    const counts = await upsert(table, keyed, 'key');
    assert.deepEqual([counts.num_updated_rows, counts.num_inserted_rows], [1, 1]);
    assert.equal(
      (await describeTable(table)).schema.fields[0]?.metadata?.['lance-schema:unenforced-primary-key:position'],
      '1',
    );
    succeeded(await ask(table, 'drop_columns', { columns: ['key'] }));
  });

  const schemaHeaders = { 'content-type': arrowStream };
  type Mistake = readonly [
    what: string,
    path: string,
    body: object | Buffer,
    status: number,
    code: number,
    says: RegExp,
  ];
  const add = (...columns: readonly object[]) => ({ new_columns: columns });
  const alter = (...alterations: readonly object[]) => ({ alterations });
  const meta = (...updates: readonly object[]) => ({ updates });
  const mistakes: readonly Mistake[] = [
    ['a column that exists', 'add_columns', add({ name: 'id', expression: '1' }), 400, 20, /exists/],
    [
      'a column twice',
      'add_columns',
      add({ name: 'x', expression: '1' }, { name: 'x', expression: '2' }),
      400,
      20,
      /twice/,
    ],
    ['a reserved name', 'add_columns', add({ name: '_rowid', expression: '1' }), 400, 20, /reserved/],
    ['a name with a dot', 'add_columns', add({ name: 'a.b', expression: '1' }), 400, 20, /dot/],
    ['an empty name', 'add_columns', add({ name: '', expression: '1' }), 400, 20, /empty/],
    ['no expression', 'add_columns', add({ name: 'x' }), 400, 13, /expression/],
    ['a computed column', 'add_columns', add({ name: 'x', computed: 'id' }), 406, 0, /computed/],
    ['a virtual column', 'add_columns', add({ name: 'x', virtual_column: {} }), 406, 0, /virtual_column/],
    [
      'columns that refresh',
      'add_columns',
      { ...add({ name: 'x', expression: '1' }), auto_refresh_enabled: true },
      406,
      0,
      /auto_refresh/,
    ],
    ['an unknown column as an expression', 'add_columns', add({ name: 'x', expression: 'none' }), 400, 12, /none/],
    ['an expression that is none', 'add_columns', add({ name: 'x', expression: '1 +' }), 400, 13, /new_columns\[0\]/],
    [
      'a function that is not allowed',
      'add_columns',
      add({ name: 'x', expression: "repeat('x', 9)" }),
      400,
      13,
      /repeat/,
    ],
    ['a subquery', 'add_columns', add({ name: 'x', expression: '(SELECT 1)' }), 400, 13, /SELECT/],
    ['a division by zero', 'add_columns', add({ name: 'x', expression: 'id / (id - id)' }), 400, 13, /divides by zero/],
    ['rows for new columns', 'add_columns', stream({ x: [1, 2] }), 400, 13, /schema alone/],
    ['a new column without NULL', 'add_columns', schemaOf(new Field('x', new Int32(), false)), 400, 20, /nullable/],
    [
      'a schema with a column that exists',
      'add_columns',
      schemaOf(new Field('id', new Int32(), true)),
      400,
      20,
      /exists/,
    ],
    ['bytes that are no schema', 'add_columns', Buffer.from('x'), 400, 13, /./],
    ['an unknown column to alter', 'alter_columns', alter({ path: 'none', rename: 'x' }), 400, 12, /none/],
    ['an alteration of nothing', 'alter_columns', alter({ path: 'id', rename: null }), 400, 13, /rename/],
    ['a rename to a name that is taken', 'alter_columns', alter({ path: 'id', rename: 'name' }), 400, 20, /twice/],
    [
      'a rename to a reserved name',
      'alter_columns',
      alter({ path: 'id', rename: '__lancegate_x' }),
      400,
      20,
      /reserved/,
    ],
    [
      'a column altered twice',
      'alter_columns',
      alter({ path: 'id', rename: 'a' }, { path: '`id`', rename: 'b' }),
      400,
      13,
      /twice/,
    ],
    [
      'a type that the engine does not cast to',
      'alter_columns',
      alter({ path: 'id', data_type: { type: 'string' } }),
      400,
      13,
      /cast/,
    ],
    ['an unknown type', 'alter_columns', alter({ path: 'id', data_type: { type: 'x' } }), 400, 13, /"x"/],
    [
      'a zone that Lance panics on',
      'alter_columns',
      alter({ path: 'id', data_type: { type: 'timestamp:us:+01:00' } }),
      400,
      13,
      /type/,
    ],
    ['a type as text', 'alter_columns', alter({ path: 'id', data_type: 'int64' }), 400, 13, /data type/],
    ['a virtual column to alter', 'alter_columns', alter({ path: 'id', virtual_column: {} }), 406, 0, /virtual_column/],
    ['an unknown column to drop', 'drop_columns', { columns: ['none'] }, 400, 12, /none/],
    ['a column dropped twice', 'drop_columns', { columns: ['id', 'id'] }, 400, 13, /twice/],
    ['all columns', 'drop_columns', { columns: ['id', 'name'] }, 400, 13, /at least one/],
    ['no column to drop', 'drop_columns', { columns: [] }, 400, 13, /columns/],
    ['metadata of an unknown column', 'update_field_metadata', meta({ path: 'none', metadata: {} }), 400, 12, /none/],
    [
      'metadata that is no text',
      'update_field_metadata',
      meta({ path: 'id', metadata: { a: 1 } }),
      400,
      13,
      /metadata/,
    ],
    [
      'metadata that makes blobs',
      'update_field_metadata',
      meta({ path: 'name', metadata: { 'lance-encoding:blob': 'true' } }),
      400,
      20,
      /blob/,
    ],
    [
      'a primary key that is no number',
      'update_field_metadata',
      meta({ path: 'id', metadata: { 'lance-schema:unenforced-primary-key:position': 'x' } }),
      400,
      13,
      /primary-key/,
    ],
    ['schema metadata that is no text', 'schema_metadata/update', { a: 1 }, 400, 13, /texts/],
    ['schema metadata that is no map', 'schema_metadata/update', [], 400, 13, /texts/],
  ];
  let untouched: string | undefined;
  for (const [what, path, body, status, code, says] of mistakes) {
    test(`refused, and nothing is changed: ${what}`, async () => {
      untouched ??= await newTable();
      const table = untouched;
      refused(await ask(table, path, body, Buffer.isBuffer(body) ? schemaHeaders : undefined), status, code, says);
      assert.equal((await describeTable(table)).version, 1);
    });
  }

  test('values decide what a column can become, and a refusal never shows one', async () => {
    const table = await newTable(stream({ id: [1, 1_234_567], name: ['a', null] }));
    const answer = await ask(table, 'alter_columns', alter({ path: 'id', data_type: { type: 'int8' } }));
    refused(answer, 400, 13, /data_type/);
    assert.doesNotMatch(JSON.stringify(answer.body), /1234567/);
    refused(await ask(table, 'alter_columns', alter({ path: 'name', nullable: false })), 400, 13, /name.*NULL/);
    assert.equal((await describeTable(table)).version, 1);
  });

  for (const [what, body] of Object.entries(changes)) {
    test(`${what} is done once under one key or one x-request-id (P6)`, async () => {
      const table = await newTable();
      for (const headers of [{ 'idempotency-key': what }, { 'x-request-id': 'once' }]) {
        const before = (await describeTable(table)).version;
        if (before > 1) succeeded(await ask(table, 'restore', { version: 1 }));
        const first = await ask(table, what, body, headers);
        const again = await ask(table, what, body, headers);
        assert.deepEqual(succeeded(again), succeeded(first));
        assert.equal(again.headers.get('idempotency-replayed'), 'true');
        assert.equal((await describeTable(table)).version, before > 1 ? before + 2 : 2);
      }
    });

    test(`${what} needs its own action alone (P9)`, async () => {
      const table = await newTable();
      const action = actionsOf[what] ?? '';
      refused(await ask(table, what, body, await as(`not ${action}`)), 403, 15);
      refused(await ask('none', what, body, await as(`not ${action}`)), 403, 15);
      succeeded(await ask(table, what, body, await as(action)));
    });

    test(`${what} names what is not there`, async () => {
      refused(await ask('none', what, body), 404, 4);
      const branch = what === 'schema_metadata/update' ? ['?branch=none', {}] : ['', { branch: 'none' }];
      refused(await ask(await newTable(), `${what}${branch[0]}`, { ...body, ...(branch[1] as object) }), 404, 22);
      tables += 1;
      succeeded(await service.post(`/v1/table/t${tables}/declare`, {}));
      refused(await ask(`t${tables}`, what, body), 400, 19, /declared/);
    });
  }
});
