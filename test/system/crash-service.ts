/** A service process whose death is part of the test: what a request gets then, and which processes it has. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type Table, tableFromIPC } from 'apache-arrow';
import { enginePriorities, isRunning, readersOf } from '#test/fixtures/reader-processes.ts';
import { type Given, listeningUrl, serveArguments } from '#test/fixtures/service-process.ts';
import { eventually } from '#test/http/eventually.ts';

/** Without the LANCEGATE_* variables of the user who runs the tests. */
const environment = { PATH: process.env.PATH };
const arrowStream = 'application/vnd.apache.arrow.stream';

export type Json = Readonly<Record<string, unknown>>;

export interface Asked {
  readonly path: string;
  readonly method?: 'GET';
  readonly body?: Uint8Array | Json;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly body: Json;
  /** An earlier request with this key got it. */
  readonly isReplay: boolean;
}

const mostReaderStarts = 50;

/** What the service gives the threads of an index builder. */
const nicenessOfBuilders = 15;

const isBuilder = (pid: number): boolean => {
  try {
    return enginePriorities(pid).includes(nicenessOfBuilders);
  } catch {
    return false; // it has ended
  }
};

export class CrashService {
  readonly #child: ChildProcess;
  readonly #over: Promise<unknown>;
  readonly #token: string;
  #url = '';
  #log = '';
  /** Every reader and index builder that was seen. */
  readonly #readers = new Set<number>();

  private constructor(dataFolder: string, token: string, given: readonly Given[]) {
    const args = serveArguments(dataFolder, 'warn', given);
    this.#token = token;
    this.#child = spawn(process.execPath, args, { env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#over = once(this.#child, 'close');
    this.#child.stdout?.on('data', (text: Buffer) => this.#keep(text));
    this.#child.stderr?.on('data', (text: Buffer) => this.#keep(text));
  }

  static async start(dataFolder: string, token: string, given: readonly Given[] = []): Promise<CrashService> {
    const service = new CrashService(dataFolder, token, given);
    const url = await listeningUrl(service.#child);
    assert.ok(url !== undefined, `the service did not start: ${service.log}`);
    service.#url = url;
    return service;
  }

  /** What it wrote, warnings and errors. */
  get log(): string {
    return this.#log;
  }

  /** undefined if the connection ended without an answer. */
  async ask({ path, method, body = {}, headers }: Asked): Promise<Answer | undefined> {
    const isStream = body instanceof Uint8Array;
    try {
      const response = await fetch(this.#url + path, {
        method: method ?? 'POST',
        headers: {
          authorization: `Bearer ${this.#token}`,
          'content-type': isStream ? arrowStream : 'application/json',
          ...headers,
        },
        ...(method === 'GET' ? {} : { body: isStream ? new Uint8Array(body) : JSON.stringify(body) }),
      });
      const text = await response.text();
      const isReplay = response.headers.get('idempotency-replayed') === 'true';
      return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Json, isReplay };
    } catch {
      return undefined;
    }
  }

  /** Of what must succeed, the JSON. */
  async get(asked: Asked): Promise<Json> {
    const answer = await this.ask(asked);
    assert.equal(answer?.status, 200, `${asked.path}: ${JSON.stringify(answer?.body)}`);
    return answer!.body;
  }

  /** Asks again where a reader had to be started and could not: the engine starts in none without a temporary folder. */
  async query(table: string, body: Json): Promise<Table> {
    const asked = {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    };
    for (let attempt = 1; ; attempt += 1) {
      const response = await fetch(`${this.#url}/v1/table/${table}/query`, asked);
      const bytes = new Uint8Array(await response.arrayBuffer());
      if (response.status === 200) return tableFromIPC(bytes);
      const text = new TextDecoder().decode(bytes);
      const mayStartNext = response.status === 503 && text.includes('the process that ran the query died');
      assert.ok(
        mayStartNext && attempt < mostReaderStarts,
        `query of ${table} ${asked.body}: ${response.status} ${text}`,
      );
    }
  }

  /** Ends one process of its readers, or of its index builders, as the kernel would; false where there is none. */
  killOne(kind: 'reader' | 'index builder'): boolean {
    const [found] = this.#readersNow().filter((pid) => isBuilder(pid) === (kind === 'index builder'));
    if (found !== undefined) process.kill(found, 'SIGKILL');
    return found !== undefined;
  }

  /** As the kernel ends it that has no memory left. Its readers find that out by themselves. */
  async kill(): Promise<void> {
    this.#readersNow();
    this.#child.kill('SIGKILL');
    await this.#over;
  }

  async requireNoReaderLeft(): Promise<void> {
    await eventually('the readers of a killed service have ended', () => ![...this.#readers].some(isRunning));
  }

  async stop(): Promise<number | null> {
    this.#child.kill('SIGTERM');
    await this.#over;
    return this.#child.exitCode;
  }

  #readersNow(): readonly number[] {
    const readers = readersOf(this.#child.pid);
    for (const pid of readers) this.#readers.add(pid);
    return readers;
  }

  #keep(text: Buffer): void {
    this.#log = (this.#log + text.toString()).slice(-100_000);
  }
}
