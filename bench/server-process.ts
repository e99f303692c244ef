/** A server in a process of its own, and the client that sends it bodies. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { Agent, type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** proc(5): the fields `utime` and `stime`, counted from the one after the name; in USER_HZ, which is 100 on Linux. */
const userTicks = 11;
const systemTicks = 12;
const ticksPerSecond = 100;

export type Body = Iterable<Uint8Array> | Uint8Array;

export interface ServerProcess {
  readonly url: string;
  readonly pid: number;
  readonly startedAfterMs: number;
  /** Resident memory in bytes. */
  residentBytes(): Promise<number>;
  /** Processor time used so far, of all its threads. */
  cpuSeconds(): Promise<number>;
  /** Of these, what the thread used that has the event loop. */
  mainThreadSeconds(): Promise<number>;
  /** POSTs a body of any length and answers the parsed response; anything but 200 is an error. */
  post(path: string, body: Body, headers: Readonly<Record<string, string>>): Promise<Record<string, unknown>>;
  /** Uses nothing until `resume`. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

/** Starts Node with these arguments and waits for the line that says where it listens. */
export async function startServerProcess(args: readonly string[]): Promise<ServerProcess> {
  const start = performance.now();
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const url = await firstLine(child.stdout);
  const startedAfterMs = performance.now() - start;
  const agent = new Agent({ keepAlive: true, maxSockets: 512 });
  return {
    url,
    pid: child.pid!,
    startedAfterMs,
    residentBytes: async () => {
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8');
      return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
    },
    cpuSeconds: () => secondsIn(`/proc/${child.pid}/stat`),
    mainThreadSeconds: () => secondsIn(`/proc/${child.pid}/task/${child.pid}/stat`),
    post: (path, body, headers) => post(agent, url + path, body, headers),
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    stop: async () => {
      agent.destroy();
      const exited = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await exited;
    },
  };
}

async function secondsIn(statFile: string): Promise<number> {
  const stat = await readFile(statFile, 'utf8');
  const afterName = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(afterName[userTicks]) + Number(afterName[systemTicks])) / ticksPerSecond;
}

async function firstLine(stdout: Readable): Promise<string> {
  for await (const chunk of stdout) {
    const url = /listening on ([^\s"]+)/.exec(String(chunk))?.[1];
    stdout.resume();
    if (url !== undefined) return url;
  }
  throw new Error('the server did not start');
}

async function post(
  agent: Agent,
  url: string,
  body: Body,
  headers: Readonly<Record<string, string>>,
): Promise<Record<string, unknown>> {
  const sent = request(url, { method: 'POST', agent, headers });
  const response = once(sent, 'response') as Promise<[IncomingMessage]>;
  if (body instanceof Uint8Array) sent.end(body);
  else await pipeline(Readable.from(body, { objectMode: true, highWaterMark: 1 }), sent);
  const [answer] = await response;
  const text = Buffer.concat(await answer.toArray()).toString();
  if (answer.statusCode !== 200) throw new Error(`${answer.statusCode}: ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}
