import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { TimestampMillisecond, vectorFromArray } from 'apache-arrow';
import type { DataType } from '#src/arrow/schema/schema.ts';
import { cutBefore } from '#src/operations/ended-rows.ts';
import { makeApiKey } from '#test/clients/connections.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { encodeStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { AdvancingClock } from '#test/maintenance/advancing-clock.ts';
import { Random } from '#test/model/random.ts';
import { refused, succeeded } from './checked-service.ts';
import { storedRows, stream } from './rows.ts';

const minuteMs = 60_000;
const dayMs = 1_440 * minuteMs;
const properties = (values: object) => `properties=${encodeURIComponent(JSON.stringify(values))}`;
const ending = (column: string, ttl: string) => properties({ 'lancegate.ttl_column': column, 'lancegate.ttl': ttl });

test('rows that end are deleted in commits of bounded size, the oldest first', async () => {
  const ends = Array.from({ length: 1_000 }, (_, i) => 1_000_000 + (i < 500 ? 0 : i * 7));
  const ended = async (nowMs: number) => ends.filter((ms) => ms <= nowMs).length;
  assert.equal(await ended(await cutBefore(2_000_000, 10, ended)), 500, 'those that end at once go at once');
  const cut = await ended(await cutBefore(2_000_000, 700, ended));
  assert.ok(cut >= 500 && cut <= 700);
});

describe('rows that end', () => {
  const later = afterSuite();
  const clock = new AdvancingClock();
  let service: TestService;
  let key: string;
  before(async () => {
    service = await startTestService(later, {}, clock);
    key = await makeApiKey(service, 'lancegate:admin'); // tokens expire while the clock advances
  });
  const post = <Body = Record<string, unknown>>(path: string, body?: object | Buffer, headers = {}) =>
    service.post<Body>(path, body, { 'x-api-key': key, ...headers });
  const times = (atMs: readonly (number | null)[]) =>
    vectorFromArray(
      atMs.map((ms) => (ms === null ? null : BigInt(ms))),
      new TimestampMillisecond('UTC'),
    );
  const create = (table: string, atMs: readonly (number | null)[], ttl = '1h') =>
    post(`/v1/table/${table}/create?${ending('at', ttl)}`, stream({ id: atMs.map((_, id) => id), at: times(atMs) }));
  const ids = async (table: string, branch?: string) => {
    const accept = { accept: 'application/json' };
    const { body } = await post<{ rows: { id: number }[] }>(`/v1/table/${table}/query`, { branch }, accept);
    return body.rows.map(({ id }) => id).sort((a, b) => a - b);
  };
  /** Lets a look begin, and waits until the rows are these. */
  const settled = async (table: string, expected: readonly number[], branch?: string) => {
    clock.advance(minuteMs);
    const untilMs = performance.now() + 20_000;
    let found = await ids(table, branch);
    while (performance.now() < untilMs && found.length !== expected.length) {
      clock.advance(1_000); // a look that was under way knows an earlier time
      found = await ids(table, branch);
    }
    assert.deepEqual(found, expected);
  };

  test('are deleted once their time is over, of main and of branches, and NULL never ends', async () => {
    const now = clock.nowMs();
    const { version } = succeeded(await create('t', [now - 59 * minuteMs, now, null, now + dayMs]));
    succeeded(await post('/v1/table/t/branches/create', { name: 'dev' }));
    await settled('t', [0, 1, 2, 3].slice(1));
    await settled('t', [1, 2, 3], 'dev');
    clock.advance(58 * minuteMs);
    await settled('t', [2, 3]);
    await settled('t', [2, 3], 'dev');
    assert.equal(succeeded(await post('/v1/table/t/describe', { version })).version, 1, 'older versions stay');
    const line = service.log
      .map((text) => JSON.parse(text))
      .find(({ msg, message = msg }) => /deleted rows that are past/.test(message));
    assert.deepEqual([line?.table, line?.branch, line?.numDeletedRows], ['t', 'main', 1]);
    const records = service.log
      .map((each) => JSON.parse(each))
      .filter(({ subject }) => subject === 'lancegate:ended-rows');
    assert.deepEqual(
      records.slice(0, 2).map(({ table, branch, deletedRows }) => [table, branch, deletedRows]),
      [
        ['t', 'main', 1],
        ['t', 'dev', 1],
      ],
    );
    const metrics = await (await fetch(`${service.url}/metrics`, { headers: { 'x-api-key': key } })).text();
    assert.match(metrics, /lancegate_ended_rows_total\{outcome="deleted"\} 4/);
  });

  test('end by columns of each type that has a time, to the value', async () => {
    const day = Math.floor(clock.nowMs() / dayMs) + 2;
    const timestamp = (unit: 's' | 'ms' | 'us' | 'ns', timezone?: string): DataType => ({
      kind: 'timestamp',
      unit,
      timezone,
    });
    const int = (bitWidth: 32 | 64, signed: boolean): DataType => ({ kind: 'int', bitWidth, signed });
    const types: readonly (readonly [DataType, perDay: bigint])[] = [
      [timestamp('s'), 86_400n],
      [timestamp('ms', 'Europe/Berlin'), 86_400_000n],
      [timestamp('us', 'UTC'), 86_400_000_000n],
      [timestamp('ns'), 86_400_000_000_000n],
      [{ kind: 'date', unit: 'day' }, 1n],
      [{ kind: 'date', unit: 'ms' }, 86_400_000n],
      [int(64, true), 86_400n],
      [int(32, false), 86_400n],
    ];
    for (const [i, [type, perDay]] of types.entries()) {
      const schema = schemaOf([field('id', int(32, true)), field('at', type, { nullable: true })]);
      const at = [BigInt(day) * perDay, BigInt(day + 1) * perDay, null];
      const rows = encodeStream(schema, [{ id: [1n, 2n, 3n], at }]);
      succeeded(await post(`/v1/table/type_${i}/create?${ending('at', '0s')}`, rows));
    }
    clock.advance(day * dayMs - clock.nowMs() - 2 * minuteMs);
    for (const i of types.keys()) assert.deepEqual(await ids(`type_${i}`), [1, 2, 3]);
    clock.advance(2 * minuteMs);
    for (const i of types.keys()) await settled(`type_${i}`, [2, 3]);
  });

  test('are set by properties that fit the columns, or the request is refused', async () => {
    const body = stream({ id: [1], name: ['a'], at: times([0]) });
    const wrong: readonly [object, RegExp][] = [
      [{ 'lancegate.ttl_column': 'at' }, /lancegate\.ttl_column: it needs the property lancegate\.ttl beside it/],
      [{ 'lancegate.ttl': '1h' }, /lancegate\.ttl: it needs the property lancegate\.ttl_column/],
      [{ 'lancegate.ttl_column': 'at', 'lancegate.ttl': 'soon' }, /lancegate\.ttl: expected a duration/],
      [{ 'lancegate.ttl_column': 'at', 'lancegate.ttl': '99999999d' }, /lancegate\.ttl: expected a duration/],
      [
        { 'lancegate.ttl_column': 'none', 'lancegate.ttl': '1h' },
        /lancegate\.ttl_column: the table has no column "none"/,
      ],
      [{ 'lancegate.ttl_column': 'name', 'lancegate.ttl': '1h' }, /lancegate\.ttl_column: column name is utf8/],
    ];
    for (const [values, says] of wrong) {
      refused(await post(`/v1/table/wrong/create?${properties(values)}`, body), 400, 13, says);
      if (!/column (name|"none")/.test(says.source))
        refused(await post('/v1/table/wrong/declare', { properties: values }), 400, 13, says);
    }
    refused(await post('/v1/table/wrong/describe'), 404, 4);
    succeeded(await post('/v1/table/plain/create', body));
    succeeded(await post('/v1/table/plain/deregister'));
    const register = (column: string) =>
      post('/v1/table/wrong/register', {
        location: 'plain.lance',
        properties: { 'lancegate.ttl_column': column, 'lancegate.ttl': '1000d' },
      });
    refused(await register('name'), 400, 13, /column name is utf8/);
    refused(await post('/v1/table/wrong/describe'), 404, 4);
    succeeded(await register('at'));
    succeeded(
      await post('/v1/table/late/declare', {
        properties: { 'lancegate.ttl_column': 'at', 'lancegate.ttl': '1h' },
      }),
    );
    refused(await post('/v1/table/late/merge_insert?on=id', stream({ id: [1] })), 400, 13, /no column "at"/);
    succeeded(await post('/v1/table/late/merge_insert?on=id', body));
  });

  test('keep their column: it is not dropped, renamed, overwritten or made another type', async () => {
    succeeded(await create('kept', [null]));
    const ask = (what: string, body: object | Buffer) => post(`/v1/table/kept/${what}`, body);
    refused(await ask('drop_columns', { columns: ['at'] }), 400, 13, /no column "at"/);
    const alter = (change: object) => ask('alter_columns', { alterations: [{ path: 'at', ...change }] });
    refused(await alter({ rename: 'then' }), 400, 13, /no column "at"/);
    refused(await ask('insert?mode=overwrite', stream({ id: [1] })), 400, 13, /no column "at"/);
    succeeded(await ask('add_columns', { new_columns: [{ name: 'more', expression: '1' }] }));
    succeeded(await ask('drop_columns', { columns: ['more'] }));
  });

  test('are as a small reference says, over merges, time and restarts', async () => {
    const random = new Random(20_26);
    const stepMs = 10 * minuteMs;
    const reference = new Map<number, number | null>([[0, null]]);
    succeeded(await create('model', [null], '20m'));
    const endedBy = (nowMs: number) =>
      [...reference].flatMap(([id, at]) => (at !== null && at + 2 * stepMs <= nowMs ? id : []));
    /** Rows are seen until they end, and none for longer than a minute. */
    const settle = async () => {
      clock.advance(minuteMs);
      const late = new Set(endedBy(clock.nowMs() - minuteMs));
      const untilMs = performance.now() + 20_000;
      let found = await ids('model');
      while (found.some((id) => late.has(id)) && performance.now() < untilMs) {
        clock.advance(1_000);
        found = await ids('model');
      }
      const ended = new Set(endedBy(clock.nowMs()));
      assert.deepEqual(
        found.filter((id) => late.has(id)),
        [],
      );
      for (const id of reference.keys()) {
        assert.ok(found.includes(id) || ended.has(id), `row ${id} went before its time`);
        if (!found.includes(id)) reference.delete(id);
      }
    };
    for (let step = 0; step < 12; step += 1) {
      const base = clock.nowMs() + stepMs / 2;
      const keys = random.sample([...Array(30).keys()], 1 + random.int(8));
      const at = keys.map(() => (random.chance(10) ? null : base + (random.int(5) - 2) * stepMs));
      const merged = succeeded(await post('/v1/table/model/merge_insert?on=id', stream({ id: keys, at: times(at) })));
      const ended = new Set(endedBy(clock.nowMs()));
      const known = keys.filter((id) => reference.has(id)).length;
      // One that has ended may be gone already.
      if (!keys.some((id) => ended.has(id)))
        assert.deepEqual([merged.num_updated_rows, merged.num_inserted_rows], [known, keys.length - known]);
      for (const [i, id] of keys.entries()) reference.set(id, at[i] ?? null);
      if (random.chance(20)) await service.restart();
      clock.advance(random.int(3) * stepMs);
      await settle();
    }
    const stored = (await storedRows(service, 'model')).map(({ id }) => Number(id));
    assert.deepEqual(new Set(stored), new Set(reference.keys()));
  });
});
