/**
 * What an honest client notices of thousands of connections from another address that are silent or trickle, and what
 * refusals of every kind leave in resident memory: `node bench/crowd.ts`. `--connections` (10,000) are attempted all the
 * time; `--seconds` (10) is the length of each of before, during and after; `--refusals` (10,000) are sent of each kind in
 * turn. The crowd is 127.0.0.2 and a process of its own, the honest client 127.0.0.3. Linux only: elsewhere those are not addresses
 * of this machine.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { percentile } from './measure.ts';
import { type ServiceProcess, startServiceProcess } from './service-process.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const { values } = parseArgs({
  options: {
    connections: { type: 'string', default: '10000' },
    seconds: { type: 'string', default: '10' },
    refusals: { type: 'string', default: '10000' },
    port: { type: 'string' },
  },
});
const crowdAddress = '127.0.0.2';
const honestAddress = '127.0.0.3';
const trickleEveryMs = 1_000;
const atOnce = 16;

/** Each connection that is closed is opened anew after a second. A third is silent, a third trickles, a third speaks no HTTP. */
async function crowd(port: number, connections: number): Promise<void> {
  const open = (index: number): void => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: crowdAddress, allowHalfOpen: true });
    socket.on('error', () => undefined);
    socket.on('close', () => void setTimeout(() => open(index), trickleEveryMs));
    if (index % 3 === 1) void trickle(socket);
    if (index % 3 === 2) socket.write('\x16\x03\x01\x00\xc8');
  };
  for (const index of range(0, connections)) {
    open(index);
    if (index % 200 === 0) await pause(10);
  }
}

async function trickle(socket: Socket): Promise<void> {
  socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\nx: ');
  for (await pause(trickleEveryMs); socket.writable; await pause(trickleEveryMs)) socket.write('a');
}

const streamOf = (keys: readonly number[], floatsPerRow: number): Uint8Array =>
  bodyOf(vectorTable({ keys, floatsPerRow })).stream;

/** One merge after the other, each over a connection of its own, as the worst off are. */
async function honest(service: ServiceProcess, seconds: number): Promise<string> {
  const latenciesMs: number[] = [];
  let failed = 0;
  const endMs = performance.now() + seconds * 1000;
  for (let key = 0; performance.now() < endMs; key++) {
    const startMs = performance.now();
    const body = streamOf([key], 4);
    const status = await upsert(service, body).catch(() => 0);
    if (status === 200) latenciesMs.push(performance.now() - startMs);
    else failed += 1;
  }
  const resident = (await service.residentBytes()) / 1e6;
  const ms = (part: number): string => `${percentile(latenciesMs, part).toFixed(1)} ms`;
  const perSecond = (latenciesMs.length / seconds).toFixed(0);
  return `${perSecond} req/s, p50 ${ms(0.5)}, p99 ${ms(0.99)}, ${failed} failed; resident ${resident.toFixed(0)} MB`;
}

async function upsert({ port, token }: ServiceProcess, body: Uint8Array): Promise<number> {
  const headers = { authorization: `Bearer ${token}`, 'content-length': body.length };
  const path = '/v1/table/crowd/merge_insert?on=id';
  const options = { host: '127.0.0.1', port, path, method: 'POST', headers, agent: new Agent() };
  const sent = request({ ...options, localAddress: honestAddress }).end(body);
  const [answer] = (await once(sent, 'response')) as [NodeJS.ReadableStream & { readonly statusCode: number }];
  answer.resume();
  await once(answer, 'end');
  return answer.statusCode;
}

const head = (line: string, ...headers: readonly string[]): string =>
  [`${line} HTTP/1.1`, 'host: x', ...headers, '', ''].join('\r\n');

/** None sends its body whole. */
function refusalsOf(token: string): Readonly<Record<string, Buffer>> {
  const authorization = `authorization: Bearer ${token}`;
  const merge = 'POST /v1/table/crowd/merge_insert?on=id';
  const chunked = 'transfer-encoding: chunked';
  const wide = Buffer.concat([streamOf([1], 8), Buffer.alloc(256 * 1024)]); // another schema than the table's
  const chunk = (bytes: Uint8Array): Buffer =>
    Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
  const of = (text: string, body: Uint8Array = Buffer.alloc(0)): Buffer => Buffer.concat([Buffer.from(text), body]);
  return {
    'no credential': of(head(merge, chunked), chunk(wide)),
    'a wrong token': of(head(merge, 'authorization: Bearer nonsense', chunked), chunk(wide)),
    'another schema': of(head(merge, authorization, chunked), chunk(wide)),
    'no Arrow': of(head(merge, authorization, chunked), chunk(Buffer.alloc(256 * 1024, 7))),
    'no such column': of(head(`${merge}x`, authorization, chunked), chunk(wide)),
    'too large': of(head(merge, authorization, 'content-length: 99999999999')),
    'no such route': of(head('POST /v1/nothing', authorization, chunked), chunk(wide)),
    'two hosts': of(head(merge, 'host: y', chunked)),
    'no HTTP': of('NONSENSE\r\n\r\n'),
    'an upload that breaks off': of(head(merge, authorization, chunked), chunk(wide.subarray(0, 100))),
  };
}

/** Leaves when the answer begins, or soon where none is to come. */
async function send(port: number, bytes: Buffer): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  socket.write(bytes);
  await Promise.race([once(socket, 'data'), once(socket, 'close'), pause(20)]);
  socket.destroy();
}

async function refuse(service: ServiceProcess, refusals: number): Promise<void> {
  const kinds = Object.values(refusalsOf(service.token));
  const tenths = 10;
  for (const tenth of range(0, tenths)) {
    for (const first of range(0, Math.ceil(refusals / tenths / atOnce))) {
      await Promise.all(range(0, atOnce).map((i) => send(service.port, kinds[(first * atOnce + i) % kinds.length]!)));
    }
    const resident = (await service.residentBytes()) / 1e6;
    process.stdout.write(`after ${((tenth + 1) * refusals) / tenths} refusals: resident ${resident.toFixed(0)} MB\n`);
  }
}

async function main(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'lancegate-bench-'));
  const service = await startServiceProcess(join(folder, 'data'));
  try {
    await service.post('/v1/table/crowd/create', streamOf(range(0, 1000), 4));
    const seconds = Number(values.seconds);
    await honest(service, 2);
    process.stdout.write(`before: ${await honest(service, seconds)}\n`);
    const attackers = fork(import.meta.filename, ['--port', String(service.port), '--connections', values.connections]);
    await pause(2_000);
    process.stdout.write(`during: ${await honest(service, seconds)}\n`);
    process.stdout.write(`later during: ${await honest(service, seconds)}\n`);
    attackers.kill('SIGKILL');
    process.stdout.write(`after: ${await honest(service, seconds)}\n`);
    await refuse(service, Number(values.refusals));
  } finally {
    await service.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

if (values.port === undefined) await main();
else await crowd(Number(values.port), Number(values.connections));
