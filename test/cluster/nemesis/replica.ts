/** A replica of the service as a process that a test kills, freezes and starts again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { listeningUrl } from '#test/fixtures/service-process.ts';
import type { Namespace } from './namespace.ts';

export const main = join(import.meta.dirname, '../../../bin/lancegate.js');
const keptOfLog = 20_000;

/** What a test tells its clients and its schedule of a replica. */
type Condition = 'running' | 'frozen' | 'down';

export class Replica {
  readonly name: string;
  /** Of this process alone; kept while it is down. */
  readonly port: number;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #namespace: Namespace | undefined;
  #process: ChildProcess | undefined;
  #condition: Condition = 'down';
  #isToEnd = false;
  #log = '';

  /** `settings` are environment variables without their prefix. On loopback without a `namespace`. */
  constructor(name: string, port: number, settings: Readonly<Record<string, string>>, namespace?: Namespace) {
    this.name = name;
    this.port = port;
    this.#namespace = namespace;
    this.#environment = Object.fromEntries(
      Object.entries({ PORT: String(port), LOG_LEVEL: 'warn', ...settings }).map(([key, value]) => [
        `LANCEGATE_${key}`,
        value,
      ]),
    );
  }

  get url(): string {
    const scheme = this.#environment.LANCEGATE_TLS_CERTIFICATE === undefined ? 'http' : 'https';
    return `${scheme}://${this.#namespace?.replicaOf('clients') ?? '127.0.0.1'}:${this.port}`;
  }

  get condition(): Condition {
    return this.#condition;
  }

  /** Whether it ended although nobody ended it. */
  get hasCrashed(): boolean {
    return this.#condition === 'down' && !this.#isToEnd;
  }

  /** The end of what it wrote, of all its lives. */
  get log(): string {
    return this.#log;
  }

  /** Resolves when it takes requests. `clockOffsetMs` is how far its clock is ahead. */
  async start(clockOffsetMs = 0): Promise<void> {
    const clock = join(import.meta.dirname, 'shifted-clock.ts');
    const inside = this.#namespace === undefined ? [] : ['ip', 'netns', 'exec', this.#namespace.name];
    const [command = '', ...args] = [...inside, process.execPath, '--import', clock, main, 'serve'];
    const child = spawn(command, args, {
      env: { PATH: process.env.PATH, ...this.#environment, TEST_CLOCK_OFFSET_MS: String(clockOffsetMs) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#process = child;
    this.#isToEnd = false;
    const keep = (text: Buffer): void => {
      this.#log = (this.#log + text.toString()).slice(-keptOfLog);
    };
    child.stderr?.on('data', keep);
    child.once('close', () => {
      if (this.#process === child) this.#condition = 'down';
    });
    if ((await listeningUrl(child)) === undefined) throw new Error(`${this.name} did not start: ${this.#log}`);
    child.stdout?.on('data', keep);
    this.#condition = 'running';
  }

  /** As a power cut of its machine would. */
  kill(): Promise<void> {
    return this.#end('SIGKILL');
  }

  /** As a rolling upgrade does. */
  stop(): Promise<void> {
    return this.#end('SIGTERM');
  }

  freeze(): void {
    this.#process?.kill('SIGSTOP');
    this.#condition = 'frozen';
  }

  thaw(): void {
    this.#process?.kill('SIGCONT');
    this.#condition = 'running';
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const closed = once(child, 'close');
    this.#isToEnd = true;
    child.kill(signal);
    await closed;
    this.#condition = 'down';
  }
}
