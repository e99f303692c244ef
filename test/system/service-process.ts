/** The service as an operator runs it: a process of its own on a data folder, known only by what it says and leaves. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';

const main = join(import.meta.dirname, '../../src/main.ts');
/** Without the LANCEGATE_* variables of whoever runs the tests. */
const environment = { PATH: process.env.PATH };

export interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

export interface ServiceProcess {
  readonly url: string;
  post(path: string, body?: Uint8Array | object): Promise<Answer>;
  /** POSTs a body that may never end; rejects when the connection does. */
  upload(path: string, chunks: Iterable<Uint8Array>): Promise<void>;
  /** Ends it as a power cut would. */
  kill(): Promise<void>;
  /** Sends SIGTERM; resolves to the exit code. */
  stop(): Promise<number | null>;
}

interface Minted {
  readonly token: string;
  readonly issuerKey: Buffer;
}

let minted: Minted | undefined;

/**
 * A token with all rights for the service of a data folder in which none has run yet. The program mints the first one, which
 * takes it most of a second; further folders get the key of its issuer.
 */
export async function mintToken(dataFolder: string): Promise<string> {
  const keyFile = join(dataFolder, 'issuer-key.json');
  if (minted === undefined) minted = { token: await mint(dataFolder), issuerKey: readFileSync(keyFile) };
  else writeFileSync(keyFile, minted.issuerKey, { mode: 0o600, flag: 'wx' });
  return minted.token;
}

async function mint(dataFolder: string): Promise<string> {
  const args = [main, 'token', '--subject', 'tester', '--scope', 'lancegate:admin', '--data', dataFolder];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: environment });
  return stdout.trim().split('\n').at(-1) ?? '';
}

export function spawnService(dataFolder: string, ...flags: readonly string[]): ChildProcess {
  const args = [main, 'serve', '--port', '0', '--data', dataFolder, '--log-level', 'error', ...flags];
  return spawn(process.execPath, args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
}

export async function startServiceProcess(
  dataFolder: string,
  token: string,
  ...flags: readonly string[]
): Promise<ServiceProcess> {
  const child = spawnService(dataFolder, ...flags);
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const url = await listeningUrl(child);
  return {
    url,
    post: (path, body) => post(url + path, token, body),
    upload: (path, chunks) => {
      const sending = request(url + path, { method: 'POST', headers: headersOf(token, arrowStream) });
      return pipeline(Readable.from(chunks, { highWaterMark: 1 }), sending);
    },
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
    stop: async () => {
      child.kill('SIGTERM');
      const [code] = await exited;
      return code;
    },
  };
}

async function listeningUrl({ stdout, stderr }: ChildProcess): Promise<string> {
  const errors = textOf(stderr);
  for await (const chunk of (stdout as Readable).iterator({ destroyOnReturn: false })) {
    const url = /listening on (\S+)/.exec(String(chunk))?.[1];
    if (url === undefined) continue;
    stdout?.resume();
    return url;
  }
  throw new Error(`the service did not start: ${await errors}`);
}

/** Everything a stream says until it ends. */
export async function textOf(stream: Readable | null): Promise<string> {
  return stream === null ? '' : Buffer.concat(await stream.toArray()).toString();
}

const arrowStream = 'application/vnd.apache.arrow.stream';

const headersOf = (token: string, contentType: string): Record<string, string> => ({
  authorization: `Bearer ${token}`,
  'content-type': contentType,
});

async function post(url: string, token: string, body: Uint8Array | object = {}): Promise<Answer> {
  const isStream = body instanceof Uint8Array;
  const response = await fetch(url, {
    method: 'POST',
    headers: headersOf(token, isStream ? arrowStream : 'application/json'),
    body: isStream ? new Uint8Array(body) : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Record<string, unknown> };
}
