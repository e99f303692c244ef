/** What of the configuration is about HTTP; names and units are those of `config/settings.ts`. */
export interface HttpConfig {
  readonly host: string;
  readonly port: number;
  /** Empty, or segments that each begin with a slash. */
  readonly basePath: string;
  /** Addresses, or ranges such as `10.0.0.0/8`. */
  readonly trustedProxies: readonly string[] | undefined;
  readonly maxMergeBytes: number;
  readonly maxJsonBytes: number;
  readonly maxConnections: number;
  /** Above 0, at most 1. */
  readonly addressShare: number;
  readonly maxConcurrentWrites: number;
  /** Above 0, at most 1. */
  readonly principalShare: number;
  readonly tableShare: number;
  readonly uploadIdleTimeoutMs: number;
  readonly requestHeaderTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly defaultTimeoutMs: number;
  readonly maxTimeoutMs: number;
}
