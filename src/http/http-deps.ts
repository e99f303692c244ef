import type { IpcLimits } from '../arrow/stream/source-reader.ts';
import type { Authenticator } from '../auth/authenticator.ts';
import type { Policy } from '../auth/policy/actions.ts';
import type { Databases } from '../endpoint/database.ts';
import type { Route } from '../endpoint/route.ts';
import type { Clock, NewId } from '../kernel/clock.ts';
import type { BodyMemory } from '../memory/body-memory.ts';
import type { Conversions } from '../rows/bodies/conversions.ts';
import type { Audit } from '../telemetry/audit.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { ReadFilter } from '../wire/merge-parameters.ts';
import type { CertificateFiles } from './certificate-files.ts';
import type { Forwarding } from './forwarding/forwarding.ts';

export interface HttpDeps {
  /** The package has this version. */
  readonly version: string;
  /** They lie below the base path. */
  readonly routes: readonly Route[];
  /** Throws what a request would be refused with that needs the catalog. */
  readonly requireReady: () => Promise<void>;
  /** Counts the branches to which nothing is written, since they went back. */
  readonly branchesBehind: () => number;
  /** undefined where undo reaches as far back as `--history` says. */
  readonly undoReachMs: () => number | undefined;
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly policy: Policy;
  readonly databases: Pick<Databases, 'of'>;
  readonly readFilter: ReadFilter;
  /** What all bodies may hold. */
  readonly memory: BodyMemory;
  readonly ipcLimits: IpcLimits;
  readonly conversions: Pick<Conversions, 'open'>;
  readonly config: HttpConfig;
  readonly logger: Logger;
  readonly audit: Audit;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly newId: NewId;
  /** undefined where the service speaks plain HTTP. */
  readonly certificate?: Pick<CertificateFiles, 'options' | 'onChange'> | undefined;
  /** undefined where this process owns all tables. */
  readonly forwarding?: Pick<Forwarding, 'elsewhere' | 'forward' | 'askOthers'> | undefined;
}

/** What of the configuration is about HTTP; names and units are those of `config/settings.ts`. */
export interface HttpConfig {
  readonly host: string;
  readonly port: number;
  /** It is empty, or has segments that each begin with a slash. */
  readonly basePath: string;
  /** They are addresses, or ranges such as `10.0.0.0/8`. */
  readonly trustedProxies: readonly string[] | undefined;
  readonly maxMergeBytes: number;
  readonly maxJsonBytes: number;
  readonly maxConnections: number;
  /** Shares are above 0, and at most 1. */
  readonly addressShare: number;
  readonly maxConcurrentWrites: number;
  readonly principalShare: number;
  readonly tableShare: number;
  readonly uploadIdleTimeoutMs: number;
  readonly requestHeaderTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** Fields and query parameters that clients may send although no route knows them. */
  readonly acceptFields: readonly string[] | undefined;
  readonly defaultTimeoutMs: number;
  readonly maxTimeoutMs: number;
}
