/** Queries at their ends: more memory than a reader has, a version whose files go, and many searches in one. */
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { Field, FixedSizeList, Float32, Int32, tableFromIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { stream } from './rows.ts';

type Fields = Readonly<Record<string, unknown>>;
const everyRow = { vector: [], k: 2 ** 63, prefilter: true };
const rowsPerPart = 12_000;
const parts = 4;
const long = 'x'.repeat(1_000);

const part = (index: number): Buffer => {
  const ids = Array.from({ length: rowsPerPart }, (_, i) => index * rowsPerPart + i);
  const text = vectorFromArray(
    ids.map((id) => `${id}${long}`),
    new Utf8(),
  );
  return stream({ id: vectorFromArray(ids, new Int32()), text });
};

describe('a query at its ends', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { READER_MEMORY: '256MiB' });
    await store('large');
  });
  /** Each part is a fragment with a file of its own. */
  const store = async (table: string): Promise<void> => {
    succeeded(await service.post(`/v1/table/${table}/create`, part(0)));
    for (let index = 1; index < parts; index++)
      succeeded(await service.post(`/v1/table/${table}/merge_insert?on=id`, part(index)));
  };
  const query = (table: string, body: Fields) => service.post(`/v1/table/${table}/query`, { ...everyRow, ...body });
  const rowsIn = (body: unknown): number => tableFromIPC(body as Buffer).numRows;
  /** An answer whose body has not been read yet. */
  const begin = async (table: string): Promise<IncomingMessage> => {
    const headers = { authorization: `Bearer ${await service.mint('lancegate:read')}`, connection: 'close' };
    const asked = request(`${service.url}/v1/table/${table}/query`, { method: 'POST', headers });
    asked.end(JSON.stringify(everyRow));
    return new Promise((resolve, reject) => {
      asked.once('response', resolve).once('error', reject);
    });
  };

  test('sorting more than the memory of a reader holds is refused, and the next query is answered (P7, P12)', async () => {
    const wide = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`t${i}`, `text || '${i}'`]));
    const sorted = await query('large', { columns: { id: 'id', ...wide }, order_by: [{ column_name: 'id' }] });
    refused(sorted as never, 503, 17, /^the query needed more than the 256 MiB that it may have/);
    const few = await query('large', { columns: ['id'], order_by: [{ column_name: 'id', ascending: false }], k: 3 });
    assert.equal(rowsIn(succeeded(few)), 3);
  });

  test('a scan whose files are removed ends whole or broken, never with fewer rows (P12)', async () => {
    await store('gone');
    const answer = await begin('gone');
    assert.equal(answer.statusCode, 200);
    const data = join(service.tablesFolder, 'gone.lance', 'data');
    assert.ok(readdirSync(data).length >= parts);
    for (const name of readdirSync(data)) rmSync(join(data, name));
    const read = await answer.toArray().then(
      (bytes) => rowsIn(Buffer.concat(bytes)),
      (error: Error) => error.message,
    );
    assert.ok(read === parts * rowsPerPart || read === 'aborted', String(read));
    const again = await query('gone', {});
    assert.notEqual(again.status, 200);
  });

  test('hundreds of vectors in one query each find their rows', async () => {
    const vectors = vectorFromArray(
      Array.from({ length: 50 }, (_, id) => [id, 1]),
      new FixedSizeList(2, new Field('item', new Float32(), true)),
    );
    succeeded(await service.post('/v1/table/points/create', stream({ id: [...Array(50).keys()], v: vectors })));
    const asked = Array.from({ length: 600 }, (_, i) => [i % 50, 1]);
    const found = tableFromIPC(succeeded(await query('points', { vector: asked, k: 1 })) as unknown as Buffer);
    const ids = found.toArray().map((row) => [Number(row.query_index), Number(row.id)] as const);
    assert.equal(ids.length, 600);
    assert.ok(ids.every(([index, id]) => id === index % 50));
  });

  test('names of columns that would lose their order are refused', async () => {
    const digits = { columns: { b: 'id', 7: 'id' } };
    refused((await query('large', digits)) as never, 400, 13, /^columns: 7 cannot be the name of one of several/);
    const one = tableFromIPC(succeeded(await query('large', { columns: { 7: 'id' }, k: 1 })) as unknown as Buffer);
    assert.deepEqual(
      one.schema.fields.map(({ name }) => name),
      ['7'],
    );
  });
});
