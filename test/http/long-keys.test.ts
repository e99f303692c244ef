import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Dictionary, Int8, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { stream } from './rows.ts';

const id = field('id', { kind: 'int', bitWidth: 32, signed: true });
const longestKeyBytes = 64 * 2 ** 10;

describe('keys that are long, or many and nested', () => {
  const after = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startTestService(after);
  });

  const text = (length: number) => stream({ name: vectorFromArray(['k'.repeat(length)], new Utf8()), n: [1] });

  test('are merged up to 64 KiB, and refused by their row and length beyond', async () => {
    assert.equal((await service.post('/v1/table/texts/create', text(1))).status, 200);
    const merge = (length: number) => service.post('/v1/table/texts/merge_insert?on=name', text(length));
    assert.equal((await merge(longestKeyBytes)).body.num_inserted_rows, 1);
    assert.equal((await merge(longestKeyBytes)).body.num_updated_rows, 1);
    const refused = await merge(longestKeyBytes + 1);
    assert.equal(refused.status, 400);
    assert.match(String(refused.body.error), /the key name of row 1 has 65537 bytes; a key can have 65536/);
  });

  test('cannot be multiplied by a dictionary: a small body does not buy minutes of hashing (P10, P12)', async () => {
    const rows = 5_000;
    const shared = vectorFromArray(
      Array.from({ length: rows }, () => 'k'.repeat(longestKeyBytes - 4)),
      new Dictionary(new Utf8(), new Int8()),
    );
    const body = stream({ id: Array.from({ length: rows }, (_, id) => id), name: shared });
    assert.ok(body.length < 2 ** 20);
    assert.equal((await service.post('/v1/table/shared/create', body)).status, 200);
    const refused = await service.post('/v1/table/shared/merge_insert?on=id&on=name', body);
    assert.equal(refused.status, 413, JSON.stringify(refused.body));
    assert.match(String(refused.body.error), /the keys id, name have \d+ bytes, and those of one merge can have/);
    assert.equal((await service.post('/v1/table/shared/merge_insert?on=id', body)).body.num_updated_rows, rows);
  });

  test('inside structs are merged 250,000 at a time, since each is a literal of SQL (P10, P12)', async () => {
    const schema = schemaOf([field('meta', { kind: 'struct' }, { children: [id] })]);
    const body = (rows: number) =>
      encodeStream(schema, [{ meta: Array.from({ length: rows }, (_, key) => ({ id: BigInt(key) })) }]);
    assert.equal((await service.post('/v1/table/nested/create', body(1))).status, 200);
    const refused = await service.post('/v1/table/nested/merge_insert?on=meta.id', body(250_001));
    assert.equal(refused.status, 413, JSON.stringify(refused.body));
    assert.match(String(refused.body.error), /a nested key such as meta\.id can have 250000 rows/);
    assert.equal((await service.post('/v1/table/nested/merge_insert?on=meta.id', body(2))).body.num_inserted_rows, 1);
  });
});
