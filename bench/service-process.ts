import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Agent, type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));

/** proc(5): the fields `utime` and `stime`, counted from the one after the name; in USER_HZ, which is 100 on Linux. */
const userTicks = 11;
const systemTicks = 12;
const ticksPerSecond = 100;

export interface ServiceProcess {
  readonly url: string;
  readonly startedAfterMs: number;
  readonly port: number;
  readonly token: string;
  /** Resident memory in bytes. */
  residentBytes(): Promise<number>;
  /** Processor time used so far, of all its threads. */
  cpuSeconds(): Promise<number>;
  /** POSTs a body of any length and answers the parsed response; anything but 200 is an error. */
  post(path: string, body: Iterable<Uint8Array> | Uint8Array): Promise<Record<string, unknown>>;
  /** The folder of a table. */
  folderOf(table: string): Promise<string>;
  stop(): Promise<void>;
}

export interface ServiceFlags {
  readonly node?: readonly string[];
  readonly serve?: readonly string[];
}

/** The service as an operator runs it: a process of its own, on its embedded defaults, with a token of its own issuer. */
export async function startServiceProcess(dataFolder: string, flags: ServiceFlags = {}): Promise<ServiceProcess> {
  const start = performance.now();
  const serve = ['serve', '--data', dataFolder, '--port', '0', '--log-level', 'error', ...(flags.serve ?? [])];
  const child = spawn(process.execPath, [...(flags.node ?? []), main, ...serve], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await firstLine(child.stdout);
  const startedAfterMs = performance.now() - start;
  const token = await mint(dataFolder);
  const agent = new Agent({ keepAlive: true, maxSockets: 512 });
  return {
    url,
    port: Number(new URL(url).port),
    token,
    startedAfterMs,
    residentBytes: async () => {
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
      return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
    },
    cpuSeconds: async () => {
      const stat = await readFile(`/proc/${child.pid}/stat`, 'utf8');
      const afterName = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(afterName[userTicks]) + Number(afterName[systemTicks])) / ticksPerSecond;
    },
    post: (path, body) => post(agent, url + path, token, body),
    folderOf: async (table) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const answer = await fetch(`${url}/v1/table/${table}/describe`, { method: 'POST', headers, body: '{}' });
      return fileURLToPath(((await answer.json()) as { location: string }).location);
    },
    stop: async () => {
      agent.destroy();
      const exited = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await exited;
    },
  };
}

async function firstLine(stdout: Readable): Promise<string> {
  for await (const chunk of stdout) {
    const url = /listening on (\S+)/.exec(String(chunk))?.[1];
    stdout.resume();
    if (url !== undefined) return url;
  }
  throw new Error('the service did not start');
}

async function mint(dataFolder: string): Promise<string> {
  const args = [main, 'token', '--subject', 'bench', '--scope', 'lancegate:admin', '--data', dataFolder];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return stdout.trim().split('\n').at(-1) ?? '';
}

async function post(
  agent: Agent,
  url: string,
  token: string,
  body: Iterable<Uint8Array> | Uint8Array,
): Promise<Record<string, unknown>> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/vnd.apache.arrow.stream' };
  const sent = request(url, { method: 'POST', agent, headers });
  const response = once(sent, 'response') as Promise<[IncomingMessage]>;
  if (body instanceof Uint8Array) sent.end(body);
  else await pipeline(Readable.from(body, { objectMode: true, highWaterMark: 1 }), sent);
  const [answer] = await response;
  const text = Buffer.concat(await answer.toArray()).toString();
  if (answer.statusCode !== 200) throw new Error(`${answer.statusCode}: ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}
