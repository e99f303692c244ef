import type { Environment } from '../config/environment.ts';
import type { Machine } from '../config/fit-defaults.ts';
import type { Clock } from '../kernel/clock.ts';

export interface Output {
  readonly isTTY?: boolean;
  write(data: string | Uint8Array, done?: (error?: Error | null) => void): unknown;
}

/** All that a command may touch of the process it runs in; `src/main.ts` gives the real one. */
export interface CliContext {
  readonly env: Environment;
  readonly cwd: string;
  /** How the program was called, in a form that a shell understands: `npm run --silent lancegate --`. */
  readonly invocation: string;
  /** Where package.json is. */
  readonly packageFolder: string;
  readonly machine: Machine;
  readonly stdin: AsyncIterable<Uint8Array>;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly clock: Clock;
  readonly readFile: (path: string) => Buffer;
  readonly fileExists: (path: string) => boolean;
  /** Calls `listener` for each SIGTERM and SIGINT from now on. */
  readonly onStopSignal: (listener: () => void) => void;
  /** Calls `listener` for each SIGHUP from now on, which then does not end the process. */
  readonly onReloadSignal: (listener: () => void) => void;
}

/** Resolves when the data is out, so that the process may end afterwards. */
export function write(output: Output, data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    output.write(data, (error) => (error ? reject(error) : resolve()));
  });
}
