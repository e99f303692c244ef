/** Bodies and clients that are too much for a service. */
import { type Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Int64, makeData, Table, tableToIPC, Vector } from 'apache-arrow';
import { encodeBatch, encodeMessage, encodeSchema, endOfStream, field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import type { ServiceProcess } from '#test/fixtures/service-process.ts';

const MiB = 2 ** 20;

/** Rows of one column. */
export function idRows(ids: readonly number[]): Uint8Array {
  const data = BigInt64Array.from(ids, BigInt);
  const id = new Vector([makeData({ type: new Int64(), length: ids.length, data })]);
  return tableToIPC(new Table({ id }), 'stream');
}

/** A few kilobytes of rows of 1 MiB of zeros each. */
export function unfoldingStream(bytes: number): Buffer {
  const column = { length: bytes / MiB, nulls: 0, buffers: [new Uint8Array(0), Buffer.alloc(bytes)], children: [] };
  const schema = schemaOf([field('zeros', { kind: 'fixed_size_binary', byteWidth: MiB })]);
  const batch = encodeMessage({ kind: 'batch', ...encodeBatch(column.length, [column], 'zstd') });
  return Buffer.concat([encodeSchema(schema), batch, endOfStream]);
}

/** The median of so many merges, one after the other, in milliseconds. */
export async function mergeLatencyMs(service: ServiceProcess, merges: number): Promise<number> {
  const latencies: number[] = [];
  for (let i = 0; i < merges; i++) {
    const start = performance.now();
    const { status, body } = await service.post('/v1/table/t/merge_insert?on=id', idRows([i]));
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
    latencies.push(performance.now() - start);
  }
  return medianMs(latencies);
}

interface SlowClient {
  readonly socket: Socket;
  readonly closed: Promise<void>;
  trickle(): void;
}

/** Sends nothing, or goes on for ever with its headers, or with its body, a byte at a time. */
export async function slowClient(service: ServiceProcess, kind: 'silent' | 'headers' | 'body'): Promise<SlowClient> {
  const { port, hostname } = new URL(service.url);
  const socket = connect(Number(port), hostname);
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => undefined);
  socket.resume();
  await new Promise((resolve) => socket.once('connect', resolve));
  const line = 'POST /v1/table/t/merge_insert?on=id HTTP/1.1\r\nhost: x\r\n';
  const head = `${line}authorization: ${service.authorization}\r\ntransfer-encoding: chunked\r\n\r\n`;
  const [first, more] = { silent: ['', ''], headers: [`${line}x-a: `, 'a'], body: [head, '1\r\n\xff\r\n'] }[kind];
  const write = (text: string) => socket.writable && text !== '' && socket.write(text, 'latin1');
  write(first ?? '');
  return { socket, closed, trickle: () => void write(more ?? '') };
}

interface Load {
  readonly acknowledged: number;
  readonly perSecond: number;
  readonly refused: number;
  /** The median times until a refusal, and until a merge is stored. */
  readonly refusedMs: number;
  readonly servedMs: number;
  /** How many connections the clients needed. */
  readonly connections: number;
  /** Answers that are neither. */
  readonly others: readonly string[];
}

/**
 * Each client merges new rows, one request after the other; a refused client waits as long as `Retry-After` asks. They begin one by
 * one, in a third of the time: all at once would mostly wait for the thread that they share themselves.
 */
export async function load(
  service: ServiceProcess,
  agent: Agent,
  { clients, ms, firstId }: { readonly clients: number; readonly ms: number; readonly firstId: number },
): Promise<Load> {
  const endMs = performance.now() + ms;
  const refusals: number[] = [];
  const served: number[] = [];
  const others: string[] = [];
  const sockets = new Set<Socket>();
  let nextId = firstId;
  const client = async (_: unknown, index: number): Promise<void> => {
    await pause((ms / 3) * (index / clients));
    while (performance.now() < endMs) {
      const body = idRows([nextId++]);
      const startMs = performance.now();
      const { status, retryAfterMs, text } = await merge(service, agent, body, sockets);
      const tookMs = performance.now() - startMs;
      if (status === 200) served.push(tookMs);
      else if (status !== 503) others.push(text);
      else {
        refusals.push(tookMs);
        await pause(Math.min(retryAfterMs, Math.max(0, endMs - performance.now())));
      }
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  return {
    acknowledged: served.length,
    perSecond: Math.round((served.length * 1000) / ms),
    refused: refusals.length,
    refusedMs: medianMs(refusals),
    servedMs: medianMs(served),
    connections: sockets.size,
    others,
  };
}

const medianMs = (latencies: readonly number[]): number =>
  Math.round(latencies.toSorted((a, b) => a - b)[latencies.length >> 1] ?? 0);

interface Merged {
  readonly status: number;
  readonly retryAfterMs: number;
  readonly text: string;
}

/** Over connections that are kept; those used are put into `sockets`. */
function merge(service: ServiceProcess, agent: Agent, body: Uint8Array, sockets: Set<Socket>): Promise<Merged> {
  const { url, authorization } = service;
  const headers = { authorization, 'content-length': body.length };
  return new Promise((resolve, reject) => {
    const sending = request(`${url}/v1/table/t/merge_insert?on=id`, { method: 'POST', agent, headers }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('error', reject);
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          retryAfterMs: Number(response.headers['retry-after'] ?? 0) * 1000,
          text: Buffer.concat(parts).toString(),
        }),
      );
    });
    sending.on('socket', (socket) => sockets.add(socket));
    sending.on('error', reject);
    sending.end(body);
  });
}
