/**
 * What any service costs that runs queries in another process: an HTTP server of Node that hands the body of each request to a second
 * process, which asks the engine and hands back the bytes. No token, no policy, no check, no catalog, no limit, no record. An empty
 * body asks for nothing, so its answer costs the way alone.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import { basename, dirname } from 'node:path';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { connect, type Table } from '@lancedb/lancedb';

/** What the second process is asked. */
export interface BareQuery {
  /** The folder of the table. */
  readonly folder: string;
  readonly filter?: string;
  readonly vector?: readonly number[];
  readonly words?: string;
  readonly columns?: readonly string[];
  readonly limit?: number;
}

export interface BareRelay {
  readonly port: number;
  stop(): void;
}

const ownFile = fileURLToPath(import.meta.url);
/** After the three descriptors that every process has. */
const channelFd = 3;

export async function startBareRelay(): Promise<BareRelay> {
  const child = spawn(process.execPath, [ownFile, 'serve'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { port: Number(line), stop: () => child.kill() };
}

/** One request at a time, as its only client sends them. */
async function serve(): Promise<void> {
  const stdio: ['ignore', 'ignore', 'inherit', 'pipe'] = ['ignore', 'ignore', 'inherit', 'pipe'];
  const reader: ChildProcess = spawn(process.execPath, [ownFile, 'read'], { stdio });
  const channel = reader.stdio[channelFd] as Duplex;
  const answers = messagesOf(channel);
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    send(channel, await bodyOf(request));
    const { value } = await answers.next();
    response.setHeader('content-length', value!.length);
    response.end(value);
  };
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

async function read(): Promise<void> {
  const channel = new Socket({ fd: channelFd });
  const open = new Map<string, Promise<Table>>();
  for await (const question of messagesOf(channel)) {
    if (question.length === 0) send(channel, question);
    else send(channel, await ask(open, JSON.parse(question.toString()) as BareQuery));
  }
  process.exit();
}

/** The engine gives each batch as an Arrow file, and a small result is one batch. */
async function ask(open: Map<string, Promise<Table>>, question: BareQuery): Promise<Buffer> {
  const { folder } = question;
  const opening = open.get(folder) ?? connect(dirname(folder)).then((db) => db.openTable(basename(folder, '.lance')));
  open.set(folder, opening);
  const batches = await queryOf((await opening) as unknown as WithNative, question).execute();
  const batch = await batches.next();
  if (batch === null || (question.limit === undefined && (await batches.next()) !== null)) throw new Error('one batch');
  return batch;
}

/** The public classes decode what they get. */
interface WithNative {
  readonly inner: { query(): NativeQuery };
}
interface NativeQuery {
  onlyIf(filter: string): void;
  fullTextSearch(search: { readonly query: string; readonly columns: null }): void;
  nearestTo(vector: Float32Array): NativeQuery;
  select(columns: [string, string][]): void;
  limit(rows: number): void;
  execute(): Promise<{ next(): Promise<Buffer | null> }>;
}

function queryOf({ inner }: WithNative, { filter, vector, words, columns, limit }: BareQuery): NativeQuery {
  const rows = inner.query();
  if (words !== undefined) rows.fullTextSearch({ query: words, columns: null });
  const query = vector === undefined ? rows : rows.nearestTo(Float32Array.from(vector));
  if (filter !== undefined) query.onlyIf(filter);
  if (columns !== undefined) query.select(columns.map((name) => [name, name]));
  if (limit !== undefined) query.limit(limit);
  return query;
}

const lengthBytes = 4;

function send(channel: Duplex, bytes: Buffer): void {
  const length = Buffer.alloc(lengthBytes);
  length.writeUInt32LE(bytes.length);
  channel.write(Buffer.concat([length, bytes]));
}

async function* messagesOf(channel: Duplex): AsyncGenerator<Buffer, void, void> {
  let received: Buffer = Buffer.alloc(0);
  for await (const chunk of channel) {
    received = received.length === 0 ? (chunk as Buffer) : Buffer.concat([received, chunk as Buffer]);
    while (received.length >= lengthBytes) {
      const end = lengthBytes + received.readUInt32LE(0);
      if (received.length < end) break;
      yield received.subarray(lengthBytes, end);
      received = received.subarray(end);
    }
  }
}

if (process.argv[1] === ownFile) await (process.argv[2] === 'serve' ? serve() : read());
