import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CliContext, Output } from '#src/cli/command.ts';
import { runCli } from '#src/cli/run.ts';
import type { StartService } from '#src/cli/serve.ts';
import type { Machine } from '#src/config/fit-defaults.ts';
import type { Clock } from '#src/kernel/clock.ts';
import { serviceProbes } from '#src/service-probes.ts';
import { openCredentials } from '#src/stored-state.ts';

const packageFolder = join(import.meta.dirname, '../..');

export interface Outcome {
  readonly code: number;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export class Collector implements Output {
  readonly isTTY: boolean = false;
  readonly #chunks: Buffer[] = [];

  write(data: string | Uint8Array, done?: (error?: Error) => void): void {
    this.#chunks.push(Buffer.from(data as Uint8Array));
    done?.();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

const fixedClock = (nowMs: number): Clock => ({ nowMs: () => nowMs, schedule: () => () => {} });

const noService: StartService = () => Promise.reject(new Error('this test starts no service'));

export interface Surroundings {
  readonly stdin?: string | Buffer;
  readonly env?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  readonly machine?: Machine;
  readonly probes?: Partial<CliContext['probes']>;
  readonly startService?: StartService;
  readonly onStopSignal?: CliContext['onStopSignal'];
  readonly onReloadSignal?: CliContext['onReloadSignal'];
  readonly stdout?: Collector;
  readonly stderr?: Collector;
}

/** Runs the command line without a process of its own. */
export async function runInProcess(args: readonly string[], given: Surroundings = {}): Promise<Outcome> {
  const { stdout = new Collector(), stderr = new Collector() } = given;
  const clock = given.clock ?? fixedClock(Date.UTC(2026, 0, 1));
  const context: CliContext = {
    env: given.env ?? {},
    cwd: packageFolder,
    invocation: 'lancegate',
    packageFolder,
    machine: given.machine ?? { memoryBytes: 64 * 2 ** 30, openFiles: 65_536 },
    stdin: bytesOf(given.stdin ?? ''),
    stdout,
    stderr,
    clock,
    readFile: (path) => readFileSync(path),
    fileExists: existsSync,
    openCredentials: (config) => openCredentials(config, clock),
    probes: { ...serviceProbes, ...given.probes },
    onStopSignal: given.onStopSignal ?? (() => {}),
    onReloadSignal: given.onReloadSignal ?? (() => {}),
  };
  const code = await runCli(args, context, given.startService ?? noService);
  return { code, stdout: stdout.bytes, stderr: stderr.bytes.toString() };
}

async function* bytesOf(input: string | Buffer): AsyncIterable<Uint8Array> {
  yield Buffer.from(input as Buffer);
}
