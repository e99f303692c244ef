/**
 * A refused request leaves nothing behind, of whatever kind it is and however much of its body never came (P12). Counted as
 * objects that are alive after a full collection: resident memory would only show what is large.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { queryObjects } from 'node:v8';
import { RequestContext } from '#src/http/request-context.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { eventually } from '#test/http/eventually.ts';
import { usersStream } from './client.ts';
import { ManualClock } from './manual-clock.ts';
import { startTestService, type TestOptions, type TestService, token } from './service.ts';

/** A collection of the whole heap comes first. A context holds its body, scope and error, and the source of the body holds it. */
const alive = (): number => queryObjects(RequestContext, { format: 'count' });

const lines = (line: string, ...headers: readonly string[]): string =>
  [`${line} HTTP/1.1`, 'host: x', ...headers, '', ''].join('\r\n');
const authorization = `authorization: Bearer ${token}`;
const merge = 'POST /v1/table/t/merge_insert?on=id';
const endless = 'transfer-encoding: chunked';
const chunk = (bytes: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
const sent = (text: string, ...bytes: readonly Uint8Array[]): Buffer => Buffer.concat([Buffer.from(text), ...bytes]);

const readSchema = async ({ source }: { source: { schema(): Promise<unknown> } }) => {
  await source.schema();
  throw new LancegateError('TableSchemaValidationError', 'script');
};
const readAll = async ({ source }: { source: { whole(): Promise<unknown> } }) => {
  await source.whole();
  throw new LancegateError('TableNotFound', 'script');
};

interface Refused {
  readonly bytes: Buffer;
  readonly status: string;
  readonly options?: TestOptions;
}

const refusals: Readonly<Record<string, Refused>> = {
  'no credential': { bytes: sent(lines(merge, 'content-length: 1000000')), status: '401' },
  'no right': {
    bytes: sent(lines(merge, authorization, endless), chunk(usersStream)),
    status: '403',
    options: { allows: () => false },
  },
  'an unknown route': {
    bytes: sent(lines('POST /v1/nothing', authorization, endless), chunk(usersStream)),
    status: '404',
  },
  'no `on`': { bytes: sent(lines('POST /v1/table/t/merge_insert', authorization, endless)), status: '400' },
  'a declared length beyond the limit': {
    bytes: sent(lines(merge, authorization, 'content-length: 999999999')),
    status: '413',
  },
  'a body that is no Arrow, and goes on': {
    bytes: sent(lines(merge, authorization, endless), chunk(Buffer.alloc(5_000, 7))),
    status: '400',
  },
  'a schema that does not fit, and rows to come': {
    bytes: sent(lines(merge, authorization, endless), chunk(usersStream.subarray(0, -8))),
    status: '400',
    options: { script: { mergeRows: readSchema } as unknown as NonNullable<TestOptions['script']> },
  },
  'a compressed body that goes on': {
    bytes: sent(lines(merge, authorization, endless, 'content-encoding: gzip'), chunk(Buffer.alloc(100, 1))),
    status: '400',
  },
  'a body that stops arriving': {
    bytes: sent(lines(merge, authorization, endless), chunk(usersStream.subarray(0, 100))),
    status: '503',
    options: {
      config: { uploadIdleTimeoutMs: 20 },
      script: { mergeRows: readAll } as unknown as NonNullable<TestOptions['script']>,
    },
  },
  'a deadline that passes during the upload': {
    bytes: sent(lines(`${merge}&timeout=20ms`, authorization, endless), chunk(usersStream.subarray(0, 100))),
    status: '503',
    options: { script: { mergeRows: readAll } as unknown as NonNullable<TestOptions['script']> },
  },
  'a body that will never find room': {
    bytes: sent(lines(merge, authorization, endless), chunk(usersStream)),
    status: '413',
    options: { bodyMemoryBytes: 1_000 },
  },
  'broken JSON': {
    bytes: sent(lines('POST /v1/table/t/drop', authorization, 'content-length: 5'), Buffer.from('{"a":')),
    status: '400',
  },
  'JSON beyond its limit': {
    bytes: sent(lines('POST /v1/table/t/drop', authorization, endless), chunk(Buffer.alloc(6_000, ' '))),
    status: '413',
  },
  'two Host headers': { bytes: sent(lines(merge, 'host: y', authorization, endless)), status: '400' },
  'a broken chunk': { bytes: sent(lines(merge, authorization, endless), Buffer.from('zz\r\n')), status: '400' },
};

/** Resolves to the status; the client leaves as soon as it knows it, without the rest of its body. */
async function refusedOnce({ port }: TestService, bytes: Buffer): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(bytes);
  const [first] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return /^HTTP\/1\.1 (\d+)/.exec(first.toString())?.[1] ?? '';
}

const times = 20;

async function refuseAll(why: string, { bytes, status, options = {} }: Refused): Promise<void> {
  const config = { maxConcurrentWrites: 2 * times, ...options.config };
  await using service = await startTestService({ ...options, config });
  const statuses = await Promise.all(Array.from({ length: times }, () => refusedOnce(service, bytes)));
  assert.deepEqual([...new Set(statuses)], [status], why);
  (service.asked as unknown[]).length = 0; // the script remembers its commands, and with them the bodies
}

/** The client leaves in the middle of its body. */
async function abortAll(): Promise<void> {
  await using service = await startTestService();
  const body = sent(lines(merge, authorization, endless), chunk(usersStream.subarray(0, 100)));
  const leave = async () => {
    const socket = connect(service.port, '127.0.0.1');
    socket.write(body);
    await once(socket, 'connect');
    await turn();
    socket.destroy();
  };
  await Promise.all(Array.from({ length: times }, leave));
  await turn();
  (service.asked as unknown[]).length = 0;
}

test('nothing is left of refused requests of any kind (P12)', async () => {
  const before = alive();
  for (const [why, refused] of Object.entries(refusals)) await refuseAll(why, refused);
  await abortAll();
  await eventually(
    'no context is left of them',
    () => alive() <= before,
    () => alive() - before,
  );
});

test('no timer is left of a refused body whose rest never came', async () => {
  const clock = new ManualClock();
  await using service = await startTestService({
    clock,
    script: { mergeRows: readSchema } as unknown as NonNullable<TestOptions['script']>,
  });
  const body = sent(lines(merge, authorization, endless), chunk(usersStream.subarray(0, -8)));
  for (let i = 0; i < 10; i++) assert.equal(await refusedOnce(service, body), '400');
  await eventually(
    'no timer is left but that of the connections',
    () => clock.waiting.length <= 1,
    () => clock.waiting,
  );
});
