/** Merges whose filters take longer than they have, or die. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Field, Int32, Struct, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { readersOf } from '#test/fixtures/reader-processes.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people, storedRows, stream } from './rows.ts';
import { stallReads } from './stalled-reads.ts';

const manyRows = 200_000;
/** On so many rows it takes seconds; the engine's own timeout does not end it. */
const slowFilter = Array.from({ length: 60 }, (_, i) => `name LIKE '%a%b%c%d${i}%'`).join(' OR ');
const text = (id: number) => `aaaaaaaabbbbbbbbccccccccaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbb${id}`;
const ids = Array.from({ length: manyRows }, (_, id) => id);

describe('the filter of a merge has the time of its request (P12)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
    const names = vectorFromArray(ids.map(text), new Utf8());
    succeeded(await service.post('/v1/table/flat/create', stream({ id: ids, name: names })));
    const nested = new Struct([new Field('k', new Int32())]);
    const keys = vectorFromArray(
      ids.map((k) => ({ k })),
      nested,
    );
    succeeded(await service.post('/v1/table/nested/create', stream({ meta: keys, name: names })));
  });
  const filtered = (table: string, on: string, filter: string, body: Uint8Array, query = '', headers = {}) => {
    const flags = `&when_matched_update_all&when_not_matched_by_source_delete_filt=${encodeURIComponent(filter)}`;
    return service.post(`/v1/table/${table}/merge_insert?on=${on}${flags}${query}`, body, headers);
  };
  const one = stream({ id: [1], name: vectorFromArray(['new'], new Utf8()) });
  const oneNested = () =>
    stream({
      meta: vectorFromArray([{ k: 1 }], new Struct([new Field('k', new Int32())])),
      name: vectorFromArray(['new'], new Utf8()),
    });
  const count = async (table: string) => (await service.post(`/v1/table/${table}/count_rows`, {})).body;
  const gauge = async (name: string): Promise<number> => {
    const authorization = `Bearer ${await service.mint('lancegate:admin')}`;
    const answer = await fetch(`${service.url}/metrics`, { headers: { authorization } });
    return Number(new RegExp(`^${name} (.+)$`, 'm').exec(await answer.text())?.[1] ?? 0);
  };
  const running = () => gauge('lancegate_reader_queries_running');
  const deadlines = () => gauge('lancegate_reader_ends_total{reason="deadline"}');

  for (const [table, on, body, what, query, headers] of [
    ['flat', 'id', () => one, 'timeout', '&timeout=400ms', {}],
    ['nested', 'meta.k', oneNested, 'x-request-timeout-ms', '', { 'x-request-timeout-ms': '400' }],
  ] as const) {
    test(`on ${on}, past its ${what} its reader is ended, and nothing was written`, async () => {
      succeeded(await filtered(table, on, 'name IS NULL', body())); // a reader is there
      const version = await versionOf(service, table);
      const ended = await deadlines();
      const answer = await filtered(table, on, slowFilter, body(), query, headers);
      refused(answer, 503, 17, /the time allowed for the merge ran out; nothing was written/);
      assert.equal(await deadlines(), ended + 1);
      assert.equal(await running(), 0, 'nothing is left of it when it is answered');
      assert.equal(await versionOf(service, table), version);
      assert.equal(await count(table), manyRows);
    });
  }

  test('when its client has left, it ends at its deadline all the same', async () => {
    const leaver = new AbortController();
    const authorization = `Bearer ${await service.mint('lancegate:admin')}`;
    const filter = encodeURIComponent(slowFilter);
    const version = await versionOf(service, 'flat');
    const ended = await deadlines();
    const path = `/v1/table/flat/merge_insert?on=id&timeout=1s&when_not_matched_by_source_delete_filt=${filter}`;
    const sent = fetch(service.url + path, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/vnd.apache.arrow.stream' },
      body: new Uint8Array(one),
      signal: leaver.signal,
    });
    await eventually('it runs', async () => (await running()) === 1);
    leaver.abort();
    await assert.rejects(sent);
    await eventually('nothing runs', async () => (await running()) === 0);
    assert.equal(await deadlines(), ended + 1);
    assert.equal(await versionOf(service, 'flat'), version);
  });

  test('one whose reader dies has written nothing, says so, and the writer goes on', async (t) => {
    succeeded(await service.post('/v1/table/dying/create', people([1, 2, 3], 'old')));
    const reads = stallReads(service, 'dying', (clean) => t.after(clean));
    const sent = filtered('dying', 'id', `name = 'old'`, people([1], 'new'));
    await eventually('it runs', async () => (await running()) === 1);
    for (const pid of readersOf(process.pid)) process.kill(pid, 'SIGSEGV');
    refused(await sent, 503, 17, /^the process that ran the query died \(SIGSEGV\); nothing was written$/);
    reads.release();
    assert.equal(succeeded(await filtered('dying', 'id', 'id = 3', people([1], 'new'))).num_deleted_rows, 1);
    assert.deepEqual(await storedRows(service, 'dying'), [
      { id: 1, name: 'new' },
      { id: 2, name: 'old' },
    ]);
  });

  test('what is refused for its rows or its filter is refused as ever', async () => {
    succeeded(await service.post('/v1/table/refused/create', people([1, 2], 'old')));
    refused(await filtered('refused', 'id', 'nope = 1', people([1], 'new')), 400, 12, /nope/);
  });

  test('a count of all rows reads no row, so it needs no reader (P12)', async (t) => {
    succeeded(await service.post('/v1/table/manifest/create', people([1, 2, 3], 'old')));
    stallReads(service, 'manifest', (clean) => t.after(clean));
    assert.equal(await count('manifest'), 3);
  });
});

async function versionOf(service: TestService, table: string): Promise<unknown> {
  return succeeded(await service.post(`/v1/table/${table}/describe`, {})).version;
}
