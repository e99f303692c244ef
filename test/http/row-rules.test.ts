import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dictionary, Int32, Utf8, vectorFromArray } from 'apache-arrow';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { Random } from '#test/model/random.ts';
import { part, transact } from './multipart-body.ts';
import { type Row, storedRows, stream } from './rows.ts';

const { LANCEGATE_RULES_SEED, LANCEGATE_RULES_STEPS } = process.env;

interface Sent {
  readonly id: number | null;
  readonly v: number | null;
  readonly name: string;
}

const rowsOf = (rows: readonly Sent[]): Buffer =>
  stream({
    id: rows.map(({ id }) => id),
    v: rows.map(({ v }) => v),
    name: vectorFromArray(
      rows.map(({ name }) => name),
      new Utf8(),
    ),
  });

const row = (id: number | null, v: number | null, name: string): Sent => ({ id, v, name });
const twice = [row(1, 1, 'first'), row(2, 1, 'alone'), row(1, 2, 'last')];

async function startWith(
  clean: (end: () => void | Promise<void>) => void,
  rows: readonly Sent[],
  create = '',
): Promise<TestService> {
  const service = await startTestService(clean);
  assert.equal((await service.post(`/v1/table/t/create${create}`, rowsOf(rows))).status, 200);
  return service;
}

async function merge(service: TestService, rows: readonly Sent[], query = '', headers = {}): Promise<Row> {
  const answer = await service.post(`/v1/table/t/merge_insert?on=id${query}`, rowsOf(rows), headers);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body;
}

const names = async (service: TestService): Promise<readonly unknown[]> =>
  (await storedRows(service, 't')).map(({ id, name }) => `${id} ${name}`);

test('of a key that comes twice the first or the last row counts, and the answer says how many did not (P2, P4)', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 0, 'old')]);
  const last = await merge(service, twice, '&on_duplicate=last');
  assert.deepEqual(
    [last.num_updated_rows, last.num_inserted_rows, last.num_duplicate_rows, last.num_rows],
    [1, 1, 1, 2],
  );
  assert.deepEqual(await names(service), ['1 last', '2 alone']);
  assert.equal((await merge(service, twice, '&on_duplicate=first')).num_duplicate_rows, 1);
  assert.deepEqual(await names(service), ['1 first', '2 alone']);
  assert.equal((await merge(service, twice.slice(1), '&on_duplicate=first')).num_duplicate_rows, 0);
});

test('rows without a key are no duplicates of each other', async (t) => {
  const service = await startWith((clean) => t.after(clean), []);
  const answer = await merge(service, [row(null, 1, 'a'), row(null, 1, 'a')], '&on_duplicate=last');
  assert.deepEqual([answer.num_inserted_rows, answer.num_duplicate_rows], [2, 0]);
});

test('without a rule a key that comes twice is refused, and no answer speaks of rules', async (t) => {
  const service = await startWith((clean) => t.after(clean), []);
  const refused = await service.post('/v1/table/t/merge_insert?on=id', rowsOf(twice));
  assert.equal(refused.status, 400);
  const asked = await service.post('/v1/table/t/merge_insert?on=id&on_duplicate=refuse', rowsOf(twice));
  assert.equal(asked.status, 400);
  const answer = await merge(service, twice.slice(1));
  assert.deepEqual(
    Object.keys(answer).filter((name) => /duplicate|stale|defaults/.test(name)),
    [],
  );
});

test('dictionary-encoded columns are thinned out as any others', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const encoded = (texts: readonly string[]) => vectorFromArray(texts, new Dictionary(new Utf8(), new Int32()));
  const rows = stream({ id: [1, 2, 1], name: encoded(['a', 'b', 'c']) });
  assert.equal((await service.post('/v1/table/t/create', stream({ id: [9], name: encoded(['z']) }))).status, 200);
  const answer = await service.post('/v1/table/t/merge_insert?on=id&on_duplicate=last', rows);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  assert.deepEqual(await names(service), ['1 c', '2 b', '9 z']);
});

test('a row that is older than the one of the table changes nothing; an equal one, and a newer one, replaces it', async (t) => {
  const service = await startWith(
    (clean) => t.after(clean),
    [row(1, 5, 'five'), row(2, null, 'none'), row(3, 5, 'five')],
  );
  const sent = [row(1, 4, 'late'), row(2, 0, 'any'), row(3, 5, 'again'), row(4, 1, 'new')];
  const answer = await merge(service, sent, '&version_column=v');
  assert.deepEqual(
    [answer.num_updated_rows, answer.num_inserted_rows, answer.num_stale_rows, answer.num_duplicate_rows],
    [2, 1, 1, 0],
  );
  assert.deepEqual(await names(service), ['1 five', '2 any', '3 again', '4 new']);
  const { version } = answer;
  const late = await merge(service, [row(1, null, 'none'), row(4, 0, 'late')], '&version_column=v');
  assert.deepEqual([late.num_stale_rows, late.version], [2, version]);
});

test('of the rows of one source with one key the newest stays, and of equal ones the last', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 2, 'two')]);
  const sent = [row(1, 3, 'a'), row(1, 1, 'b'), row(1, 3, 'c'), row(2, null, 'd'), row(2, null, 'e')];
  const answer = await merge(service, sent, '&version_column=v');
  assert.deepEqual([answer.num_duplicate_rows, answer.num_stale_rows], [3, 0]);
  assert.deepEqual(await names(service), ['1 c', '2 e']);
});

test('a rule comes as a header, which SDKs can send, and a parameter goes before it', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 5, 'five')]);
  const versioned = { 'x-lancegate-version-column': 'v' };
  assert.equal((await merge(service, [row(1, 4, 'late')], '', versioned)).num_stale_rows, 1);
  const without = await merge(service, [row(1, 4, 'late')], '&version_column=', versioned);
  assert.deepEqual([without.num_updated_rows, without.num_stale_rows], [1, undefined]);
});

test('a misspelt header of a rule is refused, and names the one that was meant', async (t) => {
  const service = await startWith((clean) => t.after(clean), []);
  const headers = { 'x-lancegate-on-duplicates': 'last' };
  const answer = await service.post('/v1/table/t/merge_insert?on=id', rowsOf([row(1, 1, 'a')]), headers);
  assert.equal(answer.status, 400);
  assert.match(JSON.stringify(answer.body), /did you mean x-lancegate-on-duplicate\?/);
});

test('a default of the table counts where the request says nothing, and the answer says so', async (t) => {
  const properties = encodeURIComponent(JSON.stringify({ 'lancegate.version_column': 'v' }));
  const service = await startWith((clean) => t.after(clean), [row(1, 5, 'five')], `?properties=${properties}`);
  const late = await merge(service, [row(1, 4, 'late')]);
  assert.deepEqual([late.num_stale_rows, late.table_defaults], [1, { version_column: 'v' }]);
  const metadata = { 'lancegate.version_column': '', 'lancegate.on_duplicate': 'last' };
  assert.equal((await service.post('/v1/table/t/schema_metadata/update', metadata)).status, 200);
  const next = await merge(service, twice);
  assert.deepEqual([next.num_duplicate_rows, next.table_defaults], [1, { on_duplicate: 'last' }]);
  assert.equal((await merge(service, twice, '&on_duplicate=first')).table_defaults, undefined);
});

test('a default that cannot be is refused by its name, and a request can do without it', async (t) => {
  const properties = encodeURIComponent(JSON.stringify({ 'lancegate.version_column': 'gone' }));
  const service = await startWith((clean) => t.after(clean), [row(1, 5, 'five')], `?properties=${properties}`);
  const refused = await service.post('/v1/table/t/merge_insert?on=id', rowsOf([row(1, 6, 'six')]));
  assert.equal(refused.status, 400);
  assert.match(JSON.stringify(refused.body), /gone/);
  assert.equal((await merge(service, [row(1, 6, 'six')], '&version_column=')).num_updated_rows, 1);
});

test('rules that contradict each other are refused before the body is read', async (t) => {
  const service = await startWith((clean) => t.after(clean), []);
  const wrong = {
    'on_duplicate=both': /refuse, first, last/,
    'version_column=v&on_duplicate=first': /newest/,
    'version_column=v&when_not_matched_by_source_delete=true': /deletes by source/,
    'version_column=none': /no column none/,
    'version_column=a..b': /version_column/,
  };
  for (const [query, message] of Object.entries(wrong)) {
    const answer = await service.post(`/v1/table/t/merge_insert?on=id&${query}`, rowsOf([row(1, 1, 'a')]));
    assert.equal(answer.status, 400, query);
    assert.match(JSON.stringify(answer.body), message);
  }
});

test('a retry gets the same counts, those of rows that were passed over too (P6)', async (t) => {
  const service = await startWith((clean) => t.after(clean), [row(1, 5, 'five')]);
  const key = { 'idempotency-key': 'k' };
  const sent = [row(1, 1, 'late'), row(2, 1, 'a'), row(2, 2, 'b')];
  const first = await merge(service, sent, '&version_column=v', key);
  const again = await merge(service, sent, '&version_column=v', key);
  const { context: _, ...counts } = again;
  assert.deepEqual({ ...counts, context: first.context }, first);
  assert.deepEqual([again.num_stale_rows, again.num_duplicate_rows], [1, 1]);
});

test('the first merge into a declared table takes the newest row of each key', async (t) => {
  const service = await startTestService((clean) => t.after(clean));
  const properties = { 'lancegate.version_column': 'v' };
  assert.equal((await service.post('/v1/table/t/declare', { properties })).status, 200);
  const answer = await merge(service, [row(1, 2, 'new'), row(1, 1, 'old')]);
  assert.deepEqual([answer.num_inserted_rows, answer.num_duplicate_rows, answer.num_stale_rows], [1, 1, 0]);
  assert.deepEqual(await names(service), ['1 new']);
  assert.equal((await merge(service, [row(1, 1, 'old')])).num_stale_rows, 1);
});

test('of several operations each merge by a rule says what it passed over, and what the table said; so does a retry (P4, P6)', async (t) => {
  const properties = encodeURIComponent(JSON.stringify({ 'lancegate.version_column': 'v' }));
  const service = await startWith((clean) => t.after(clean), [row(1, 5, 'five')], `?properties=${properties}`);
  const put = { operation: 'merge_insert', on: 'id', source: 'r' };
  const late = rowsOf([row(1, 4, 'late'), row(2, 1, 'a'), row(2, 2, 'b')]);
  for (const _ of ['sent', 'again']) {
    const answer = await transact(service, 't', [part('put', put), part('r', late)], { 'idempotency-key': 'k' });
    const [{ num_stale_rows, num_duplicate_rows, table_defaults }] = answer.body.operations as [Row];
    assert.deepEqual([num_stale_rows, num_duplicate_rows, table_defaults], [1, 1, { version_column: 'v' }]);
  }
  assert.deepEqual(await names(service), ['1 five', '2 b']);
});

const isOlder = (a: Sent, b: Sent): boolean => b.v !== null && (a.v === null || a.v < b.v);

function newestOf(sent: readonly Sent[]): ReadonlyMap<number, Sent> {
  const newest = new Map<number, Sent>();
  for (const each of sent) {
    const known = newest.get(each.id ?? -1);
    if (known === undefined || !isOlder(each, known)) newest.set(each.id ?? -1, each);
  }
  return newest;
}

/** What a merge does to the newest row of each key, and what it counts. */
function applied(before: ReadonlyMap<number, Sent>, sent: readonly Sent[], inserts: boolean) {
  const newest = newestOf(sent);
  const isStale = ([id, each]: readonly [number, Sent]) => isOlder(each, before.get(id) ?? each);
  const fresh = [...newest].filter((each) => !isStale(each));
  const updated = fresh.filter(([id]) => before.has(id));
  const inserted = inserts ? fresh.filter(([id]) => !before.has(id)) : [];
  return {
    after: new Map([...before, ...updated, ...inserted]),
    counts: {
      num_updated_rows: updated.length,
      num_inserted_rows: inserted.length,
      num_stale_rows: newest.size - fresh.length,
      num_duplicate_rows: sent.length - newest.size,
    },
  };
}

test('random merges by version leave the newest row of each key, with exact counts, whatever else writes (P2, P4)', async (t) => {
  const seed = Number(LANCEGATE_RULES_SEED ?? 1);
  const steps = Number(LANCEGATE_RULES_STEPS ?? 60);
  t.diagnostic(`LANCEGATE_RULES_SEED=${seed} LANCEGATE_RULES_STEPS=${steps}`);
  const random = new Random(seed);
  const service = await startWith((clean) => t.after(clean), []);
  let table: ReadonlyMap<number, Sent> = new Map();
  const draw = (): Sent => row(random.int(30), random.int(5) === 0 ? null : random.int(40), `${random.int(1_000)}`);
  const mergeSome = async (inserts: boolean, step: number) => {
    const sent = Array.from({ length: 1 + random.int(8) }, draw);
    const { after, counts } = applied(table, sent, inserts);
    const answer = await merge(service, sent, `${inserts ? '' : '&when_matched_update_all=true'}&version_column=v`);
    const counted = Object.fromEntries(Object.keys(counts).map((name) => [name, answer[name]]));
    assert.deepEqual(counted, counts, `step ${step}`);
    table = after;
  };
  const deleteOne = async () => {
    const id = random.int(30);
    assert.equal((await service.post('/v1/table/t/delete', { predicate: `id = ${id}` })).status, 200);
    table = new Map([...table].filter(([key]) => key !== id));
  };
  for (let step = 1; step <= steps; step += 1) {
    await random.weighted<() => Promise<unknown>>([
      [1, deleteOne],
      [1, () => service.post('/v1/table/t/maintain', {})],
      [1, () => mergeSome(false, step)],
      [7, () => mergeSome(true, step)],
    ])();
    if (step % 20 !== 0) continue;
    const stored = (await storedRows(service, 't')).map(({ id, v, name }) => `${id} ${v} ${name}`).sort();
    assert.deepEqual(stored, [...table.values()].map(({ id, v, name }) => `${id} ${v} ${name}`).sort(), `step ${step}`);
  }
});

test('merges that share commits leave the newest row of each key, and count each row once (P2, P4)', async (t) => {
  const service = await startWith((clean) => t.after(clean), []);
  const random = new Random(7);
  const sent: Sent[] = [];
  const answers: Row[] = [];
  const client = async (): Promise<void> => {
    for (let i = 0; i < 12; i += 1) {
      const ids = random.sample(
        Array.from({ length: 20 }, (_, id) => id),
        6,
      );
      const rows = ids.map((id) => row(id, random.int(100_000), `${random.int(1_000_000)}`));
      sent.push(...rows);
      answers.push(await merge(service, rows, '&version_column=v'));
    }
  };
  await Promise.all(Array.from({ length: 12 }, client));
  const sum = (name: string) => answers.reduce((total, answer) => total + Number(answer[name]), 0);
  assert.equal(sum('num_inserted_rows'), 20);
  assert.equal(sum('num_inserted_rows') + sum('num_updated_rows') + sum('num_stale_rows'), sent.length);
  assert.ok(sum('num_stale_rows') > 0);
  const greatest = new Map<number, number>();
  for (const { id, v } of sent) greatest.set(id ?? -1, Math.max(greatest.get(id ?? -1) ?? 0, v ?? 0));
  const stored = (await storedRows(service, 't')).map(({ id, v }) => [id, v]);
  assert.deepEqual(new Map(stored as [number, number][]), greatest);
});
