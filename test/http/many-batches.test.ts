import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeMessages, encodeStream, endOfStream, field, type Rows, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';

const index = { bitWidth: 8, signed: true } as const;
const id = field('id', { kind: 'int', bitWidth: 32, signed: true });
const plain = schemaOf([id, field('name', { kind: 'utf8' })]);
const coded = schemaOf([id, field('name', { kind: 'utf8' }, { dictionary: { id: 1n, index, ordered: false } })]);

const row = (key: number): Rows => ({ id: [BigInt(key)], name: [`n${key % 50}`] });
const rowsFrom = (first: number, count: number): Rows[] => Array.from({ length: count }, (_, i) => row(first + i));

describe('a stream of many record batches', () => {
  const after = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startTestService(after);
    for (const [name, schema] of [['plain', plain] as const, ['coded', coded] as const]) {
      const made = await service.post(`/v1/table/${name}/create`, encodeStream(schema, [row(0)]));
      assert.equal(made.status, 200, JSON.stringify(made.body));
    }
  });

  const merge = (table: string, body: Buffer) => service.post(`/v1/table/${table}/merge_insert?on=id`, body);

  test('is merged as if they were one: the time of the engine does not grow with their square (P12)', async () => {
    const { status, body } = await merge('plain', encodeStream(plain, rowsFrom(0, 5_000)));
    assert.deepEqual([status, body.num_inserted_rows, body.num_updated_rows], [200, 4_999, 1]);
    const count = await service.post('/v1/table/plain/count_rows', { predicate: "id = 4321 AND name = 'n21'" });
    assert.equal(count.body, 1);
  });

  test('may have any number without rows, of which nothing is kept (P12)', async () => {
    const [schema, batch, empty] = encodeMessages(plain, [row(7), { id: [], name: [] }]);
    const stream = Buffer.concat([schema!, ...Array<Buffer>(20_000).fill(empty!), batch!, endOfStream]);
    const { status, body } = await merge('plain', stream);
    assert.deepEqual([status, body.num_updated_rows, body.num_inserted_rows], [200, 1, 0]);
  });

  test('is refused beyond 16,384 with rows, and beyond 1,024 that cannot be joined', async () => {
    const tooMany = await merge('plain', encodeStream(plain, rowsFrom(0, 16_385)));
    assert.equal(tooMany.status, 400);
    assert.match(String(tooMany.body.error), /a merge can have 16384 record batches with rows/);
    const refused = await merge('coded', encodeStream(coded, rowsFrom(0, 1_025)));
    assert.equal(refused.status, 400);
    assert.match(
      String(refused.body.error),
      /1025 record batches, and a merge with dictionary-encoded columns can have/,
    );
    const taken = await merge('coded', encodeStream(coded, rowsFrom(0, 300)));
    assert.equal(taken.body.num_inserted_rows, 299, JSON.stringify(taken.body));
  });
});
