/** How processes on one data folder follow one another. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectSocket, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { Int32, Table, tableToIPC, vectorFromArray } from 'apache-arrow';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { mintToken, spawnService, startServiceProcess, textOf } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const stream = (ids: readonly number[]): Uint8Array =>
  tableToIPC(new Table({ id: vectorFromArray(ids, new Int32()) }), 'stream');

async function readUntil(socket: Socket, text: string): Promise<string> {
  let received = '';
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    received += String(chunk);
    if (received.includes(text)) return received;
  }
  throw new Error(`the connection ended after: ${received}`);
}

describe('one data folder', () => {
  test('a second process fails at once and names the holder; the first goes on', async (t) => {
    const later = lastFirst((clean) => t.after(clean));
    const data = temporaryFolder(later);
    const token = await mintToken(data);
    const first = await startServiceProcess(data, token);
    later(() => first.kill());
    const second = spawnService(data);
    const [errors, [code]] = await Promise.all([textOf(second.stderr), once(second, 'exit') as Promise<[number]>]);
    assert.equal(code, 1);
    assert.match(errors, /lancegate serve/);
    assert.ok(errors.includes(first.url), errors);
    assert.doesNotMatch(errors, /\n\s+at /, 'no stack');
    assert.equal((await first.post('/v1/table/t/create', stream([1]))).status, 200);
    assert.equal(await first.stop(), 0);
  });

  test('SIGTERM drains: a merge whose body is still coming gets its answer, no new request is admitted, exit code 0', async (t) => {
    const later = lastFirst((clean) => t.after(clean));
    const data = temporaryFolder(later);
    const token = await mintToken(data);
    const first = await startServiceProcess(data, token);
    later(() => first.kill());
    assert.equal((await first.post('/v1/table/t/create', stream([1]))).status, 200);
    const body = stream([1, 2]);
    const socket = connectSocket(Number(new URL(first.url).port), '127.0.0.1');
    t.after(() => socket.destroy());
    const head = ['POST /v1/table/t/merge_insert?on=id HTTP/1.1', 'host: x', `authorization: Bearer ${token}`];
    socket.write([...head, `content-length: ${body.length}`, 'expect: 100-continue', '', ''].join('\r\n'));
    await readUntil(socket, '100 Continue');
    socket.write(body.subarray(0, 100));
    const code = first.stop();
    for (;;) {
      const refused = await first.post('/v1/table/t/exists').then(
        ({ status }) => status === 503,
        () => true,
      );
      if (refused) break;
    }
    socket.write(body.subarray(100));
    const answer = await readUntil(socket, '}}');
    assert.match(answer, /^HTTP\/1\.1 200 OK/m);
    assert.match(answer, /"num_updated_rows":1,"num_inserted_rows":1/);
    assert.match(answer, /^connection: close\r$/im);
    assert.equal(await code, 0);

    const second = await startServiceProcess(data, token);
    later(() => second.kill());
    assert.equal((await second.post('/v1/table/t/count_rows')).body, 2);
    assert.equal(await second.stop(), 0);
  });
});
