/** A command can ask this of the parts of the service, which it does not import: each is loaded when it is asked, and changes nothing. */
import type { Config } from '../config/settings.ts';

interface FoundDatabase {
  /** It is for the operator, without the password. */
  readonly name: string;
  readonly serverVersion: string;
  readonly nowMs: number;
  /** A standby refuses writes. */
  readonly isStandby: boolean;
  /** How many migrations of its schema a start will run. */
  readonly pendingMigrations: number;
}

/** Each rejects with an error whose message is for the operator. */
export interface Probes {
  /** Loads the engine's native code, in a process of its own. */
  engine(): Promise<void>;
  /** Lists the place in the object store. */
  objectStore(config: Config): Promise<void>;
  /** It asks at the `url` of `--catalog`. */
  database(url: string, config: Config): Promise<FoundDatabase>;
}
