/** What clients ask in SQL, and what becomes of it when its reader is slow, killed or left alone. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { readersOf } from '#test/fixtures/reader-processes.ts';
import type { Answer, TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people, storedRows } from './rows.ts';
import { stallReads } from './stalled-reads.ts';

const clients = 64;
const rounds = 4;

describe('queries run in readers', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { READERS: '3' });
  });
  const create = async (table: string, ids: readonly number[] = [1, 2, 3]) =>
    succeeded(await service.post(`/v1/table/${table}/create`, people(ids, 'old')));
  const count = (table: string, predicate = 'id > 1', query = '', headers = {}) =>
    service.post<number & Record<string, unknown>>(`/v1/table/${table}/count_rows${query}`, { predicate }, headers);
  const gauge = async (name: string): Promise<number> => {
    const token = await service.mint('lancegate:admin');
    const answer = await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${token}` } });
    return Number(new RegExp(`^${name} (.+)$`, 'm').exec(await answer.text())?.[1] ?? 0);
  };
  const running = () => gauge('lancegate_reader_queries_running');
  const deadlines = () => gauge('lancegate_reader_ends_total{reason="deadline"}');
  const cancelled = () => gauge('lancegate_reader_ends_total{reason="cancelled"}');
  /** A query of its rows waits: for the engine, which waits for a file that nothing writes to. A reader is there. */
  const stalled = async (t: { after: (clean: () => void) => void }, table: string) => {
    await create(table);
    await create(`${table}_warm`);
    succeeded(await count(`${table}_warm`));
    return stallReads(service, table, (clean) => t.after(clean));
  };

  test('a reader killed by SIGSEGV during the upserts of 64 clients costs no writer a request (P12)', async (t) => {
    await create('busy', [0]);
    const reads = await stalled(t, 'query');
    const asked = count('query', `name = 'old'`);
    await eventually('the query runs', async () => (await running()) === 1);
    const upsert = async (client: number): Promise<readonly Answer[]> => {
      const answers: Answer[] = [];
      for (let round = 0; round < rounds; round++) {
        answers.push(
          await service.post('/v1/table/busy/merge_insert?on=id', people([client, 1_000 + client], `r${round}`)),
        );
        if (client === 7 && round === 1) for (const pid of readersOf(process.pid)) process.kill(pid, 'SIGSEGV');
      }
      return answers;
    };
    const answers = (await Promise.all(Array.from({ length: clients }, (_, client) => upsert(client)))).flat();
    assert.deepEqual(
      answers.filter(({ status }) => status !== 200),
      [],
    );
    const killed = await asked;
    refused(killed, 503, 17, /^the process that ran the query died \(SIGSEGV\); nothing was written$/);
    assert.equal(killed.headers.get('retry-after'), '1');
    reads.release();
    assert.equal((await count('busy', `name = 'r${rounds - 1}'`)).body, 2 * clients, 'the next query is answered');
    assert.equal((await storedRows(service, 'busy')).length, 2 * clients);
    const deaths = service.log.filter((line) => line.includes('a reader died'));
    assert.ok(deaths.length >= 1 && deaths.every((line) => line.includes('SIGSEGV')));
  });

  for (const [what, query, headers] of [
    ['timeout', '?timeout=2s', {}],
    ['x-request-timeout-ms', '', { 'x-request-timeout-ms': '2000' }],
  ] as const) {
    test(`a count past its ${what} is answered 503, and its reader is ended (P12)`, async (t) => {
      await stalled(t, `late_${what}`);
      const ended = await deadlines();
      refused(await count(`late_${what}`, `name = 'old'`, query, headers), 503, 17, /not done within its 2000 ms/);
      await eventually('nothing runs', async () => (await running()) === 0);
      assert.equal(await deadlines(), ended + 1);
    });
  }

  test('the query of a client that left is ended, and not logged as one beyond its time or memory (P12)', async (t) => {
    await stalled(t, 'left');
    const leaver = new AbortController();
    const token = await service.mint('lancegate:admin');
    const asked = fetch(`${service.url}/v1/table/left/count_rows`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ predicate: `name = 'old'` }),
      signal: leaver.signal,
    });
    await eventually('the query runs', async () => (await running()) === 1);
    const ended = await cancelled();
    const seen = service.log.length;
    leaver.abort();
    await assert.rejects(asked);
    await eventually('nothing runs', async () => (await running()) === 0);
    assert.equal(await cancelled(), ended + 1);
    assert.deepEqual(
      service.log.slice(seen).filter((line) => line.includes('was killed')),
      [],
    );
  });

  test('a principal whose queries take long keeps no other from asking (P10)', async (t) => {
    const reads = await stalled(t, 'slow');
    const hog = { authorization: `Bearer ${await service.mint('lancegate:read', 'hog')}` };
    const slow = [1, 2, 3, 4].map(() => count('slow', `name = 'old'`, '?timeout=20s', hog));
    await eventually('all of them came', async () => (await gauge('lancegate_reader_queries_waiting')) === 3);
    await create('quick');
    assert.equal((await count('quick')).body, 2);
    reads.release();
    const answers = await Promise.all(slow);
    assert.ok(answers.every(({ status }) => status === 200 || status === 500));
  });

  test('a count sees every commit acknowledged before it, also of a table made again (P11)', async () => {
    await create('fresh', []);
    for (let id = 1; id <= 20; id++) {
      succeeded(await service.post('/v1/table/fresh/merge_insert?on=id', people([id], 'new')));
      assert.equal((await count('fresh', `name = 'new'`)).body, id);
    }
    succeeded(await service.post('/v1/table/fresh/create?mode=overwrite', people([1, 2], 'new')));
    assert.equal((await count('fresh', `name = 'new'`)).body, 2);
    succeeded(await service.post('/v1/table/fresh/drop'));
    refused(await count('fresh', `name = 'new'`), 404, 4);
    await create('fresh', [1, 2, 3, 4]);
    assert.equal((await count('fresh', `name = 'old'`)).body, 4);
  });

  test('each reader sees every commit acknowledged before the read, also one that another reader has seen first (P11)', async (t) => {
    const reads = await stalled(t, 'held');
    await create('shared', [1]);
    const all = async () => (await count('shared', 'id > 0')).body;
    assert.equal(await all(), 1);
    // The reader that was free last is taken first, so the one that has read the table is busy now.
    const hog = { authorization: `Bearer ${await service.mint('lancegate:read', 'hog')}` };
    const held = count('held', `name = 'old'`, '', hog);
    await eventually('a reader is busy', async () => (await running()) === 1);
    assert.equal(await all(), 1);
    succeeded(await service.post('/v1/table/shared/merge_insert?on=id', people([2], 'new')));
    assert.equal(await all(), 2);
    reads.release();
    await held;
    assert.equal(await all(), 2);
    assert.ok((await gauge('lancegate_readers')) >= 2);
  });

  test('a count reads the branch and the version it names, also of a branch made again (P11)', async () => {
    await create('branched', [1]);
    const branch = { name: 'b' };
    const merge = async (ids: readonly number[], query = '') =>
      succeeded(await service.post(`/v1/table/branched/merge_insert?on=id${query}`, people(ids, 'new')));
    succeeded(await service.post('/v1/table/branched/branches/create', branch));
    await merge([2, 3], '&branch=b');
    assert.equal((await count('branched', 'id > 0', '?branch=b')).body, 3);
    succeeded(await service.post('/v1/table/branched/branches/delete', branch));
    refused(await count('branched', 'id > 0', '?branch=b'), 404, 22);
    await merge([4]);
    succeeded(await service.post('/v1/table/branched/branches/create', branch));
    await merge([5], '&branch=b');
    assert.equal((await count('branched', 'id > 0', '?branch=b')).body, 3);
    const past = await service.post('/v1/table/branched/count_rows', { predicate: 'id > 0', version: 1 });
    assert.equal(past.body, 1);
    refused(await service.post('/v1/table/branched/count_rows', { predicate: 'id > 0', version: 99 }), 404, 11);
  });

  test('what is wrong with a predicate is said as ever', async () => {
    await create('wrong');
    refused(await count('wrong', 'nope = 1'), 400, 12, /nope/);
  });
});
