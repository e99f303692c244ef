import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { RawClient } from '#test/http-unit/raw-client.ts';
import { checkErrorBody, startCheckedService, succeeded } from './checked-service.ts';
import { eventually } from './eventually.ts';
import { people } from './rows.ts';

describe('a principal that may not write is refused before a byte of the body is read (P7, P9)', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later, { maxConcurrentWrites: 1, MAX_MERGE_SIZE: '1MiB' });
    succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
  });
  const connect = () => RawClient.connect({ port: Number(new URL(service.url).port) });
  const mergePath = '/v1/table/t/merge_insert';
  const ask = async (client: RawClient, path: string, token: string, ...headers: string[]) => {
    const authorization = token === '' ? [] : [`authorization: Bearer ${token}`];
    await client.head(`POST ${path}`, [...authorization, ...headers], false);
  };
  /** The answer to a client that announces a body and never sends it. */
  const answerTo = async (path: string, token: string, ...headers: string[]) => {
    using client = await connect();
    await ask(client, path, token, ...headers);
    const text = await client.until('}');
    const status = Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]);
    checkErrorBody(status, JSON.parse(text.slice(text.indexOf('{'))), path);
    return { status, text };
  };

  const framings = [['content-length: 1000'], ['transfer-encoding: chunked']];
  for (const framing of framings) {
    for (const expectation of [[], ['expect: 100-continue']]) {
      test(`to a body with ${[...framing, ...expectation].join(' and ')}`, async () => {
        const reader = await service.mint('lancegate:read');
        const writer = await service.mint('lancegate:write');
        const cases: readonly (readonly [number, string, string])[] = [
          [401, `${mergePath}?on=id`, ''],
          [401, '/v1/table/new/create', 'nobody'],
          [403, `${mergePath}?on=id`, reader],
          [403, '/v1/table/new/create', reader],
          [400, mergePath, writer],
          [400, '/v1/table/new/create?mode=maybe', writer],
          [406, '/v1/table/t/refresh', writer],
          [404, '/v1/table/t/nothing', writer],
        ];
        for (const [status, path, token] of cases) {
          const answer = await answerTo(path, token, ...framing, ...expectation);
          assert.equal(answer.status, status, answer.text);
          assert.doesNotMatch(answer.text, /100 Continue/);
          assert.match(answer.text, /^connection: close\r$/im);
        }
      });
    }
  }

  test('a body beyond the limit is 413 by its announced length', async () => {
    const writer = await service.mint('lancegate:write');
    const answer = await answerTo(`${mergePath}?on=id`, writer, 'content-length: 1048577', 'expect: 100-continue');
    assert.equal(answer.status, 413);
    assert.doesNotMatch(answer.text, /100 Continue/);
  });

  test('a principal that may write gets 100 Continue, and its answer when the body is there', async () => {
    const body = people([1], 'y');
    using client = await connect();
    const headers = [`content-length: ${body.length}`, 'expect: 100-continue', 'connection: close'];
    await ask(client, `${mergePath}?on=id`, await service.mint('lancegate:write'), ...headers);
    await client.until('HTTP/1.1 100 Continue');
    await client.write(body);
    assert.match(await client.until('"num_updated_rows":1'), /HTTP\/1\.1 200 OK/);
  });

  test('while as many bodies come as may, the next is 503 with a time to come back, before its body (P7)', async () => {
    const writer = await service.mint('lancegate:write');
    using busy = await connect();
    await ask(busy, `${mergePath}?on=id`, writer, 'content-length: 1000', 'expect: 100-continue');
    await busy.until('HTTP/1.1 100 Continue');
    const answer = await answerTo('/v1/table/new/create', writer, 'content-length: 1000', 'expect: 100-continue');
    assert.equal(answer.status, 503);
    assert.match(answer.text, /^retry-after: \d+\r$/im);
    assert.doesNotMatch(answer.text, /100 Continue/);
    busy.leave();
    await eventually('the slot is free', () => service.log.some((line) => line.includes('"clientLeft":true')));
    succeeded(await service.post('/v1/table/new/create', people([1], 'x')));
  });
});
