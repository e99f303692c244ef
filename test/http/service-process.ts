/** The service as its operators run it: a process of its own, of which nothing is known but its command line. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { mintToken } from '#test/system/service-process.ts';

const packageFolder = join(import.meta.dirname, '../..');
const program = join(packageFolder, 'src/main.ts');

export interface ServiceProcess {
  readonly url: string;
  readonly tablesFolder: string;
  /** Of a principal with all rights. */
  readonly authorization: string;
  /** Undefined while it runs; then how it ended, with the end of what it wrote. */
  readonly death: string | undefined;
  /** Resident memory now, and the most there ever was. Linux only. */
  memory(): { readonly residentBytes: number; readonly peakBytes: number };
  /** The value of a metric without labels. */
  metric(name: string): Promise<number>;
  post(path: string, body?: Uint8Array | object): Promise<{ readonly status: number; readonly body: unknown }>;
}

/** `settings` are environment variables without their prefix. */
export async function startServiceProcess(
  after: (clean: () => void | Promise<void>) => void,
  settings: Readonly<Record<string, string>> = {},
): Promise<ServiceProcess> {
  const dataFolder = temporaryFolder(after);
  const authorization = `Bearer ${await mintToken(dataFolder)}`;
  const child = spawn(process.execPath, [program, 'serve', '--port', '0', '--data', dataFolder], {
    env: environment(settings),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const end = watch(child);
  after(() => end.kill());
  const url = await listeningUrl(child, end);
  return {
    url,
    authorization,
    tablesFolder: join(dataFolder, 'tables'),
    get death() {
      return end.death;
    },
    memory: () => memoryOf(child.pid),
    metric: async (name) => {
      const metrics = await (await fetch(`${url}/metrics`, { headers: { authorization } })).text();
      return Number(new RegExp(`^${name} (.+)$`, 'm').exec(metrics)?.[1]);
    },
    post: async (path, body = {}) => {
      const content = body instanceof Uint8Array ? (body as Uint8Array<ArrayBuffer>) : JSON.stringify(body);
      const type = body instanceof Uint8Array ? 'application/vnd.apache.arrow.stream' : 'application/json';
      const headers = { authorization, 'content-type': type };
      const response = await fetch(url + path, { method: 'POST', headers, body: content });
      const text = await response.text();
      return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
    },
  };
}

/** Without the variables of the test run, which may configure a service themselves. */
const environment = (settings: Readonly<Record<string, string>>) => ({
  PATH: process.env.PATH,
  ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [`LANCEGATE_${name}`, value])),
});

interface End {
  readonly death: string | undefined;
  kill(): Promise<void>;
}

function watch(child: ChildProcess): End {
  let tail = '';
  let death: string | undefined;
  child.stderr?.on('data', (text: Buffer) => {
    tail = (tail + text.toString()).slice(-2000);
  });
  const over = new Promise<void>((resolve) => {
    child.once('close', (code, signal) => {
      death = `exit ${code ?? signal}: ${tail}`;
      resolve();
    });
  });
  return {
    get death() {
      return death;
    },
    kill: async () => {
      child.kill('SIGKILL');
      await over;
    },
  };
}

async function listeningUrl(child: ChildProcess, end: End): Promise<string> {
  for await (const line of createInterface(child.stdout!)) {
    const [, url] = /^lancegate listening on (\S+)$/.exec(line) ?? [];
    if (url !== undefined) {
      child.stdout!.resume();
      return url;
    }
  }
  throw new Error(`the service did not start: ${end.death}`);
}

function memoryOf(pid: number | undefined): { residentBytes: number; peakBytes: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const bytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) * 1024;
  return { residentBytes: bytes('VmRSS'), peakBytes: bytes('VmHWM') };
}
