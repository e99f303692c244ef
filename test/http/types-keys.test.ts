import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readMessage } from '#src/arrow/format/message.ts';
import { typeName } from '#src/arrow/schema/schema.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeStream, endOfStream, field, type Rows, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { keyCases, polarsStreams } from '#test/fixtures/streams.ts';
import { openStored } from '#test/http/stored.ts';

const codecs = ['none', 'lz4', 'zstd'] as const;
const int32 = { kind: 'int', bitWidth: 32, signed: true } as const;

/** Each value of a column once, so that they can be keys; NULL is none and may stand there often. */
const distinct = (values: readonly unknown[]): unknown[] =>
  values.filter((value, i) => value !== null && values.findIndex((other) => sameValue(other, value)) === i);
const sameValue = (a: unknown, b: unknown): boolean =>
  a instanceof Buffer && b instanceof Buffer ? a.equals(b) : Object.is(a, b) || a === b;

describe('every type that is a key', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startTestService(later);
  });

  for (const [number, { field: k, values }] of keyCases.entries()) {
    const schema = schemaOf([k, field('v', int32)]);
    const keys = distinct(values);
    const rows = (of: readonly unknown[], first: number): Rows => ({ k: of, v: of.map((_, i) => BigInt(first + i)) });
    const codec = codecs[number % codecs.length]!;
    const table = `t${number}`;
    const path = `/v1/table/${table}/merge_insert?on=k`;

    test(`${typeName(k)}, ${codec}: finds its row again; held twice it is refused, stored or new (P2)`, async () => {
      await service.post(`/v1/table/${table}/declare`, {});
      const twice = rows([null, ...keys, null, keys[0]], 0);
      const intoDeclared = await service.post(path, encodeStream(schema, [twice], codec));
      assertNamesKey(intoDeclared, keys.length + 2);
      const { body } = await service.post(`/v1/table/${table}/describe`);
      assert.equal(body.is_only_declared, true, 'still declared only');

      const made = await service.post(path, encodeStream(schema, [rows([...keys.slice(1), null], 0)], codec));
      assert.deepEqual(
        [made.body.num_updated_rows, made.body.num_inserted_rows],
        [0, keys.length],
        String(made.body.error),
      );

      for (const key of [keys[0], keys.at(-1)]) {
        const batches = [rows([null, key], 0), rows([null, key], 0)];
        assertNamesKey(await service.post(path, encodeStream(schema, batches, codec)), 3);
      }
      assert.equal((await service.get(`/v1/table/${table}/count_rows`)).body, keys.length);

      const merged = await service.post(path, encodeStream(schema, [rows([...keys, null], 100)], codec));
      assert.deepEqual(
        [merged.body.num_updated_rows, merged.body.num_inserted_rows],
        [keys.length - 1, 2],
        String(merged.body.error),
      );
      const stored = await (await openStored(service.tablesFolder, table)).rows();
      const numbers = stored.v!.map(Number).toSorted((a, b) => a - b);
      assert.deepEqual(numbers, [keys.length - 1, ...keys.map((_, i) => 100 + i), 100 + keys.length]);
    });
  }

  test('a refusal of a composite key shows all of its parts, and of a nested one its path', async () => {
    const at = field('at', { kind: 'struct' }, { children: [field('x y', int32), field('z', int32)] });
    const schema = schemaOf([field('name', { kind: 'utf8' }), at]);
    const places = [7n, 8n, 7n].map((x) => ({ 'x y': x, z: 0n }));
    const stream = encodeStream(schema, [{ name: ['a', 'a', 'a'], at: places }], 'zstd');
    await service.post('/v1/table/nested/declare', {});
    const { status, body } = await service.post('/v1/table/nested/merge_insert?on=name&on=at.%60x%20y%60', stream);
    assert.equal(status, 400);
    assert.equal(body.error, 'the source holds a key twice: name, at.x y = "a", 7 in rows 1 and 3');
  });

  for (const { title, bytes, rows } of polarsStreams()) {
    test(`${title}, with its last batch sent twice, is refused, also into a declared table (P2)`, async () => {
      const messages = messagesOf(bytes);
      const repeated = gzipSync(Buffer.concat([...messages, messages.at(-1)!, endOfStream]));
      const table = title.replaceAll(/\W/g, '_');
      await service.post(`/v1/table/${table}/declare`, {});
      const merge = () =>
        service.post(`/v1/table/${table}/merge_insert?on=id`, repeated, { 'content-encoding': 'gzip' });
      const says = new RegExp(`^the source holds a key twice: id = "key-\\d+" in rows \\d+ and ${rows + 1}$`);
      assert.match(String((await merge()).body.error), says);
      assert.equal((await service.post(`/v1/table/${table}/create`, bytes)).status, 200);
      const { status, body } = await merge();
      assert.equal(status, 400);
      assert.match(String(body.error), says);
    });
  }
});

/** Without the end marker. */
function messagesOf(stream: Buffer): Buffer[] {
  const metaLength = stream.readInt32LE(4);
  if (metaLength === 0) return [];
  const end = 8 + metaLength + readMessage(stream.subarray(8, 8 + metaLength)).bodyLength;
  return [stream.subarray(0, end), ...messagesOf(stream.subarray(end))];
}

function assertNamesKey({ status, body }: { status: number; body: Record<string, unknown> }, row: number): void {
  assert.equal(status, 400, JSON.stringify(body));
  assert.match(String(body.error), new RegExp(`^the source holds a key twice: k = .+ in rows \\d+ and ${row + 1}$`));
}
