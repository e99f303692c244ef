import { hash } from 'node:crypto';
import type { CredentialHeaders } from '#src/auth/authenticator.ts';
import { UnauthenticatedError } from '#src/auth/challenge.ts';
import type { AccessRequest } from '#src/auth/policy/actions.ts';
import type { Verifier } from '#src/auth/tokens/verifier.ts';
import { Database } from '#src/endpoint/database.ts';
import type { HttpConfig, HttpDeps } from '#src/http/http-deps.ts';
import { apiRoutes, type Operations } from '#src/http/routes/api.ts';
import { startHttpServer } from '#src/http/server.ts';
import { type Clock, systemClock } from '#src/kernel/clock.ts';
import { BodyMemory, type BodyMemoryLimits } from '#src/memory/body-memory.ts';
import { Conversions } from '#src/rows/bodies/conversions.ts';
import { AuditInLog } from '#src/telemetry/audit.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { type ConnectionEnd, Metrics } from '#src/telemetry/metrics.ts';
import { filterReader } from '#src/wire/merge-parameters.ts';
import { type Asked, scriptedOperations } from './scripted-operations.ts';

export const token = 'good-token';

const config: HttpConfig = {
  host: '127.0.0.1',
  port: 0,
  basePath: '',
  trustedProxies: undefined,
  maxMergeBytes: 1 << 20,
  maxJsonBytes: 4096,
  maxConnections: 1000,
  addressShare: 1,
  maxConcurrentWrites: 2,
  principalShare: 1,
  tableShare: 1,
  uploadIdleTimeoutMs: 30_000,
  requestHeaderTimeoutMs: 15_000,
  keepAliveTimeoutMs: 72_000,
  acceptFields: undefined,
  defaultTimeoutMs: 60_000,
  maxTimeoutMs: 600_000,
};

export interface TestService extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly asked: readonly Asked[];
  /** How often a credential was verified. */
  verified(): number;
  /** Every question the policy was asked. */
  readonly decisions: readonly Omit<AccessRequest, 'principal'>[];
  readonly log: readonly Record<string, unknown>[];
  /** Of all bodies, as the metrics say. */
  receivedBytes(): number;
  /** Open ones, as the metrics say, without a connection that asks. */
  connections(): number;
  /** Why the service closed connections, each time that the metrics say so. */
  readonly closed: readonly ConnectionEnd[];
  leave(): void;
  stopListening(): void;
  close(drainMs: number): Promise<void>;
}

export interface TestOptions {
  readonly script?: Partial<Operations>;
  readonly config?: Partial<HttpConfig>;
  readonly allows?: (request: AccessRequest) => boolean;
  readonly clock?: Clock;
  readonly bodyMemoryBytes?: number;
  readonly resident?: BodyMemoryLimits['resident'];
  /** Asked before the one token that is good. */
  readonly replicaTokens?: Verifier;
  readonly forwarding?: HttpDeps['forwarding'];
  readonly certificate?: HttpDeps['certificate'];
  readonly settings?: Parameters<typeof apiRoutes>[1];
}

class CountingMetrics extends Metrics {
  received = 0;
  readonly closed: ConnectionEnd[] = [];
  connections: () => number = () => 0;

  constructor() {
    super();
    const { bytesReceived, watchConnections, connectionEnded } = this;
    const counting: Pick<Metrics, 'bytesReceived' | 'watchConnections' | 'connectionEnded'> = {
      connectionEnded: (reason) => {
        this.closed.push(reason);
        connectionEnded(reason);
      },
      bytesReceived: (bytes = 0) => {
        this.received += bytes;
        bytesReceived(bytes);
      },
      watchConnections: (read) => {
        this.connections = read;
        watchConnections(read);
      },
    };
    Object.assign(this, counting);
  }
}

/** The real server on a real socket, over operations that are played from a script. */
export async function startTestService(options: TestOptions = {}): Promise<TestService> {
  const { operations, asked } = scriptedOperations(options.script);
  const decisions: Omit<AccessRequest, 'principal'>[] = [];
  let verified = 0;
  const log: Record<string, unknown>[] = [];
  const clock = options.clock ?? systemClock;
  const ids = Array.from({ length: 100 }, (_, index) => `id-${index + 1}`);
  const metrics = new CountingMetrics();
  const logger = createLogger({
    level: 'debug',
    format: 'json',
    destination: { write: (line) => log.push(JSON.parse(line) as Record<string, unknown>) },
  });
  const server = await startHttpServer({
    ...{ version: 'test', routes: apiRoutes(operations, options.settings ?? []), conversions: new Conversions() },
    requireReady: async () => {},
    databases: { of: async () => Database.all },
    ...{ branchesBehind: () => 0, undoReachMs: () => undefined },
    readFilter: filterReader([]),
    authenticator: {
      authenticate: async (headers) => {
        verified += 1;
        return (await vouchedFor(headers, options.replicaTokens)) ?? authenticate(headers);
      },
    },
    policy: {
      allows: (request) => {
        const { principal: _, ...question } = request;
        decisions.push(question);
        return options.allows?.(request) ?? true;
      },
      scopeFor: () => undefined,
    },
    ipcLimits,
    memory: bodyMemory(options),
    config: { ...config, ...options.config },
    logger,
    audit: new AuditInLog(logger),
    metrics,
    clock,
    newId: () => ids.shift()!,
    forwarding: options.forwarding,
    certificate: options.certificate,
  });
  return {
    url: server.url,
    port: Number(new URL(server.url).port),
    asked,
    verified: () => verified,
    decisions,
    log,
    receivedBytes: () => metrics.received,
    connections: () => metrics.connections(),
    closed: metrics.closed,
    leave: () => server.leave(),
    stopListening: () => server.stopListening(),
    close: (drainMs) => server.close(drainMs),
    [Symbol.asyncDispose]: () => server.close(0),
  };
}

const bodyMemory = ({ bodyMemoryBytes = 2 ** 30, resident }: TestOptions): BodyMemory =>
  new BodyMemory({ maxBytes: bodyMemoryBytes, maxIdleBytes: 0, ...(resident === undefined ? {} : { resident }) });

async function vouchedFor({ authorization = '' }: CredentialHeaders, tokens: Verifier | undefined) {
  const secret = authorization.replace('Bearer ', '');
  return tokens?.verify({ kind: 'bearer', secret, digest: hash('sha256', secret, 'base64') });
}

function authenticate(headers: CredentialHeaders) {
  if (headers.authorization !== `Bearer ${token}` && headers['x-api-key'] !== token) {
    throw new UnauthenticatedError('no_credentials', 'The request carries no credential.');
  }
  return { subject: 'ann', scopes: [], groups: [], issuer: 'test' };
}

const ipcLimits = {
  chunkBytes: 1 << 20,
  maxMessageBytes: 1 << 20,
  maxMetadataBytes: 1 << 20,
  maxWholeBytes: 1 << 20,
  maxDecodedBytes: 1 << 22,
};
