import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Int32, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { arrowStream, type TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { storedRows, stream } from './rows.ts';
import { receivedBytes, settled, untilReceived } from './stalled-reads.ts';
import { Upload } from './upload-client.ts';

/** A row without a key is inserted each time it is merged. */
const keyless = (n: number): Buffer => stream({ id: vectorFromArray([null], new Int32()), n: [n] });

describe('requests with one Idempotency-Key at once commit once (P6)', () => {
  const later = afterSuite();
  let service: TestService;
  let authorization: string;
  before(async () => {
    service = await startCheckedService(later);
    authorization = `Bearer ${await service.mint('lancegate:admin', 'tester')}`;
  });

  const create = async (table: string) => succeeded(await service.post(`/v1/table/${table}/create`, keyless(0)));
  const pathOf = (table: string, query = '') => `/v1/table/${table}/merge_insert?on=id${query}`;
  const merge = (table: string, n: number, key: string, query = '') =>
    service.post(pathOf(table, query), keyless(n), { authorization, 'idempotency-key': key });
  const numbers = async (table: string) => (await storedRows(service, table)).map(({ n }) => n);
  const upload = (table: string, key: string) =>
    new Upload(service.url + pathOf(table), { authorization, 'content-type': arrowStream, 'idempotency-key': key });
  /** A request that has its key's turn and half of its body. */
  const begin = async (table: string, key: string) => {
    const received = await receivedBytes(service);
    const first = upload(table, key);
    const body = keyless(1);
    await first.write(body.subarray(0, 100));
    await untilReceived(service, received + 100);
    return { first, rest: body.subarray(100) };
  };

  test('one works, and all get its answer', async () => {
    await create('crowd');
    const answers = await Promise.all(Array.from({ length: 8 }, () => merge('crowd', 1, 'crowd')));
    const ids = new Set(answers.map((answer) => succeeded(answer).transaction_id));
    assert.equal(ids.size, 1);
    assert.equal(answers.filter(({ headers }) => headers.get('idempotency-replayed') === null).length, 1);
    assert.deepEqual(await numbers('crowd'), [0, 1]);
  });

  test('with different keys, many share commits and each has the answer of its own', async () => {
    await create('group');
    const all = Array.from({ length: 24 }, (_, i) => i + 1);
    const send = () => Promise.all(all.map((n) => merge('group', n, `group-${n}`)));
    const firsts = (await send()).map((answer) => succeeded(answer).transaction_id);
    const agains = (await send()).map((answer) => succeeded(answer).transaction_id);
    assert.deepEqual(agains, firsts);
    assert.equal(new Set(firsts).size, all.length);
    assert.deepEqual(
      (await numbers('group')).sort((a, b) => Number(a) - Number(b)),
      [0, ...all],
    );
  });

  test('of creates, one makes the table, and the others hear that they did', async () => {
    const send = () => service.post('/v1/table/made/create', keyless(0), { authorization, 'idempotency-key': 'made' });
    const answers = await Promise.all([send(), send(), send()]);
    assert.equal(new Set(answers.map((answer) => succeeded(answer).transaction_id)).size, 1);
    assert.deepEqual(await numbers('made'), [0]);
  });

  test('the second waits for the first, and not longer than its own time', async () => {
    await create('slow');
    const { first, rest } = await begin('slow', 'slow');
    refused(await merge('slow', 1, 'slow', '&timeout=100ms'), 503, 17, /nothing was written/);
    const second = merge('slow', 1, 'slow');
    await settled(service);
    await first.write(rest);
    const answer = await first.end();
    assert.equal(answer.status, 200);
    assert.equal(succeeded(await second).transaction_id, answer.body.transaction_id);
    assert.deepEqual(await numbers('slow'), [0, 1]);
  });

  test('if the first leaves before its body is there, the second does the work', async () => {
    await create('left');
    const { first } = await begin('left', 'left');
    const second = merge('left', 1, 'left');
    await settled(service);
    await first.breakOff();
    const answer = await second;
    assert.equal(succeeded(answer).num_inserted_rows, 1);
    assert.equal(answer.headers.get('idempotency-replayed'), null);
    assert.deepEqual(await numbers('left'), [0, 1]);
  });

  test('more than a few that wait are answered 503 "Slow down" (P7)', async () => {
    await create('many');
    const { first, rest } = await begin('many', 'many');
    const waiting = Array.from({ length: 20 }, () => merge('many', 1, 'many'));
    const early = await Promise.race(waiting);
    refused(early, 503, 17, /Idempotency-Key wait already/);
    await first.write(rest);
    assert.equal((await first.end()).status, 200);
    const statuses = (await Promise.all(waiting)).map(({ status }) => status);
    assert.deepEqual([statuses.filter((status) => status === 200).length, statuses.length], [15, 20]);
    assert.deepEqual(await numbers('many'), [0, 1]);
  });

  test('a client that leaves at any moment finds its rows there once when it comes back', async () => {
    await create('gone');
    const rounds = 24;
    for (let round = 1; round <= rounds; round++) {
      const received = await receivedBytes(service);
      const body = keyless(round);
      const leaver = upload('gone', `gone-${round}`);
      leaver.answer.catch(() => undefined);
      await leaver.write(body);
      void leaver.end().catch(() => undefined);
      if (round % 2 === 0) await untilReceived(service, received + body.length);
      if (round % 3 === 0) await settled(service);
      await leaver.breakOff();
      const back = succeeded(await merge('gone', round, `gone-${round}`));
      assert.equal(back.num_inserted_rows, 1);
      const { status } = await service.post(`/v1/transaction/${String(back.transaction_id)}/describe`);
      assert.equal(status, 200);
    }
    const expected = Array.from({ length: rounds + 1 }, (_, n) => n);
    assert.deepEqual(
      (await numbers('gone')).sort((a, b) => Number(a) - Number(b)),
      expected,
    );
  });

  test('what was committed when its client left can be asked for', async () => {
    await create('abandoned');
    const leaver = upload('abandoned', 'abandoned');
    leaver.answer.catch(() => undefined);
    await leaver.write(keyless(1));
    void leaver.end().catch(() => undefined);
    await eventually('the rows are there', async () => (await numbers('abandoned')).length === 2);
    await leaver.breakOff();
    const back = await merge('abandoned', 1, 'abandoned');
    assert.equal(back.headers.get('idempotency-replayed'), 'true');
    const described = await service.post(`/v1/transaction/${String(succeeded(back).transaction_id)}/describe`);
    assert.equal((succeeded(described).properties as Record<string, string>).num_inserted_rows, '1');
  });
});
