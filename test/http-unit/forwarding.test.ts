import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { Forwarding } from '#src/http/forwarding/forwarding.ts';
import { ReplicaHop } from '#src/http/forwarding/replica-hop.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { arrowType, ask, upload, usersStream } from './client.ts';
import { ManualClock } from './manual-clock.ts';
import { RawClient } from './raw-client.ts';
import { Replicas, recordOf, twoReplicas } from './replicas.ts';
import { scriptedOperations } from './scripted-operations.ts';
import type { TestOptions } from './service.ts';
import { silentLogger } from './silent-logger.ts';
import { until } from './until.ts';

const self = { kind: 'self' } as const;
const mergePath = '/v1/table/users/merge_insert?on=id';

test('the owner of a table answers a merge that another replica got, as if it had got it itself', async () => {
  const { replicas, first, second } = await twoReplicas();
  await using _ = replicas;
  const direct = await upload(second, mergePath, { headers: { 'x-request-id': 'same' } });
  const forwarded = await upload(first, mergePath, { headers: { 'x-request-id': 'same' } });
  assert.equal(forwarded.status, 200);
  assert.deepEqual(forwarded.json, direct.json);
  assert.deepEqual(first.asked, []);
  assert.equal(second.asked.length, 2);
});

test('a forwarded request counts as the principal that the first replica authenticated (P9)', async () => {
  const { replicas, first, second } = await twoReplicas();
  await using _ = replicas;
  await upload(first, mergePath);
  const record = await recordOf(second);
  assert.equal(record.subject, 'ann');
  assert.equal(record.vouchedBy, 'first');
  assert.equal((await recordOf(first)).forwardedTo, 'second');
});

test('a forwarded refusal keeps its status, its body and Retry-After', async () => {
  const { replicas, first } = await twoReplicas({
    script: {
      mergeRows: async () => {
        throw new LancegateError('SlowDown', 'too many', { retryAfterSeconds: 7 });
      },
    },
  });
  await using _ = replicas;
  const { status, headers, json } = await upload(first, mergePath);
  assert.equal(status, 503);
  assert.equal(headers.get('retry-after'), '7');
  assert.equal((json as { error: string }).error, 'too many');
});

test('what the policy refuses is neither claimed nor forwarded, whatever names its branch (P9)', async () => {
  await using replicas = new Replicas();
  const first = await replicas.start('first', { allows: () => false });
  const second = await replicas.start('second');
  replicas.owns('second', second, 'first');
  const bodies = {
    '/v1/table/users/update': { updates: [['a', '1']] },
    '/v1/table/users/delete': { predicate: 'a = 1' },
    '/v1/table/users/drop_columns': { columns: ['a'], branch: 'b' },
    '/v1/table/users/restore': { version: 1 },
    '/v1/table/users/branches/create': { name: 'b' },
    '/v1/table/users/tags/create': { tag: 't', version: 1 },
    '/v1/table/users/create_index': { column: 'a', index_type: 'BTREE' },
    '/v1/table/users/drop': {},
  };
  for (const [path, body] of Object.entries(bodies)) {
    assert.equal((await ask(first, path, { body })).status, 403, path);
  }
  assert.equal((await upload(first, mergePath)).status, 403);
  assert.deepEqual(replicas.askedForOwner, []);
});

test('a change whose body names the branch reaches the owner as it was sent', async () => {
  const { replicas, first, second } = await twoReplicas();
  await using _ = replicas;
  const body = gzipSync(JSON.stringify({ predicate: "a = 'é'", branch: 'b' }));
  const { status } = await ask(first, '/v1/table/users/delete', { body, headers: { 'content-encoding': 'gzip' } });
  assert.equal(status, 200);
  assert.deepEqual(first.asked, []);
  assert.equal(second.asked.length, 1);
  const [{ command }] = second.asked as unknown as [{ command: { branch: string } }];
  assert.equal(command.branch, 'b');
  assert.deepEqual(replicas.askedForOwner, ['first', 'second']);
});

test('reads are answered where they arrive (P11)', async () => {
  const { replicas, first, second } = await twoReplicas();
  await using _ = replicas;
  assert.equal((await ask(first, '/v1/table/users/describe')).status, 200);
  assert.equal(first.asked.length, 1);
  assert.deepEqual(second.asked, []);
});

test('a replica that does not own the table refuses a forwarded request, and there is no second hop', async () => {
  const { replicas, first, second } = await twoReplicas();
  await using _ = replicas;
  replicas.owns('first', first, 'second');
  const answering = upload(first, mergePath, { headers: { 'x-request-timeout-ms': '400' } });
  assert.equal((await answering).status, 503);
  assert.deepEqual([...first.asked, ...second.asked], []);
  assert.ok(second.log.every(({ status }) => status === undefined || status === 421));
});

test('a request waits while its table changes hands, and the new owner answers', async () => {
  const { replicas, first, second } = await twoReplicas();
  await using _ = replicas;
  replicas.owner.second = { kind: 'replica', id: 'first', address: first.url };
  const answering = upload(first, mergePath);
  await until(() => second.log.some(({ status }) => status === 421));
  replicas.owner = {};
  assert.equal((await answering).status, 200);
  assert.equal(first.asked.length, 1);
});

test('an owner that cannot be reached costs a wait, and nothing was written (P6)', async () => {
  await using replicas = new Replicas();
  const first = await replicas.start('first');
  const gone = await replicas.start('gone');
  await gone.close(0);
  replicas.owns('gone', gone, 'first');
  const { status, json } = await upload(first, mergePath, { headers: { 'x-request-timeout-ms': '300' } });
  assert.equal(status, 503);
  assert.match((json as { error: string }).error, /nothing was written/);
});

/** Reads a request, and breaks the connection. */
async function brokenOwner(breaksAfter: (socket: Socket, received: string) => void) {
  const server = createTcpServer((socket) => {
    let received = '';
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      received += bytes.toString('latin1');
      breaksAfter(socket, received);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.dispose]: () => void server.close(),
  };
}

test('where the owner ends after it had the whole body, the answer says that the outcome is not known (P6)', async () => {
  await using replicas = new Replicas();
  const first = await replicas.start('first');
  using owner = await brokenOwner((socket, received) => {
    if (received.endsWith('\r\n\r\n')) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    else if (received.length > usersStream.length) socket.destroy();
  });
  replicas.owns('second', owner, 'first');
  const { status, json } = await upload(first, mergePath);
  assert.equal(status, 500);
  assert.match((json as { error: string }).error, /whether the request was carried out is not known/);
});

test('an owner that stands still is waited for until its lease is over, and then another one answers (P6)', async () => {
  await using replicas = new Replicas();
  const first = await replicas.start('first');
  using frozen = await brokenOwner(() => {
    replicas.owner = {}; // the first one claims the table
  });
  replicas.owns('second', frozen, 'first');
  const { status } = await upload(first, mergePath);
  assert.equal(status, 200);
  assert.equal(first.asked.length, 1);
});

test('an owner that stands still with the whole body leaves the outcome unknown once its lease is over (P6)', async () => {
  await using replicas = new Replicas();
  const first = await replicas.start('first');
  using frozen = await brokenOwner((socket, received) => {
    if (received.endsWith('\r\n\r\n')) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
  });
  replicas.owns('second', frozen, 'first');
  const { status, json } = await upload(first, mergePath);
  assert.equal(status, 500);
  assert.match((json as { error: string }).error, /whether the request was carried out is not known/);
});

test('where the owner ends in the middle of a body, nothing was written (P6)', async () => {
  await using replicas = new Replicas();
  const first = await replicas.start('first');
  using owner = await brokenOwner((socket, received) => {
    if (received.endsWith('\r\n\r\n')) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    else socket.destroy();
  });
  replicas.owns('second', owner, 'first');
  using client = await RawClient.connect(first);
  await client.head(`POST ${mergePath}`, [`content-type: ${arrowType}`, 'transfer-encoding: chunked']);
  await client.chunk(Buffer.alloc(64));
  assert.match(await client.until('"code":17}'), /^HTTP\/1.1 503 .*nothing was written/s);
});

test('a body of a known length is whole with its last byte, although its end is not read yet (P6)', async () => {
  const hop = new ReplicaHop({ sign: async () => 'token', clock: systemClock, logger: silentLogger });
  using owner = await brokenOwner((socket, received) => {
    if (received.endsWith('\r\n\r\n')) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    else if (received.endsWith('whole')) socket.destroy();
  });
  const body = async function* () {
    yield Buffer.from('whole');
    await new Promise(() => {}); // its end is still to come
  };
  const request = {
    method: 'POST',
    target: mergePath,
    rawHeaders: ['content-length', '5'],
    peer: '127.0.0.1',
    body: body(),
    principal: { subject: 'ann', scopes: [], groups: [], issuer: 'test' },
    signal: new AbortController().signal,
  };
  await assert.rejects(hop.forward(request, { id: 'second', address: owner.url }), { kind: 'OwnerLost' });
  hop.close();
});

test('headers with the names of what every object has go on to the owner', async () => {
  const { replicas, first } = await twoReplicas();
  await using _ = replicas;
  using client = await RawClient.connect(first);
  await client.head('POST /v1/table/users/drop', [
    'content-length: 0',
    'constructor: a',
    '__proto__: b',
    '__proto__: c',
  ]);
  assert.match(await client.until('}'), /^HTTP\/1.1 200 /);
});

test('a client cannot vouch for itself: with a key of its own it is 401 (P9)', async () => {
  const { replicas, second } = await twoReplicas();
  await using _ = replicas;
  const forger = new Replicas().tokens('first');
  const forged = await forger.sign({ subject: 'root', scopes: ['lancegate:admin'], groups: [], issuer: 'x' }, 'second');
  const { status } = await upload(second, mergePath, { headers: { authorization: `Bearer ${forged}` } });
  assert.equal(status, 401);
  assert.deepEqual(second.asked, []);
});

test('a token for one replica is none for another (P9)', async () => {
  const { replicas, second } = await twoReplicas();
  await using _ = replicas;
  const principal = { subject: 'ann', scopes: [], groups: [], issuer: 'test' };
  const other = await replicas.tokens('first').sign(principal, 'third');
  const { status } = await upload(second, mergePath, { headers: { authorization: `Bearer ${other}` } });
  assert.equal(status, 401);
});

test('a token of a replica that names no principal, or not all of one, is 401 (P9)', async () => {
  const { replicas, second } = await twoReplicas();
  await using _ = replicas;
  const tokens = replicas.tokens('first');
  const whole = { subject: 'ann', scopes: [], groups: [], issuer: 'test' };
  const headersOf = async (principal: unknown) => ({
    authorization: `Bearer ${await tokens.sign(principal as never, 'second')}`,
  });
  assert.equal((await upload(second, mergePath, { headers: await headersOf(whole) })).status, 200);
  const { subject: _subject, ...nobody } = whole;
  for (const principal of [
    undefined,
    null,
    'ann',
    {},
    nobody,
    { ...whole, scopes: 'all' },
    { ...whole, groups: [1] },
  ]) {
    assert.equal((await upload(second, mergePath, { headers: await headersOf(principal) })).status, 401);
  }
});

test('no credential of a client goes on to the owner (P9)', async () => {
  await using replicas = new Replicas();
  const first = await replicas.start('first');
  let headers: Record<string, unknown> = {};
  const owner = createServer((request, response) => {
    headers = request.headers;
    response.end('{}');
  });
  await new Promise<void>((resolve) => owner.listen(0, '127.0.0.1', resolve));
  replicas.owns('second', { url: `http://127.0.0.1:${(owner.address() as AddressInfo).port}` }, 'first');
  await ask(first, '/v1/table/users/drop', { headers: { 'x-api-key': 'good-token', 'x-forwarded-for': '192.0.2.1' } });
  owner.close();
  assert.equal(headers['x-api-key'], undefined);
  assert.doesNotMatch(String(headers.authorization), /good-token/);
  assert.match(String(headers['x-forwarded-for']), /^192\.0\.2\.1, 127\.0\.0\.1$/);
});

/** A replica whose jobs have these ids. */
const withJobs = (...ids: readonly string[]): TestOptions => {
  const { operations } = scriptedOperations();
  const jobs = async () => {
    const [job] = await operations.listJobs({ visible: () => true });
    return ids.map((id, index) => ({ ...job!, id, createdAtMs: 1_700_000_000_000 + index }));
  };
  const find = async ({ id }: { readonly id: string }) => {
    const found = (await jobs()).find((job) => job.id === id);
    if (found === undefined) throw new LancegateError('JobNotFound', 'the job is not known');
    return found;
  };
  return { script: { listJobs: jobs, describeJob: find, cancelJob: find } };
};

test('jobs are found from any replica, and a listing has those of all, the newest first', async () => {
  await using replicas = new Replicas();
  const first = await replicas.start('first', withJobs('job-1', 'job-2'));
  await replicas.start('second', withJobs('job-3'));
  const { json } = await ask(first, '/v1/jobs/list', { body: {} });
  const ids = (json as { jobs: { job_id: string }[] }).jobs.map(({ job_id }) => job_id);
  assert.deepEqual(ids.toSorted(), ['job-1', 'job-2', 'job-3']);
  assert.equal(ids[0], 'job-2');
  for (const path of ['/v1/jobs/describe', '/v1/jobs/cancel']) {
    const found = await ask(first, path, { body: { job_id: 'job-3' } });
    assert.deepEqual([found.status, (found.json as { job_id: string }).job_id], [200, 'job-3']);
    assert.equal((await ask(first, path, { body: { job_id: 'job-4' } })).status, 404);
  }
  const coded = { headers: { 'content-encoding': 'gzip' }, body: gzipSync(JSON.stringify({ job_id: 'job-3' })) };
  assert.equal((await ask(first, '/v1/jobs/describe', coded)).status, 200);
});

test('a replica that cannot be reached has no part in the answers of the others', async () => {
  await using replicas = new Replicas();
  const first = await replicas.start('first', withJobs('job-1'));
  const gone = await replicas.start('gone', withJobs('job-2'));
  await gone.close(0);
  const { status, json } = await ask(first, '/v1/jobs/list', { body: {} });
  assert.deepEqual([status, (json as { jobs: unknown[] }).jobs.length], [200, 1]);
  assert.equal((await ask(first, '/v1/jobs/describe', { body: { job_id: 'job-2' } })).status, 404);
});

test('a replica that leaves answers once more on each connection, until it takes no new one', async () => {
  const { replicas, first } = await twoReplicas();
  await using _ = replicas;
  using kept = await RawClient.connect(first);
  await kept.head('POST /v1/table/users/describe', ['content-length: 0']);
  assert.match(await kept.until('}'), /^HTTP\/1.1 200 /);
  first.leave();
  await kept.head('POST /v1/table/users/drop', ['content-length: 0']);
  assert.match(await kept.until('connection: close'), /HTTP\/1.1 200 .*connection: close/is);
  assert.equal(await kept.closed, 'end');
  using late = await RawClient.connect(first);
  await late.head('GET /readyz', []);
  assert.match(await late.until('connection: close'), /HTTP\/1.1 503 .*connection: close/is);
  first.stopListening();
  await assert.rejects(RawClient.connect(first), { code: 'ECONNREFUSED' });
});

test('a look-up in all replicas does not wait for one that stands still, and has what the others say', {
  timeout: 20_000,
}, async () => {
  await using replicas = new Replicas();
  const answering = await replicas.start('answering');
  const silent = createTcpServer(() => undefined).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const clock = new ManualClock();
  const tokens = replicas.tokens('asking');
  const hop = new ReplicaHop({
    sign: (principal, audience) => tokens.sign(principal, audience),
    clock,
    logger: silentLogger,
  });
  const others = () => [
    { id: 'silent', address: `http://127.0.0.1:${(silent.address() as AddressInfo).port}` },
    { id: 'answering', address: answering.url },
  ];
  const forwarding = new Forwarding({ owners: { ownerOf: async () => self }, others, hop, clock });
  const asked = { method: 'POST', target: '/v1/table/users/describe', rawHeaders: [], peer: '127.0.0.1' };
  const principal = { subject: 'ann', scopes: [], groups: [], issuer: 'test' };
  const asking = forwarding.askOthers({ ...asked, principal, signal: new AbortController().signal }, '{}');
  await recordOf(answering);
  const forLookUp = 2_000;
  const forSilence = 1_500;
  await until(() => String(clock.waiting) === String([forSilence, forLookUp]));
  clock.advance(forLookUp);
  const answers = await asking;
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200],
  );
  hop.close();
  silent.close();
});
