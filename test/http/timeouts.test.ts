import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { arrowStream, type TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people, storedRows } from './rows.ts';
import { holdTurn, receivedBytes, untilReceived } from './stalled-reads.ts';

describe('a request has a time, and what it did not do by then it never does (P6)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { DEFAULT_TIMEOUT: '1m', MAX_TIMEOUT: '1m' });
  });
  const create = async (table: string) =>
    succeeded(await service.post(`/v1/table/${table}/create`, people([1], 'old')));
  const mergePath = (table: string, query = '') => `/v1/table/${table}/merge_insert?on=id${query}`;
  const merge = (table: string, name: string, query = '', headers = {}) =>
    service.post(mergePath(table, query), people([1, 2], name), headers);
  const untouched = [{ id: 1, name: 'old' }];

  const hold = (table: string, after: (clean: () => void) => void, query = '') =>
    holdTurn(service, table, after, () => merge(table, 'holder', query));

  for (const form of ['30s', '5m', '1.5m', '1h30m', '59000ms', '30', '2h']) {
    test(`timeout=${form} is a time that suffices`, async () => {
      const table = `form_${form.replace('.', '_')}`;
      await create(table);
      assert.equal(succeeded(await merge(table, 'new', `&timeout=${form}`)).num_inserted_rows, 1);
    });
  }

  for (const form of ['', '-1s', 'soon', '5 s', '5d', '1s1h', '1e3', 'Infinity']) {
    test(`timeout=${form || '(empty)'} is 400 and names the parameter`, async () => {
      const query = `&timeout=${encodeURIComponent(form)}`;
      refused(await merge('none', 'new', query), 400, 13, /^timeout: /);
      refused(await service.post(`/v1/table/none/create?${query}`, people([1], 'x')), 400, 13, /^timeout: /);
    });
  }

  test('the header of the LanceDB SDKs is a whole number of milliseconds, or 400', async () => {
    await create('by_header');
    succeeded(await merge('by_header', 'new', '', { 'x-request-timeout-ms': '30000' }));
    for (const wrong of ['-5', '1.5', 'soon', '5s']) {
      refused(
        await merge('by_header', 'new', '', { 'x-request-timeout-ms': wrong }),
        400,
        13,
        /^x-request-timeout-ms: /,
      );
    }
  });

  const tinyTimes: readonly (readonly [string, string, Record<string, string>])[] = [
    ['the parameter', '&timeout=200ms', {}],
    ['the header', '', { 'x-request-timeout-ms': '200' }],
    ['the header, the smaller of the two', '&timeout=30s', { 'x-request-timeout-ms': '200' }],
    ['the parameter, the smaller of the two', '&timeout=0.2s', { 'x-request-timeout-ms': '30000' }],
  ];
  for (const [title, query, headers] of tinyTimes) {
    test(`waiting for a turn counts: time by ${title} passes in the queue, 503 and nothing is written`, async (t) => {
      const table = `queued_${tinyTimes.findIndex(([other]) => other === title)}`;
      await create(table);
      const { release, holder } = await hold(table, (clean) => t.after(clean), '&when_matched_update_all_filt=false');
      const answer = await merge(table, 'late', query, headers);
      refused(answer, 503, 17, /200 ms; nothing was written/);
      assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
      release();
      await holder;
      assert.equal(succeeded(await merge(table, 'next')).num_inserted_rows, 1, 'nothing came in between');
    });
  }

  test('time that passes while the engine works: 503, the table is free again, and nothing is written later', async (t) => {
    await create('stuck');
    const { release, holder } = await hold('stuck', (clean) => t.after(clean), '&timeout=300ms');
    refused(await holder, 503, 17, /nothing was written/);
    release();
    assert.deepEqual(await storedRows(service, 'stuck'), untouched);
    assert.equal(succeeded(await merge('stuck', 'next')).version, 2, 'no version was made in between');
  });

  test('no time at all: 503 to everything, and nothing is written', async () => {
    await create('none');
    for (const query of ['&timeout=0', '&timeout=0s', '&timeout=0ms']) {
      refused(await service.post(mergePath('none', query), people([1], 'x')), 503, 17, /0 ms; nothing was written/);
    }
    refused(await merge('none', 'new', '', { 'x-request-timeout-ms': '0' }), 503, 17, /nothing was written/);
    refused(await service.post('/v1/table/none/count_rows?timeout=0'), 503, 17);
    refused(await service.post('/v1/table/none/drop?timeout=0'), 503, 17);
    refused(await service.post(mergePath('none', '&timeout=-1'), people([1], 'x')), 400, 13);
    assert.deepEqual(await storedRows(service, 'none'), untouched);
  });

  test('a time too short for anything: 503, and nothing is written', async () => {
    await create('tiny');
    const body = people(
      Array.from({ length: 200_000 }, (_, i) => i),
      'some rows, so that reading them takes its time',
    );
    refused(await service.post(mergePath('tiny', '&timeout=1ms'), body), 503, 17, /nothing was written/);
    refused(await service.post('/v1/table/tiny_new/create?timeout=1ms', body), 503, 17, /nothing was written/);
    assert.deepEqual(await storedRows(service, 'tiny'), untouched);
    refused(await service.post('/v1/table/tiny_new/exists'), 404, 4);
    succeeded(await service.post('/v1/table/tiny_new/create', people([1], 'x')));
  });

  test('a client that leaves while its merge waits for the lock has written nothing (P6)', async (t) => {
    await create('left');
    const { release, holder } = await hold('left', (clean) => t.after(clean), '&when_matched_update_all_filt=false');
    const received = await receivedBytes(service);
    const leaving = new AbortController();
    const body = people([1, 2, 3], 'gone');
    const headers = {
      authorization: `Bearer ${await service.mint('lancegate:write', 'leaver')}`,
      'content-type': arrowStream,
    };
    const url = service.url + mergePath('left');
    const left = fetch(url, { method: 'POST', headers, body: new Uint8Array(body), signal: leaving.signal });
    await untilReceived(service, received + body.length);
    leaving.abort();
    await assert.rejects(left, { name: 'AbortError' });
    await eventually('the service saw it leave', () =>
      service.log.some((line) => line.includes('"leaver"') && line.includes('"clientLeft":true')),
    );
    release();
    await holder;
    assert.equal(succeeded(await merge('left', 'next')).num_inserted_rows, 1);
    assert.deepEqual(
      (await storedRows(service, 'left')).map(({ name }) => name),
      ['next', 'next'],
    );
  });
});
