/** `insert`: rows without keys, appended or in place of all that a table has, of any size in one version. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import {
  Field,
  Float64,
  Int32,
  Null,
  RecordBatchStreamWriter,
  Schema,
  Table,
  tableToIPC,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, startUnderPolicies, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people, storedRows, stream } from './rows.ts';

const numbers = (from: number, count: number): number[] => Array.from({ length: count }, (_, index) => from + index);

/** In batches of `perBatch` rows, so that the source has several chunks. */
function batches(ids: readonly number[], name: string, perBatch: number): Buffer {
  const writer = new RecordBatchStreamWriter();
  for (let at = 0; at < ids.length; at += perBatch) {
    const part = ids.slice(at, at + perBatch);
    const columns = {
      id: vectorFromArray(part, new Int32()),
      name: vectorFromArray(
        part.map(() => name),
        new Utf8(),
      ),
    };
    for (const batch of new Table(columns).batches) writer.write(batch);
  }
  writer.finish();
  return Buffer.from(writer.toUint8Array(true));
}

describe('rows are inserted', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startCheckedService(later, { chunkBytes: 8 * 2 ** 10, MAX_MERGE_SIZE: '1MiB' });
  });
  /** A table of the keys 1 and 2. */
  const newTable = async (rows: Buffer = people([1, 2], 'old')): Promise<string> => {
    tables += 1;
    succeeded(await service.post(`/v1/table/t${tables}/create`, rows));
    return `t${tables}`;
  };
  const insert = (table: string, rows: Buffer, query = '', headers?: Record<string, string>) =>
    service.post(`/v1/table/${table}/insert${query}`, rows, headers);
  const upsert = (table: string, rows: Buffer) => service.post(`/v1/table/${table}/merge_insert?on=id`, rows);
  const names = async (table: string) => (await storedRows(service, table)).map(({ id, name }) => `${id} ${name}`);
  const countOf = async (table: string) => (await service.post(`/v1/table/${table}/count_rows`, {})).body as unknown;
  const stagedIn = (table: string) => {
    const folder = join(service.tablesFolder, `${table}.lance`, 'lancegate=staging');
    return existsSync(folder) ? readdirSync(folder) : [];
  };

  test('an append adds all rows, those of keys that are there too, in one version (P4)', async () => {
    const table = await newTable();
    const { transaction_id: transaction, context, ...answer } = succeeded(await insert(table, people([2, 3], 'new')));
    assert.deepEqual(answer, { num_inserted_rows: 2, version: 2 });
    assert.equal(typeof context, 'object');
    assert.deepEqual(await names(table), ['1 old', '2 new', '2 old', '3 new']);
    const described = succeeded(await service.post(`/v1/transaction/${transaction}/describe`));
    assert.equal((described.properties as Record<string, string>).num_inserted_rows, '2');
    assert.equal(succeeded(await insert(table, people([4], 'new'), '/?mode=Append')).version, 3);
  });

  test('a source of many chunks is one version too, and leaves nothing in staging (P1)', async () => {
    const table = await newTable();
    const rows = batches(numbers(10, 5_000), 'many', 500);
    const { num_inserted_rows, version } = succeeded(await insert(table, rows));
    assert.deepEqual([num_inserted_rows, version], [5_000, 2]);
    assert.equal(await countOf(table), 5_002);
    await eventually('staging is empty', () => stagedIn(table).length === 0);
    const { num_updated_rows, num_inserted_rows: inserted } = succeeded(
      await upsert(table, people([2, 4_999, 9_999], 'up')),
    );
    assert.deepEqual([num_updated_rows, inserted], [2, 1]);
  });

  test('no rows make no version', async () => {
    const table = await newTable();
    const { num_inserted_rows, version } = succeeded(await insert(table, people([], '')));
    assert.deepEqual([num_inserted_rows, version], [0, 1]);
  });

  test('an overwrite replaces rows and columns, and the versions before it stay', async () => {
    const table = await newTable();
    for (let round = 0; round < 3; round += 1) succeeded(await upsert(table, people([1, 3], 'merged')));
    const rows = stream({ id: [3, 4], score: [30, 40] });
    const { num_inserted_rows, version } = succeeded(await insert(table, rows, '?mode=overwrite'));
    assert.deepEqual([num_inserted_rows, version], [2, 5]);
    assert.deepEqual(await storedRows(service, table), [
      { id: 3, score: 30 },
      { id: 4, score: 40 },
    ]);
    const before = await service.post(`/v1/table/${table}/count_rows`, { version: 4, predicate: "name = 'merged'" });
    assert.equal(before.body as unknown, 2);
  });

  test('an upsert after an overwrite finds each key where it is now (P2)', async () => {
    const table = await newTable(people(numbers(1, 50), 'old'));
    for (let round = 0; round < 3; round += 1) succeeded(await upsert(table, people([1, 2, 60], 'merged')));
    succeeded(await insert(table, batches(numbers(2, 3_000), 'over', 500), '?mode=overwrite'));
    for (const [id, isThere] of [
      [1, false],
      [2, true],
      [60, true],
      [3_001, true],
      [3_002, false],
    ] as const) {
      const { num_updated_rows, num_inserted_rows } = succeeded(await upsert(table, people([id], 'up')));
      assert.deepEqual([num_updated_rows, num_inserted_rows], isThere ? [1, 0] : [0, 1], `key ${id}`);
    }
    succeeded(await insert(table, people([1], 'once more'), '?mode=overwrite'));
    assert.equal(succeeded(await upsert(table, people([1, 2], 'up'))).num_updated_rows, 1);
    assert.deepEqual(await names(table), ['1 up', '2 up']);
  });

  test('an overwrite without rows leaves an empty table with its columns', async () => {
    const table = await newTable();
    const rows = stream({ key: vectorFromArray([], new Utf8()) });
    const { num_inserted_rows, version } = succeeded(await insert(table, rows, '?mode=overwrite'));
    assert.deepEqual([num_inserted_rows, version], [0, 2]);
    assert.equal(await countOf(table), 0);
    succeeded(await insert(table, stream({ key: ['a'] })));
    assert.deepEqual(await storedRows(service, table), [{ key: 'a' }]);
  });

  test('columns that the source leaves out, or has without a type, are NULL', async () => {
    const table = await newTable();
    succeeded(await insert(table, stream({ id: [3] })));
    const schema = new Schema([new Field('id', new Int32(), true), new Field('name', new Null(), true)]);
    const columns = { id: vectorFromArray([4], new Int32()), name: vectorFromArray([null], new Null()) };
    const untyped = new Table(schema, columns);
    succeeded(await insert(table, Buffer.from(tableToIPC(untyped, 'stream'))));
    assert.deepEqual(await names(table), ['1 old', '2 old', '3 null', '4 null']);
  });

  test('columns in another order are put in the order of the table', async () => {
    const table = await newTable();
    succeeded(await insert(table, stream({ name: ['new'], id: [3] })));
    const many = numbers(10, 3_000);
    const writer = new RecordBatchStreamWriter();
    for (let at = 0; at < many.length; at += 500) {
      const part = many.slice(at, at + 500);
      const columns = { name: vectorFromArray(part.map(String), new Utf8()), id: vectorFromArray(part, new Int32()) };
      for (const batch of new Table(columns).batches) writer.write(batch);
    }
    writer.finish();
    assert.equal(succeeded(await insert(table, Buffer.from(writer.toUint8Array(true)))).num_inserted_rows, 3_000);
    assert.deepEqual(
      (await names(table)).filter((row) => / new|^10 |^3009 /.test(row)),
      ['10 10', '3 new', '3009 3009'],
    );
  });

  test('a source that does not fit is refused, and nothing is written', async () => {
    const fields = [new Field('id', new Int32(), false), new Field('name', new Utf8(), true)];
    const columns = { id: vectorFromArray([1], new Int32()), name: vectorFromArray(['a'], new Utf8()) };
    const table = await newTable(Buffer.from(tableToIPC(new Table(new Schema(fields), columns), 'stream')));
    const unknown = stream({ id: [1], age: [2] });
    refused(await insert(table, unknown), 400, 20, /age/);
    refused(await insert(table, stream({ id: vectorFromArray([1.5], new Float64()) })), 400, 20, /id/);
    refused(await insert(table, stream({ name: ['a'] })), 400, 20, /id/);
    const withNull = { id: vectorFromArray([1, null], new Int32()), name: vectorFromArray(['a', 'b'], new Utf8()) };
    refused(await insert(table, stream(withNull)), 400, 20, /id/);
    const many = stream({
      id: vectorFromArray([...numbers(1, 4_999), null], new Int32()),
      name: numbers(1, 5_000).map(String),
    });
    refused(await insert(table, many), 400, 20, /id/);
    assert.equal(succeeded(await service.post(`/v1/table/${table}/describe`)).version, 1);
    await eventually('staging is empty', () => stagedIn(table).length === 0);
  });

  test('an overwrite with columns that cannot be stored is refused', async () => {
    const table = await newTable();
    refused(await insert(table, stream({ 'a.b': [1] }), '?mode=overwrite'), 400, 20, /a\.b/);
    assert.deepEqual(await names(table), ['1 old', '2 old']);
  });

  test('a declared table is made by its first rows, whatever their number and the mode', async () => {
    const sources = {
      '': people([1], 'x'),
      '?mode=overwrite': people([1], 'x'),
      '?mode=append': batches(numbers(1, 3_000), 'x', 500),
    };
    for (const [query, rows] of Object.entries(sources)) {
      tables += 1;
      succeeded(await service.post(`/v1/table/t${tables}/declare`, {}));
      refused(await insert(`t${tables}`, rows, '?branch=dev'), 404, 22);
      const { version, num_inserted_rows } = succeeded(await insert(`t${tables}`, rows, query));
      assert.deepEqual([version, await countOf(`t${tables}`)], [1, num_inserted_rows]);
    }
  });

  test('inserts of many clients at once each count their own rows (P4)', async () => {
    const table = await newTable();
    const answers = await Promise.all(
      numbers(0, 24).map((client) => insert(table, people(numbers(client * 10, 1 + (client % 3)), `c${client}`))),
    );
    const counts = answers.map((answer) => succeeded(answer).num_inserted_rows);
    assert.deepEqual(
      counts,
      numbers(0, 24).map((client) => 1 + (client % 3)),
    );
    assert.equal(await countOf(table), 2 + 48);
    assert.ok(Number(succeeded(await service.post(`/v1/table/${table}/describe`)).version) < 24, 'they share commits');
  });

  test('a branch is changed alone', async () => {
    const table = await newTable();
    succeeded(await service.post(`/v1/table/${table}/branches/create`, { name: 'dev' }));
    succeeded(await insert(table, people([3], 'dev'), '?branch=dev'));
    succeeded(await insert(table, batches(numbers(10, 3_000), 'dev', 500), '?branch=dev'));
    assert.deepEqual(await names(table), ['1 old', '2 old']);
    assert.equal((await service.post(`/v1/table/${table}/count_rows`, { branch: 'dev' })).body as unknown, 3_003);
    succeeded(await insert(table, people([7], 'over'), '?branch=dev&mode=overwrite'));
    assert.equal((await service.post(`/v1/table/${table}/count_rows`, { branch: 'dev' })).body as unknown, 1);
    refused(await insert(table, people([3], 'dev'), '?branch=none'), 404, 22);
  });

  test('a request under the same Idempotency-Key is applied once (P6)', async () => {
    const table = await newTable();
    for (const [key, rows] of [
      ['small', people([3], 'new')],
      ['large', batches(numbers(10, 3_000), 'new', 500)],
    ] as const) {
      const first = succeeded(await insert(table, rows, '', { 'idempotency-key': key }));
      const again = await insert(table, rows, '', { 'idempotency-key': key });
      assert.equal(again.headers.get('idempotency-replayed'), 'true');
      assert.deepEqual({ ...succeeded(again), context: {} }, { ...first, context: {} });
      refused(await insert(table, people([9], 'x'), '', { 'idempotency-key': key }), 400, 13, /idempotency-key/);
    }
    assert.equal(await countOf(table), 3_003);
  });

  test('what is not honoured is refused: another mode, a part of an upload', async () => {
    const table = await newTable();
    refused(await insert(table, people([1], 'x'), '?mode=create'), 400, 13, /mode/);
    refused(await insert(table, people([1], 'x'), '?upload_id=u'), 406, 0, /one request/);
    refused(await insert(table, people([1], 'x'), '?upload_id=u&upload_part_id=p'), 400, 13, /upload_part_id/);
    refused(await insert('none', people([1], 'x')), 404, 4);
    refused(await insert(table, Buffer.of()), 400, 13, /empty/);
  });
});

test('an overwrite needs the right to overwrite, too (P9)', async (t) => {
  const service = await startUnderPolicies(
    (clean) => t.after(clean),
    `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"adder", action == Action::"InsertIntoTable", resource);`,
  );
  succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
  const adder = { authorization: `Bearer ${await service.mint('lancegate:read', 'adder')}` };
  const other = { authorization: `Bearer ${await service.mint('lancegate:read', 'other')}` };
  succeeded(await service.post('/v1/table/t/insert', people([2], 'x'), adder));
  refused(await service.post('/v1/table/t/insert?mode=overwrite', people([2], 'x'), adder), 403, 15);
  refused(await service.post('/v1/table/t/insert', people([2], 'x'), other), 403, 15);
});
