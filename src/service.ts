/**
 * The composition root: configuration in, running service out. The only file that knows every part.
 */
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import type { IpcLimits } from './arrow/stream/source-reader.ts';
import { Authenticator } from './auth/authenticator.ts';
import { CedarPolicy } from './auth/policy/cedar-policy.ts';
import { PolicyFile } from './auth/policy/policy-file.ts';
import { ReplicaTokens } from './auth/tokens/replica-tokens.ts';
import type { DatabaseCatalog } from './catalog/port.ts';
import type { Service, StartParts } from './cli/serve.ts';
import { makeDataFolder, makeEmptyFolder, makePrivateFolder, type PrivateFolder } from './config/data-folder.ts';
import { makeMemoryFolder, removeMemoryFolder } from './config/memory-folder.ts';
import { chunkBytesUnder, decodedBytesUnder, keyBytesUnder, mergeBytesUnder } from './config/memory-plan.ts';
import { type Config, settings } from './config/settings.ts';
import { Databases } from './endpoint/database.ts';
import { LanceEngine } from './engine/lance/adapter/lance-engine.ts';
import { openStore } from './engine/lance/store/open-store.ts';
import type { Builds, ReaderChanges } from './engine/port/reader-work.ts';
import { CertificateFiles, readCa } from './http/certificate-files.ts';
import { Forwarding } from './http/forwarding/forwarding.ts';
import { ReplicaHop } from './http/forwarding/replica-hop.ts';
import type { HttpConfig } from './http/http-deps.ts';
import { apiRoutes, operationsOf } from './http/routes/api.ts';
import { type HttpServer, startHttpServer } from './http/server.ts';
import { type Clock, dayMs, untilPassed } from './kernel/clock.ts';
import type { HistoryRules } from './kernel/history.ts';
import { KeyHasher } from './keys/key-hasher.ts';
import { BodyMemory } from './memory/body-memory.ts';
import { limitHeapGrowth, ResidentLimit, ServiceMemory } from './memory/resident-limit.ts';
import { keepForgetting } from './operations/forget-old-records.ts';
import { startOperations } from './operations/operations.ts';
import { Builders } from './query/builders.ts';
import { makeProcessFolder, removeProcessFolder } from './query/process-folder.ts';
import { ReaderPool, readerEnvironment } from './query/reader-pool.ts';
import { ReaderQueries } from './query/reader-queries.ts';
import { ResultSpools } from './query/relayed-result.ts';
import { Conversions } from './rows/bodies/conversions.ts';
import { openState, type StoredState } from './stored-state.ts';
import { type Audit, AuditInLog, logRequest } from './telemetry/audit.ts';
import { AuditFile } from './telemetry/audit-file.ts';
import { Metrics } from './telemetry/metrics.ts';
import { acceptedCredentials, verifiers } from './verifiers.ts';
import { filterReader } from './wire/merge-parameters.ts';

/** Bounds that no operator has a reason to change. Tests bring their own. */
export interface Bounds {
  /** How many bytes a create writes at a time; the memory plan says it where this does not. */
  readonly chunkBytes?: number;
  /** A table that is merged into repeatedly gets an index on its key from this many rows on. */
  readonly indexFromRows?: number;
  /** Writes with rows as a body that are under way at once, from their headers to their answers; beyond it the answer is 503 (P7). */
  readonly maxConcurrentWrites?: number;
  /** How long a client has for the headers of a request. */
  readonly requestHeaderTimeoutMs?: number;
}

/** What the parts of the service are made from. */
interface Start extends StartParts {
  readonly config: Config;
  readonly bounds: Bounds;
  readonly folder: PrivateFolder;
  readonly metrics: Metrics;
  readonly serviceMemory: ServiceMemory;
  /** What has been opened; closed in the reverse order. */
  readonly opened: AsyncDisposableStack;
}

/** Fails, with nothing left open, where a setting cannot work: a held data folder, a broken policy, a taken port. */
export async function startService(config: Config, parts: StartParts, bounds: Bounds = {}): Promise<Service> {
  await using opened = new AsyncDisposableStack();
  const folder = makeDataFolder(config.dataFolder);
  const metrics = new Metrics();
  metrics.nameBuild(parts.version);
  const start: Start = { ...parts, config, bounds, folder, metrics, serviceMemory: new ServiceMemory(), opened };
  const { logger, clock } = start;
  const { policy, reload } = await openPolicy(start);
  const state = opened.use(await openState(config, folder, clock, logger));
  const { catalog, owners, whileStorageAnswers, requireReady } = state;
  const tokens = replicaTokens(state, clock);
  const authenticator = new Authenticator(await verifiers(start, state, tokens));
  // Before the server, so that it is closed after the last request.
  const audit = await openAudit(start);
  const readers = openReaders(start);
  const queries = new ReaderQueries(readers, openSpools(start), clock, mergeBytesUnder(config));
  const engine = await openEngine(start, state, queries);
  const { deps, behind, history, ...operations } = await startOperations({
    ...{ catalog, engine, owners, whileStorageAnswers, queries, logger, metrics, audit, clock },
    newId: randomUUID,
    keyHasher: new KeyHasher(crypto.getRandomValues(new Uint32Array(8))),
    ...operationLimits(start),
  });
  opened.defer(operations.close);
  if (state.replica === undefined) await behind.lookAtAll(); // of replicas the owner of a table looks before it writes
  // Disposed before the operations: after the drain time, the service does not wait for merges that readers still run.
  opened.defer(() => readers.close());
  opened.defer(keepForgetting({ catalog, clock, logger, transactionsKeptMs: 30 * dayMs }));
  const certificate = await openCertificate(start);
  const server = await startHttpServer({
    version: parts.version,
    certificate,
    routes: apiRoutes(operationsOf(deps), parts.settings),
    requireReady,
    branchesBehind: () => behind.count,
    undoReachMs: () => (history?.isCut === true ? history.reachMs : undefined),
    authenticator,
    policy,
    databases: await openDatabases(start, catalog),
    readFilter: filterReader(config.sqlFunctions ?? []),
    memory: bodyMemory(start),
    ipcLimits: ipcLimits(start),
    conversions: opened.use(new Conversions()),
    config: httpConfig(start),
    ...{ logger, audit, metrics, clock },
    newId: randomUUID,
    forwarding: await openForwarding(start, state, tokens),
  });
  await join(state, config.advertise ?? server.url, engine);
  state.announce({ url: server.url, acceptsOwnTokens: config.ownIssuer, policyFile: config.policyFile });
  logger.info({ accepted: acceptedCredentials(config) }, 'the service accepts these credentials');
  const all = opened.move();
  return {
    url: server.url,
    reload: async () => {
      audit.reopen?.();
      await Promise.all([certificate?.reload(), reload()]);
    },
    close: async (drainMs) => {
      operations.endWaits();
      if (tokens !== undefined) await leave(state, server, clock);
      await server.close(drainMs);
      await all.disposeAsync();
    },
  };
}

async function openPolicy({
  config: { policyFile },
  logger,
  clock,
  opened,
}: Start): Promise<{ policy: CedarPolicy; reload: Service['reload'] }> {
  if (policyFile === undefined) {
    logger.info({}, 'the default policies are in force: scopes decide');
    const reload = async () => logger.info({}, 'the policies stay as they are: the service has no policy file');
    return { policy: CedarPolicy.load({ logger }), reload };
  }
  const file = await PolicyFile.open({ path: policyFile, clock, logger });
  opened.defer(() => file.close());
  return { policy: file.policy, reload: () => file.reload() };
}

const replicaTokens = ({ replica }: StoredState, clock: Clock): ReplicaTokens | undefined =>
  replica && new ReplicaTokens({ keys: replica.keys, replica: replica.id, clock, newId: randomUUID });

async function openAudit({ config, logger, clock, metrics, opened }: Start): Promise<Audit> {
  const { auditLog: path, logLevel } = config;
  if (path === 'log') {
    if (['warn', 'error'].includes(logLevel))
      logger.warn({ logLevel }, 'the log hides the audit records: they are of level info');
    return new AuditInLog(logger);
  }
  if (path === 'off') return { requestEnded: (record) => logRequest(logger, record) };
  const file = await AuditFile.open({ path, clock, logger, metrics });
  opened.defer(() => file.close());
  return file;
}

function openReaders({ config, folder, environment, logger, clock, metrics, serviceMemory }: Start): ReaderPool {
  const { storageRoot: root, storageOptions: rootOptions, readerMemoryBytes: memoryBytes } = config;
  return new ReaderPool({
    logger,
    clock,
    metrics,
    serviceMemory,
    environment: readerEnvironment(environment, { storageRoot: root, memoryBytes }),
    setup: {
      root,
      rootOptions,
      scratchFolder: folder.scratchFolder,
      // A search reads little but its index; a scan reads most of its data once.
      indexCacheBytes: Math.floor(memoryBytes / 4),
      metadataCacheBytes: 8 * 2 ** 20,
      memoryBytes,
      niceness: 5,
    },
    mostReaders: config.readers,
    maxWaiting: 512,
    waiters: 'queries',
    principalShare: config.principalShare,
    idleMs: 60_000,
  });
}

const openSpools = ({ config, folder }: Start): ResultSpools =>
  new ResultSpools({ folder: folder.scratchFolder, mostBytes: 2 ** 30, principalShare: config.principalShare });

async function openEngine(start: Start, state: StoredState, readerChanges: ReaderChanges): Promise<LanceEngine> {
  const { config, folder, opened } = start;
  sayIfClosed(start);
  nameFormerSettings(start);
  makeEmptyFolder(folder.scratchFolder);
  haveOwnTemporaryFolder(start);
  if (config.storageRoot === folder.tablesFolder) makePrivateFolder(folder.tablesFolder);
  const memoryFolder = makeMemoryFolder(folder.root);
  if (memoryFolder !== undefined) opened.defer(() => removeMemoryFolder(memoryFolder));
  const store = await openStore(config.storageRoot, config.storageOptions);
  const engine = new LanceEngine({
    root: config.storageRoot,
    rootOptions: config.storageOptions,
    store,
    scratchFolder: folder.scratchFolder,
    memoryFolder,
    readerChanges,
    builds: openBuilders(start),
    indexCacheBytes: 16 * 2 ** 20, // what reads an index runs in readers and builders
    metadataCacheBytes: 16 * 2 ** 20,
  });
  opened.defer(() => engine.close());
  await engine.requireStorage();
  await state.requireStorageRoot(); // after the storage has answered: the catalog remembers the first one
  return engine;
}

function sayIfClosed({ folder: { root, wasOpenAs }, logger }: Start): void {
  if (wasOpenAs === undefined) return;
  const fields = { folder: root, wasOpenAs };
  logger.warn(
    fields,
    'other users could access the data folder; the service has closed it. To read tables as another user, put them into a --storage-root outside of it',
  );
}

/** A setting that has gone stops no start before the next release. */
function nameFormerSettings({ settings: given, logger }: Start): void {
  for (const { flag: setting, group } of Object.values(settings))
    if (group === 'former' && given.some(({ flag, value }) => flag === setting && value !== null))
      logger.warn({ setting }, 'a setting is given that does nothing any more');
  const isGiven = given.some(({ flag, value }) => flag === settings.versionRetentionMs.flag && value !== null);
  if (!isGiven) return;
  const fields = { setting: settings.versionRetentionMs.flag, instead: settings.history.flag };
  logger.warn(
    fields,
    'a former setting is given: no mistake can be taken back for longer; the next release refuses it',
  );
}

/** As each reader has one, and before the engine makes its first session. */
function haveOwnTemporaryFolder({ folder, environment, useTemporaryFolder, opened }: Start): void {
  if (useTemporaryFolder === undefined) return;
  const path = makeProcessFolder(folder.scratchFolder, environment.TMPDIR ?? tmpdir());
  if (path === undefined) return;
  opened.defer(() => removeProcessFolder(path));
  useTemporaryFolder(path);
}

/** One index for each principal, two in all, and a compaction beside them: a queue gives one kind of work three quarters of its slots. */
const builderSlots = { mostReaders: 3, principalShare: 1 / 3 };
/** The engine has the rows of so many fragments in memory at once while it compacts (docs/measurements/maintenance.md). */
const fewAtOnce = { LANCE_DEFAULT_FRAGMENT_READAHEAD: '4' };

function openBuilders({ config, folder, environment, logger, clock, metrics, serviceMemory, opened }: Start): Builds {
  const { storageRoot: root, storageOptions: rootOptions, indexMemoryBytes: memoryBytes } = config;
  const pool = new ReaderPool({
    logger,
    clock,
    metrics: metrics.ofIndexBuilders,
    serviceMemory,
    environment: { ...fewAtOnce, ...readerEnvironment(environment, { storageRoot: root, memoryBytes }) },
    setup: {
      root,
      rootOptions,
      scratchFolder: folder.scratchFolder,
      indexCacheBytes: 16 * 2 ** 20,
      metadataCacheBytes: 8 * 2 ** 20,
      memoryBytes,
      niceness: 15,
    },
    ...builderSlots,
    maxWaiting: 64,
    waiters: 'builds',
    idleMs: 60_000,
  });
  opened.defer(() => pool.close());
  return new Builders(pool, memoryBytes);
}

const operationLimits = ({ config, bounds: { indexFromRows = 20_000 } }: Start) => ({
  maxWaitingPerTable: 512,
  maxOpenDatasets: 512,
  keyMemoryBytes: keyBytesUnder(config.memoryLimitBytes),
  idempotencyKeptMs: config.idempotencyKeptMs,
  managesVersions: config.managedVersioning,
  consumerRetentionMs: config.consumerRetentionMs,
  dropRetentionMs: config.dropRetentionMs,
  principalShare: config.principalShare,
  maintenanceLimits: {
    isAutomatic: config.autoMaintenance,
    retentionMs: historyOf(config)[0].forMs,
    indexFromRows,
  },
  history: { rules: historyOf(config), mostBytes: config.historyBytes },
});

/** The former setting says that nothing stays for longer, as it did. */
const historyOf = ({ versionRetentionMs: forMs, history }: Config): HistoryRules =>
  forMs === undefined ? history : [{ forMs, everyMs: 0 }];

async function openCertificate({ config, clock, logger, opened }: Start): Promise<CertificateFiles | undefined> {
  const { tlsCertificate: certificatePath, tlsKey: keyPath } = config;
  if (certificatePath === undefined || keyPath === undefined) return undefined;
  const files = await CertificateFiles.open({ certificatePath, keyPath, clock, logger });
  opened.defer(() => files.close());
  return files;
}

/** An operator learns at the upgrade which programs of `db://NAME` no longer reach the root. */
async function openDatabases({ config, logger }: Start, catalog: DatabaseCatalog): Promise<Databases> {
  const { databases: mode } = config;
  const names = mode === 'off' ? [] : await catalog.noteDatabases();
  if (names.length > 0) {
    logger.warn(
      { namespaces: names.slice(0, 100), count: names.length },
      'these namespaces are databases from now on: requests that name one in x-lancedb-database reach what is in it, and the root no more; --databases off keeps what was',
    );
  }
  return new Databases(mode, (name) => catalog.isDatabase(name));
}

function bodyMemory({ config, logger, clock, metrics, serviceMemory, opened }: Start): BodyMemory {
  const { memoryLimitBytes, bodyMemoryBytes } = config;
  opened.use(limitHeapGrowth());
  const resident = new ResidentLimit({
    limitBytes: memoryLimitBytes,
    memory: serviceMemory,
    clock,
    onChange: (isFull, residentBytes) => {
      const fields = { residentBytes, memoryLimitBytes };
      if (isFull) logger.warn(fields, 'resident memory is near its limit: writes are admitted one at a time');
      else logger.info(fields, 'resident memory is below its limit again: writes are admitted');
    },
  });
  // Enough for the chunks of one create, or a few large merges.
  const maxIdleBytes = Math.min(64 * 2 ** 20, bodyMemoryBytes / 8);
  const memory = new BodyMemory({ maxBytes: bodyMemoryBytes, maxIdleBytes, resident });
  metrics.watchBodyMemory(() => memory.heldBytes);
  metrics.watchMemoryLimit(() => memoryLimitBytes);
  metrics.watchMemoryFull(() => Number(resident.isFull));
  return memory;
}

const httpConfig = ({ config, bounds }: Start): HttpConfig => ({
  ...config,
  ...{ maxJsonBytes: 2 ** 20, addressShare: 0.5, tableShare: config.principalShare },
  ...{ maxConcurrentWrites: 1_024, requestHeaderTimeoutMs: 15_000, ...bounds },
});

const ipcLimits = ({ config, bounds: { chunkBytes = chunkBytesUnder(config) } }: Start): IpcLimits => ({
  chunkBytes,
  maxMessageBytes: decodedBytesUnder(config),
  // Schema and batch headers; a table of ten thousand columns stays far below.
  maxMetadataBytes: 16 * 2 ** 20,
  maxWholeBytes: config.maxMergeBytes,
  maxDecodedBytes: decodedBytesUnder(config),
});

async function openForwarding(
  { config, clock, logger, opened }: Start,
  { owners }: StoredState,
  tokens: ReplicaTokens | undefined,
): Promise<Forwarding | undefined> {
  if (tokens === undefined) return undefined;
  const hop = new ReplicaHop({
    sign: (principal, audience) => tokens.sign(principal, audience),
    clock,
    logger,
    ca: config.replicaCa === undefined ? undefined : await readCa(config.replicaCa),
  });
  opened.defer(() => hop.close());
  return new Forwarding({ owners, others: () => owners.others(), hop, clock });
}

/** The storage root may have been moved until this replica lives. */
async function join({ owners, requireStorageRoot }: StoredState, address: string, engine: LanceEngine): Promise<void> {
  await owners.join(address, () => engine.reachStorage());
  await requireStorageRoot();
}

/**
 * Other replicas take over, while this one still answers, and sends on what it does not own any more. It still takes connections at
 * first: the kernel breaks those off that it holds for a listener that is closed, and a balancer does not know that nothing was read.
 */
async function leave({ owners }: StoredState, server: HttpServer, clock: Clock): Promise<void> {
  server.leave();
  // How long balancers have to notice by `/readyz` that they should go to another replica: most ask once a second.
  await Promise.all([owners.leave(), untilPassed(clock, 1_500)]);
  server.stopListening();
  // How long requests on the last connections have to arrive.
  await untilPassed(clock, 250);
}
