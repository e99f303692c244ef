import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Bool,
  type DataType,
  Dictionary,
  Int32,
  makeVector,
  TimestampMicrosecond,
  TimestampMillisecond,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { Random } from '#test/model/random.ts';
import { part, transact } from './multipart-body.ts';
import { type Row, storedRows, stream } from './rows.ts';

const { LANCEGATE_TOMBSTONE_SEED, LANCEGATE_TOMBSTONE_STEPS } = process.env;

interface Sent {
  readonly id: number | null;
  readonly v: number | null;
  /** undefined for a marked row. */
  readonly name: string | undefined;
}

const row = (id: number | null, v: number | null, name: string): Sent => ({ id, v, name });
const gone = (id: number | null, v: number | null): Sent => ({ id, v, name: undefined });

const table = (rows: readonly Sent[]) => ({
  id: vectorFromArray(
    rows.map(({ id }) => id),
    new Int32(),
  ),
  v: vectorFromArray(
    rows.map(({ v }) => v),
    new Int32(),
  ),
  name: vectorFromArray(
    rows.map(({ name }) => name ?? null),
    new Utf8(),
  ),
});

const marked = (rows: readonly Sent[]): Buffer =>
  stream({
    ...table(rows),
    deleted: vectorFromArray(
      rows.map(({ name }) => name === undefined),
      new Bool(),
    ),
  });

async function startWith(
  clean: (end: () => void | Promise<void>) => void,
  rows: readonly Sent[],
): Promise<TestService> {
  const service = await startTestService(clean);
  assert.equal((await service.post('/v1/table/t/create', stream(table(rows)))).status, 200);
  return service;
}

const byVersion = '&version_column=v&tombstone=deleted';

async function merge(service: TestService, source: Buffer, query = byVersion, headers = {}): Promise<Row> {
  const answer = await service.post(`/v1/table/t/merge_insert?on=id${query}`, source, headers);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
}

const counts = (answer: Row): readonly unknown[] => [
  answer.num_inserted_rows,
  answer.num_updated_rows,
  answer.num_deleted_rows,
  answer.num_stale_rows,
];

const names = async (service: TestService): Promise<readonly unknown[]> =>
  (await storedRows(service, 't')).map(({ id, name }) => `${id} ${name}`);

test('a marked row deletes its key, and what is older stays deleted until a newer row comes (P2, P4)', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 1, 'a'), row(2, 1, 'b'), row(3, 9, 'c')]);
  const first = await merge(service, marked([gone(1, 5), row(2, 2, 'newer'), gone(3, 8), gone(4, 5)]));
  assert.deepEqual(counts(first), [0, 1, 1, 1]);
  assert.deepEqual(await names(service), ['2 newer', '3 c']);
  const late = await merge(service, stream(table([row(1, 4, 'late'), row(4, 4, 'late')])), '&version_column=v');
  assert.deepEqual([...counts(late), late.version], [0, 0, 0, 2, first.version]);
  assert.deepEqual(counts(await merge(service, marked([gone(1, 3)]))), [0, 0, 0, 1]);
  const again = await merge(service, stream(table([row(1, 5, 'equal'), row(4, 6, 'new')])), '&version_column=v');
  assert.deepEqual(counts(again), [2, 0, 0, 0]);
  assert.deepEqual(await names(service), ['1 equal', '2 newer', '3 c', '4 new']);
});

test('tombstones are of their version: they survive inserts and deletions, and a restored version has its own', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 1, 'a'), row(2, 1, 'b')]);
  const before = await merge(service, stream(table([row(3, 1, 'c')])), '&version_column=v');
  const { version } = await merge(service, marked([gone(1, 5)]));
  assert.equal((await service.post('/v1/table/t/insert', stream(table([row(9, 1, 'z')])))).status, 200);
  assert.equal((await service.post('/v1/table/t/delete', { predicate: 'id = 2' })).status, 200);
  const late = () => merge(service, stream(table([row(1, 4, 'late')])), '&version_column=v');
  assert.equal((await late()).num_stale_rows, 1);
  assert.equal((await service.post('/v1/table/t/restore', { version: before.version })).status, 200);
  assert.deepEqual(counts(await late()), [0, 1, 0, 0], 'the version before has the row and no tombstone');
  assert.equal((await service.post('/v1/table/t/restore', { version })).status, 200);
  assert.deepEqual(counts(await late()), [0, 0, 0, 1]);
});

test('without a version column a marked row deletes, and nothing is remembered', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 5, 'a'), row(2, 5, 'b')]);
  const deleted = await merge(service, marked([gone(1, null), row(3, 1, 'c')]), '&tombstone=deleted');
  assert.deepEqual(counts(deleted), [1, 0, 1, undefined]);
  const back = await merge(service, marked([row(1, 0, 'back')]), '&tombstone=deleted');
  assert.deepEqual(counts(back), [1, 0, 0, undefined]);
  assert.deepEqual(await names(service), ['1 back', '2 b', '3 c']);
});

test('a source of deletions alone needs no more than key, version and mark, and any value is a mark', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 1, 'a'), row(2, 1, 'b')]);
  const { id, v } = table([gone(1, 2), gone(2, 2)]);
  const op = vectorFromArray(['d', null], new Utf8());
  const refused = await service.post('/v1/table/t/merge_insert?on=id&tombstone=gone', stream({ id, v, op }));
  assert.equal(refused.status, 400);
  assert.match(JSON.stringify(refused.body), /tombstone: the source has no column gone/);
  const one = await merge(
    service,
    stream({ id, v, op: vectorFromArray(['d', 'd'], new Utf8()) }),
    '&version_column=v&tombstone=op',
  );
  assert.deepEqual(counts(one), [0, 0, 2, 0]);
  assert.deepEqual(await names(service), []);
});

test('what the indices of a dictionary stand for is a mark, or none', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 1, 'a'), row(2, 1, 'b'), row(3, 1, 'c')]);
  const rows = table([row(1, 2, 'd'), row(2, 2, 'e'), row(3, 2, 'f')]);
  const strings = new Dictionary(new Utf8(), new Int32());
  const words = vectorFromArray(['d', null, null], strings);
  assert.deepEqual(
    counts(await merge(service, stream({ ...rows, op: words }), '&tombstone=op')).slice(0, 3),
    [0, 2, 1],
  );
  const flags = new Dictionary(new Bool(), new Int32());
  const deleted = makeVector({
    type: flags,
    data: new Int32Array([0, 1, 2]),
    dictionary: vectorFromArray([false, true, null], new Bool()),
  });
  assert.deepEqual(
    counts(await merge(service, stream({ ...rows, deleted }), '&tombstone=deleted')).slice(0, 3),
    [1, 1, 1],
  );
  assert.deepEqual(await names(service), ['1 d', '3 f']);
});

test('a version column that is cast to another unit of time leaves its tombstones behind', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const at = (id: number, day: number, type: DataType) => ({
    id: vectorFromArray([id], new Int32()),
    v: vectorFromArray([Date.UTC(2026, 1, day)], type),
  });
  const made = await service.post('/v1/table/t/create', stream(at(1, 1, new TimestampMicrosecond())));
  assert.equal(made.status, 200);
  const deleted = vectorFromArray([true], new Bool());
  await merge(service, stream({ ...at(1, 2, new TimestampMicrosecond()), deleted }));
  const late = await merge(service, stream(at(1, 1, new TimestampMicrosecond())), '&version_column=v');
  assert.equal(late.num_stale_rows, 1);
  const alterations = [{ path: 'v', data_type: { type: 'timestamp:ms:-' } }];
  assert.equal((await service.post('/v1/table/t/alter_columns', { alterations })).status, 200);
  const newer = await merge(service, stream(at(1, 3, new TimestampMillisecond())), '&version_column=v');
  assert.deepEqual(counts(newer), [1, 0, 0, 0]);
});

test('of rows with one key, marked or not, the newest of the source counts', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 1, 'a'), row(2, 1, 'b')]);
  const sent = [gone(1, 3), row(1, 2, 'older'), row(2, 3, 'x'), gone(2, 3), row(3, 1, 'c'), gone(3, 1), row(3, 1, 'd')];
  const answer = await merge(service, marked(sent));
  assert.deepEqual([...counts(answer), answer.num_duplicate_rows], [1, 0, 2, 0, 4]);
  assert.deepEqual(await names(service), ['3 d']);
});

test('a marked row without a key deletes nothing', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(null, 1, 'a'), row(1, 1, 'b')]);
  assert.deepEqual(counts(await merge(service, marked([gone(null, 5)]))), [0, 0, 0, 0]);
  assert.equal((await storedRows(service, 't')).length, 2);
});

test('a retry of a merge with marked rows gets its answer again, and does nothing (P6)', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 1, 'a'), row(2, 1, 'b')]);
  const source = marked([gone(1, 5), row(2, 2, 'c'), gone(7, 1)]);
  const key = { 'idempotency-key': 'one' };
  const first = await merge(service, source, byVersion, key);
  const again = await merge(service, source, byVersion, key);
  assert.deepEqual([counts(again), again.version], [counts(first), first.version]);
});

test('rows of text are marked by a Boolean, and a default of the table says by which', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 1, 'a'), row(2, 1, 'b')]);
  const metadata = { 'lancegate.version_column': 'v', 'lancegate.tombstone': 'deleted' };
  assert.equal((await service.post('/v1/table/t/schema_metadata/update', metadata)).status, 200);
  const lines = '{"id":1,"v":3,"deleted":true}\n{"id":2,"v":3,"name":"c","deleted":false}\n';
  const answer = await merge(service, Buffer.from(lines), '', { 'content-type': 'application/x-ndjson' });
  assert.deepEqual(counts(answer), [0, 1, 1, 0]);
  assert.deepEqual(await names(service), ['2 c']);
});

for (const [query, why] of [
  ['&when_not_matched_by_source_delete=true&when_matched_update_all=true', /deletes by source has no marks/],
  ['&when_not_matched_insert_all=true', /when_matched_update_all has to be true/],
  ['&when_matched_update_all_filt=source.v > 1', /when_matched_update_all has to be true/],
  ['&version_column=deleted', /the mark cannot be in the key or the version_column/],
] as const)
  test(`a tombstone that makes no sense is refused: ${query}`, async (t) => {
    const service = await startWith((clean) => t.after(clean), [row(1, 1, 'a')]);
    const url = `/v1/table/t/merge_insert?on=id&tombstone=deleted${query}`;
    const answer = await service.post(url, marked([gone(1, 2)]));
    assert.equal(answer.status, 400);
    assert.match(JSON.stringify(answer.body), why);
  });

interface State {
  readonly v: number;
  /** undefined where it is deleted. */
  readonly name: string | undefined;
}

/** One merge, as if it were alone; what it counts. */
function applied(model: Map<number, State>, rows: readonly Sent[]): readonly number[] {
  const done = { inserted: 0, updated: 0, deleted: 0, stale: 0 };
  for (const { id, v, name } of rows) {
    const key = id ?? 0;
    const there = model.get(key);
    if (there !== undefined && (v ?? 0) < there.v) {
      done.stale += 1;
      continue;
    }
    const isThere = there?.name !== undefined;
    if (name === undefined) done.deleted += isThere ? 1 : 0;
    else if (isThere) done.updated += 1;
    else done.inserted += 1;
    model.set(key, { v: v ?? 0, name });
  }
  return [done.inserted, done.updated, done.deleted, done.stale];
}

test('merges with and without marks do and count as one after the other, by any number of clients (P2, P4)', async (t) => {
  const random = new Random(Number(LANCEGATE_TOMBSTONE_SEED ?? 1));
  const service = await startWith((clean) => t.after(clean), []);
  const model = new Map<number, State>();
  for (let step = 0; step < Number(LANCEGATE_TOMBSTONE_STEPS ?? 12); step += 1) {
    // Each client has keys of its own, so that the order of those that are sent together does not matter.
    const sources = Array.from({ length: 3 }, (_, client) =>
      random.sample([0, 1, 2, 3], 1 + random.int(3)).map((key): Sent => {
        const id = client * 10 + key;
        return random.chance(30) ? gone(id, random.int(20)) : row(id, random.int(20), `${step}.${client}`);
      }),
    );
    const answers = await Promise.all(sources.map((rows) => merge(service, marked(rows))));
    assert.deepEqual(
      answers.map(counts),
      sources.map((rows) => applied(model, rows)),
    );
    const there = [...model].filter(([, { name }]) => name !== undefined);
    assert.deepEqual(await names(service), there.map(([id, { name }]) => `${id} ${name}`).sort());
  }
});

test('a merge in a transact sees tombstones, and has no marked rows', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 1, 'a')]);
  await merge(service, marked([gone(1, 5)]));
  const setDefaults = async (metadata: Readonly<Record<string, string>>) =>
    assert.equal((await service.post('/v1/table/t/schema_metadata/update', metadata)).status, 200);
  await setDefaults({ 'lancegate.version_column': 'v' });
  const put = part('put', { operation: 'merge_insert', on: 'id', source: 'r' });
  const late = part('r', stream(table([row(1, 4, 'late'), row(2, 4, 'new')])));
  const done = await transact(service, 't', [put, late]);
  assert.equal(done.status, 200, JSON.stringify(done.body));
  assert.deepEqual(await names(service), ['2 new']);
  await setDefaults({ 'lancegate.version_column': 'v', 'lancegate.tombstone': 'name' });
  const refused = await transact(service, 't', [put, late]);
  assert.equal(refused.status, 400);
  assert.match(JSON.stringify(refused.body), /a merge in a transact has no marked rows/);
  const unmarked = part('put', { operation: 'merge_insert', on: 'id', source: 'r', tombstone: '' });
  assert.equal((await transact(service, 't', [unmarked, late])).status, 200);
});

test('a merge in a transact has the rules of its fields', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 5, 'a')]);
  const merging = (rules: Readonly<Record<string, unknown>>, ...rows: readonly Sent[]) => {
    const put = part('put', { operation: 'merge_insert', on: 'id', source: 'r', ...rules });
    return transact(service, 't', [put, part('r', stream(table(rows)))]);
  };
  const twice = await merging({ on_duplicate: 'last' }, row(2, 1, 'b'), row(2, 1, 'c'));
  assert.equal(twice.status, 200, JSON.stringify(twice.body));
  assert.equal((await merging({ version_column: 'v' }, row(1, 4, 'late'))).status, 200);
  assert.deepEqual(await names(service), ['1 a', '2 c']);
  const keyless = await merging({ key_required: true }, row(null, 1, 'd'));
  assert.equal(keyless.status, 400);
  assert.match(JSON.stringify(keyless.body), /key_required asks for a key/);
});
