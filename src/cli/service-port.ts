import type { Environment } from '../config/environment.ts';
import type { Config } from '../config/settings.ts';
import type { Clock } from '../kernel/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

/** A service that listens. */
export interface Service {
  /** `http://HOST:PORT`, with the port that was really taken and without the base path. */
  readonly url: string;
  /** Reloads the policy file, if there is one, and reopens the audit file. Never rejects: errors go to the log. */
  reload(): Promise<void>;
  /** Takes no new requests, gives those under way `drainMs` to finish, then closes everything. */
  close(drainMs: number): Promise<void>;
}

/** Throws an error whose message is fit for the operator's terminal, such as who holds the data folder. */
export type StartService = (
  config: Config,
  parts: { logger: Logger; clock: Clock; environment: Environment },
) => Promise<Service>;
