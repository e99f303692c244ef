/** A float key that compares equal is one key: NaN of any bits, and both zeros. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import {
  type DataType,
  Field,
  Float16,
  Float32,
  Float64,
  Int32,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  Table,
  tableToIPC,
} from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';

/** A NaN, others of its kind, and both zeros. */
const bitsOf = {
  f16: [0x7e00, 0xfe01, 0x7c01, 0, 0x8000],
  f32: [0x7fc00000, 0xffc00001, 0x7f800001, 0, 0x80000000],
  f64: [0x7ff8000000000000n, 0xfff8000000000001n, 0x7ff0000000000001n, 0n, 0x8000000000000000n],
} as const;
type Width = keyof typeof bitsOf;
const [nan, otherNaN, signallingNaN, zero, minusZero] = [0, 1, 2, 3, 4];

const typeOf = { f16: new Float16(), f32: new Float32(), f64: new Float64() } as const;
const dataOf = {
  f16: (at: readonly number[]) => Uint16Array.from(at, (bits) => bitsOf.f16[bits]!),
  f32: (at: readonly number[]) => new Float32Array(Uint32Array.from(at, (bits) => bitsOf.f32[bits]!).buffer),
  f64: (at: readonly number[]) => new Float64Array(BigUint64Array.from(at, (bits) => bitsOf.f64[bits]!).buffer),
};

type Shape = 'top' | 'nested' | 'composite';

/** One row for each spelling; `v`: the value beside the key, or no such column. */
function rows(width: Width, shape: Shape, spellings: readonly number[], v?: number): Uint8Array {
  const length = spellings.length;
  const key = makeData({ type: typeOf[width] as Float64, length, data: dataOf[width](spellings) as Float64Array });
  const ints = (value: number) => makeData({ type: new Int32(), length, data: new Int32Array(length).fill(value) });
  const columns: [string, ReturnType<typeof makeData>][] = [];
  if (shape === 'nested') {
    const type = new Struct([new Field('k', key.type as DataType, true)]) as never;
    columns.push(['s', makeData({ type, length, children: [key] } as never)]);
  } else columns.push(['k', key]);
  if (shape === 'composite') columns.push(['a', ints(1)]);
  if (v !== undefined) columns.push(['v', ints(v)]);
  columns.push(['w', ints(0)]);
  const schema = new Schema(columns.map(([name, { type }]) => new Field(name, type as DataType, true)));
  const struct = new Struct(schema.fields);
  const batch = new RecordBatch(schema, makeData({ type: struct, length, children: columns.map(([, data]) => data) }));
  return tableToIPC(new Table([batch]), 'stream');
}

const onOf = { top: 'on=k', nested: 'on=s.k', composite: 'on=k&on=a' } as const;

interface Merged {
  readonly num_inserted_rows: number;
  readonly num_updated_rows: number;
  readonly num_deleted_rows: number;
}

describe('float keys that are one number in several spellings (P2)', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startTestService(later);
  });

  const makeTable = async (content: Uint8Array): Promise<string> => {
    const name = `t${++tables}`;
    assert.equal((await service.post(`/v1/table/${name}/create`, content)).status, 200);
    return name;
  };
  const merge = async (table: string, query: string, content: Uint8Array) => {
    const { status, body } = await service.post<Merged>(`/v1/table/${table}/merge_insert?${query}`, content);
    assert.equal(status, 200, JSON.stringify(body));
    return [body.num_inserted_rows, body.num_updated_rows, body.num_deleted_rows];
  };
  const count = async (table: string, predicate?: string) =>
    (await service.post<number>(`/v1/table/${table}/count_rows`, predicate === undefined ? {} : { predicate })).body;

  for (const width of ['f16', 'f32', 'f64'] as const) {
    for (const shape of ['top', 'nested', 'composite'] as const) {
      const on = onOf[shape];
      const of = (spellings: readonly number[], v?: number) => rows(width, shape, spellings, v);

      test(`${width}, ${shape}: every merge finds the row of another spelling`, async () => {
        const table = await makeTable(of([nan, zero], 1));
        assert.deepEqual(await merge(table, on, of([otherNaN, minusZero], 2)), [0, 2, 0]);
        assert.deepEqual(await merge(table, on, of([signallingNaN, zero], 3)), [0, 2, 0]);
        const onlyInsert = `${on}&when_not_matched_insert_all=true`;
        assert.deepEqual(await merge(table, onlyInsert, of([nan, minusZero], 4)), [0, 0, 0]);
        const onlyUpdate = `${on}&when_matched_update_all=true`;
        assert.deepEqual(await merge(table, onlyUpdate, of([otherNaN, zero], 5)), [0, 2, 0]);
        assert.deepEqual(await merge(table, on, of([nan, minusZero])), [0, 2, 0]);
        const filtered = `${on}&when_matched_update_all=true&when_matched_update_all_filt=target.v%20%3D%205`;
        assert.deepEqual(await merge(table, filtered, of([otherNaN, zero], 6)), [0, 2, 0]);
        const bySource = `${on}&when_not_matched_insert_all=true&when_not_matched_by_source_delete=true`;
        assert.deepEqual(await merge(table, bySource, of([signallingNaN, minusZero], 7)), [0, 0, 0]);
        assert.deepEqual(await merge(table, bySource, of([signallingNaN], 7)), [0, 0, 1]);
        assert.deepEqual([await count(table), await count(table, 'v = 6')], [1, 1]);
      });
    }
  }

  test('two of them are one key of a source, which is refused, on a declared table too', async () => {
    const table = await makeTable(rows('f64', 'top', [nan], 1));
    assert.equal((await service.post('/v1/table/declared/declare', {})).status, 200);
    for (const name of [table, 'declared']) {
      for (const spellings of [
        [nan, otherNaN],
        [zero, minusZero],
      ]) {
        const { status, body } = await service.post(
          `/v1/table/${name}/merge_insert?on=k`,
          rows('f64', 'top', spellings, 2),
        );
        assert.equal(status, 400);
        assert.match(String(body.error), /the source holds a key twice/);
      }
    }
  });

  test('an upsert of whole rows leaves one row of a key that is there in several spellings', async () => {
    const table = await makeTable(rows('f64', 'top', [nan, otherNaN, zero, minusZero], 1));
    assert.deepEqual(await merge(table, 'on=k', rows('f64', 'top', [signallingNaN, zero], 2)), [0, 2, 2]);
    assert.equal(await count(table, 'v = 2'), 2);
  });

  test('a merge inside of transact, and one on a branch, find the row of another spelling', async () => {
    const table = await makeTable(rows('f64', 'top', [nan, zero], 1));
    assert.equal((await service.post(`/v1/table/${table}/branches/create`, { name: 'b' })).status, 200);
    assert.deepEqual(await merge(table, 'on=k&branch=b', rows('f64', 'top', [otherNaN, minusZero])), [0, 2, 0]);
    const form = new FormData();
    form.append('op', JSON.stringify({ operation: 'merge_insert', source: 'sent', on: 'k' }));
    form.append('sent', new Blob([rows('f64', 'top', [otherNaN, minusZero], 2) as Uint8Array<ArrayBuffer>]));
    const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
    const sent = await fetch(`${service.url}/v1/table/${table}/transact`, { method: 'POST', body: form, headers });
    assert.equal(sent.status, 200, await sent.clone().text());
    assert.deepEqual([await count(table), await count(table, 'v = 2')], [2, 2]);
  });
});
