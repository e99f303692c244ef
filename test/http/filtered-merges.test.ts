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

const meta = new Struct([new Field('k', new Int32())]);
const nestedPeople = (ids: readonly number[], name: string): Buffer =>
  stream({
    meta: vectorFromArray(
      ids.map((k) => ({ k })),
      meta,
    ),
    name: vectorFromArray(
      ids.map(() => name),
      new Utf8(),
    ),
  });

describe('the filter of a merge has the time of its request (P12)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    // A compaction by itself is a version that no merge made.
    service = await startCheckedService(later, { READERS: '1', AUTO_MAINTENANCE: 'false' });
    succeeded(await service.post('/v1/table/flat/create', people([1, 2, 3], 'old')));
    succeeded(await service.post('/v1/table/nested/create', nestedPeople([1, 2, 3], 'old')));
  });
  const mergePath = (table: string, on: string, filter: string, query = '') =>
    `/v1/table/${table}/merge_insert?on=${on}&when_matched_update_all&when_not_matched_by_source_delete_filt=${encodeURIComponent(filter)}${query}`;
  const count = async (table: string) => (await service.post(`/v1/table/${table}/count_rows`, {})).body;
  const gauge = async (name: string): Promise<number> => {
    const authorization = `Bearer ${await service.mint('lancegate:admin')}`;
    const answer = await fetch(`${service.url}/metrics`, { headers: { authorization } });
    return Number(new RegExp(`^${name} (.+)$`, 'm').exec(await answer.text())?.[1] ?? 0);
  };
  const running = () => gauge('lancegate_reader_queries_running');
  const deadlines = () => gauge('lancegate_reader_ends_total{reason="deadline"}');
  const versionOf = async (table: string) => succeeded(await service.post(`/v1/table/${table}/describe`, {})).version;
  /** The reader that is there does not get on: as with a filter that the engine does not stop for. */
  const holdReader = async () => {
    succeeded(await service.post('/v1/table/flat/count_rows', { predicate: 'id > 0' }));
    for (const pid of readersOf(process.pid)) process.kill(pid, 'SIGSTOP');
  };

  for (const [table, on, body, query, headers] of [
    ['flat', 'id', people([1], 'new'), '&timeout=2s', {}],
    ['nested', 'meta.k', nestedPeople([1], 'new'), '', { 'x-request-timeout-ms': '2000' }],
  ] as const) {
    test(`on ${on}, past its deadline it is 503, its reader is ended, and nothing was written`, async () => {
      const version = await versionOf(table);
      const ended = await deadlines();
      await holdReader();
      const answer = await service.post(mergePath(table, on, 'name IS NULL', query), body, headers);
      refused(answer, 503, 17, /the time allowed for the write ran out; nothing was written/);
      assert.equal(await deadlines(), ended + 1);
      assert.equal(await running(), 0, 'nothing is left of it when it is answered');
      assert.equal(await versionOf(table), version);
      const again = succeeded(await service.post(mergePath(table, on, 'name IS NULL'), body));
      assert.equal(again.num_updated_rows, 1, 'the next one has another reader');
      assert.equal(await count(table), 3);
    });
  }

  test('when its client has left, it ends at its deadline all the same', async () => {
    const leaver = new AbortController();
    const authorization = `Bearer ${await service.mint('lancegate:admin')}`;
    const version = await versionOf('flat');
    const ended = await deadlines();
    await holdReader();
    const sent = fetch(service.url + mergePath('flat', 'id', 'name IS NULL', '&timeout=3s'), {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/vnd.apache.arrow.stream' },
      body: new Uint8Array(people([1], 'newer')),
      signal: leaver.signal,
    });
    await eventually('it runs', async () => (await running()) === 1);
    leaver.abort();
    await assert.rejects(sent);
    await eventually('nothing runs', async () => (await running()) === 0);
    assert.equal(await deadlines(), ended + 1);
    assert.equal(await versionOf('flat'), version);
  });

  const killReader = async (): Promise<void> => {
    await eventually('it runs', async () => (await running()) === 1 && readersOf(process.pid).length === 1);
    const [pid] = readersOf(process.pid);
    process.kill(pid!, 'SIGSEGV');
    await eventually('it ended', async () => !readersOf(process.pid).includes(pid!));
  };

  test('one that ends two readers has written nothing, is not to be sent again, and the writer goes on (P12)', async (t) => {
    succeeded(await service.post('/v1/table/dying/create', people([1, 2, 3], 'old')));
    const reads = stallReads(service, 'dying', (clean) => t.after(clean));
    const sent = service.post(mergePath('dying', 'id', `name = 'old'`), people([1], 'new'));
    await killReader();
    await killReader();
    refused(await sent, 400, 13, /tried twice: the process that ran the write died \(SIGSEGV\); nothing was written/);
    reads.release();
    const again = succeeded(await service.post(mergePath('dying', 'id', 'id = 3'), people([1], 'new')));
    assert.equal(again.num_deleted_rows, 1);
    assert.deepEqual(await storedRows(service, 'dying'), [
      { id: 1, name: 'new' },
      { id: 2, name: 'old' },
    ]);
  });

  test('one whose reader another query ended is made by the next', async (t) => {
    succeeded(await service.post('/v1/table/ended/create', people([1, 2, 3], 'old')));
    const reads = stallReads(service, 'ended', (clean) => t.after(clean));
    const sent = service.post(mergePath('ended', 'id', 'id = 3'), people([1], 'new'));
    await killReader();
    reads.release();
    assert.equal(succeeded(await sent).num_deleted_rows, 1);
  });

  test('what is wrong with it is said as ever', async () => {
    refused(await service.post(mergePath('flat', 'id', 'nope = 1'), people([1], 'new')), 400, 12, /nope/);
  });

  test('a count of all rows reads no row, so it needs no reader (P12)', async (t) => {
    succeeded(await service.post('/v1/table/manifest/create', people([1, 2, 3], 'old')));
    stallReads(service, 'manifest', (clean) => t.after(clean));
    assert.equal(await count('manifest'), 3);
  });
});
