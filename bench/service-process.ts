import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Agent, type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url));

export interface ServiceProcess {
  readonly url: string;
  readonly startedAfterMs: number;
  /** Resident memory in bytes. */
  residentBytes(): Promise<number>;
  /** POSTs a body of any length and answers the parsed response; anything but 200 is an error. */
  post(path: string, body: Iterable<Uint8Array> | Uint8Array): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

/** The service as an operator runs it: a process of its own, on its embedded defaults, with a token of its own issuer. */
export async function startServiceProcess(dataFolder: string): Promise<ServiceProcess> {
  const start = performance.now();
  const child = spawn(process.execPath, [main, 'serve', '--data', dataFolder, '--port', '0', '--log-level', 'error'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await firstLine(child.stdout);
  const startedAfterMs = performance.now() - start;
  const token = await mint(dataFolder);
  const agent = new Agent({ keepAlive: true, maxSockets: 512 });
  return {
    url,
    startedAfterMs,
    residentBytes: async () => {
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
      return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
    },
    post: (path, body) => post(agent, url + path, token, body),
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
