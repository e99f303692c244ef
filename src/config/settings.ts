/**
 * Every setting of the service stands here once. Flags, environment variables, `lancegate config`, `--help` and
 * docs/configuration.md all come from this table; so does the type of the configuration.
 */
import { dayMs } from '../kernel/clock.ts';
import { authenticationOptions } from './authentication-options.ts';
import { type Option, type OptionTable, type OptionValues, optional, withDefault } from './options.ts';
import {
  addressRange,
  basePath,
  boolean,
  bytes,
  databaseUrl,
  durationMs,
  fieldName,
  functionName,
  GiB,
  historyRules,
  httpUrl,
  integer,
  KiB,
  listOf,
  longestTimerMs,
  MiB,
  oneOf,
  path,
  percent,
  recordsTarget,
  secretMap,
  storageRoot,
  TiB,
  text,
} from './value-types.ts';

/** What a service needs that has `leastBodyMemoryBytes` for bodies; see memory-plan.ts. */
export const leastMemoryLimitBytes = 640 * MiB;
/** Half of it has room for what a body is promised before it comes, which is up to 16 MiB. */
const leastBodyMemoryBytes = 64 * MiB;
/** The engine takes a source as one Node buffer, which cannot be longer. */
const largestBufferBytes = 2 * GiB;

/** An idle reader takes up to 130 MB. */
export const leastReaderMemoryBytes = 192 * MiB;

export const groups = {
  service: 'Service',
  storage: 'Storage',
  authentication: 'Authentication',
  limits: 'Limits',
  maintenance: 'Maintenance',
  times: 'Times',
  logs: 'Logs',
  former: 'Settings that do nothing any more',
} as const;
export type Group = keyof typeof groups;
export type Setting = Option<unknown> & { readonly group: Group };

type Grouped<Table> = { readonly [Name in keyof Table]: Table[Name] & { readonly group: Group } };

const inGroup = <Table extends OptionTable>(group: Group, table: Table): Grouped<Table> =>
  Object.fromEntries(Object.entries(table).map(([name, option]) => [name, { ...option, group }])) as Grouped<Table>;

const gone = (flag: string) => optional(text, { flag, doc: 'Does nothing. The next release refuses it.' });

export const settings = {
  ...inGroup('service', {
    dataFolder: withDefault(path, {
      flag: 'data',
      default: './lancegate-data',
      doc: 'Folder of the catalog, the issuer key and the API keys, unless `--catalog` says otherwise, and of the tables, unless `--storage-root` does. Made if missing. One process owns it.',
    }),
    host: withDefault(text, { flag: 'host', default: '127.0.0.1', doc: 'Address to listen on.' }),
    port: withDefault(integer(0, 65_535), {
      flag: 'port',
      default: '2333',
      doc: 'Port to listen on; 0 picks a free one.',
    }),
    tlsCertificate: optional(path, {
      flag: 'tls-certificate',
      doc: 'File (PEM) with the certificate of the service and those between it and its CA: the service then speaks TLS, 1.2 or newer, and nothing else. Needs `--tls-key`. The service reads both again each minute and on SIGHUP.',
    }),
    tlsKey: optional(path, {
      flag: 'tls-key',
      doc: 'File (PEM, without a passphrase) with the key of that certificate. Only the user of the service may be able to read it.',
    }),
    basePath: withDefault(basePath, {
      flag: 'base-path',
      default: '/',
      doc: 'What stands before `/v1` in every path, such as `/lance` behind a proxy.',
    }),
    trustedProxies: optional(listOf(addressRange), {
      flag: 'trusted-proxies',
      doc: "Proxies that the service trusts to report the client's address. The client is then the rightmost address in `X-Forwarded-For` that is not one of these, or in `Forwarded` if there is no `X-Forwarded-For`. Each proxy must append its caller's address to that header or replace the header, and a proxy that writes `Forwarded` must remove `X-Forwarded-For`; otherwise clients can forge their address. Without this setting, the client is the other end of the connection.",
    }),
  }),
  ...inGroup('storage', {
    catalogUrl: optional(databaseUrl, {
      flag: 'catalog',
      doc: 'PostgreSQL database of the catalog, the API keys and the issuer key, for replicas that share them, such as `postgres://lancegate@db.example/lancegate`. No other program uses it. To other machines the connection is encrypted and the server must prove who it is, unless the URL has another `sslmode`; `sslrootcert` names the file of its CA. A password is refused in the flag, which other users of the machine can see: it belongs into the variable, `--catalog-password-file`, `PGPASSWORD` or `PGPASSFILE`. Without this setting, they are in files of `--data`.',
    }),
    catalogPasswordFile: optional(path, {
      flag: 'catalog-password-file',
      doc: 'File with the password of that database, where its URL has none. The service reads it for every new connection.',
    }),
    advertise: optional(httpUrl, {
      flag: 'advertise',
      doc: 'URL at which the other replicas reach this one, without the base path. Without this setting, the address that it listens on.',
    }),
    replicaCa: optional(path, {
      flag: 'replica-ca',
      doc: 'File (PEM) with the CA that vouches for the other replicas, where they advertise `https`. Read at the start. Without this setting, the CAs that Node trusts, which `NODE_EXTRA_CA_CERTS` adds to.',
    }),
    storageRoot: withDefault(storageRoot, {
      flag: 'storage-root',
      default: '<data>/tables',
      doc: 'Where the tables are: a folder, or a location in an object store such as `s3://bucket/prefix`. An object store must honour conditional writes, and a start refuses one that does not. Stores that speak S3 are tested with a gateway, those of Google (`gs`) and Azure (`az`, `abfss`) with emulators.',
    }),
    storageRootMovedFrom: optional(storageRoot, {
      flag: 'storage-root-moved-from',
      doc: 'The storage root that the catalog of replicas remembers, where all files were moved from there: the start makes it remember the new one, while no other replica lives. Later it has no effect.',
    }),
    storageOptions: withDefault(secretMap, {
      flag: 'storage-options',
      default: '{}',
      doc: 'Options of the object store, credentials included, such as `{"aws_region":"eu-west-1"}`. Never shown to clients. What may be a secret is refused in the flag, which other users of the machine can see: it belongs into the variable, or a file that the variable with `_FILE` names.',
    }),
    databases: withDefault(oneOf(['off', 'auto', 'required']), {
      flag: 'databases',
      default: 'auto',
      doc: 'What the header `x-lancedb-database` does, which every client of `db://NAME` sends. With `auto`, a namespace of the root of this name is the database of the request: its names are below it. One that was dropped is 404, and any other name is the root. With `required`, any other name is 404, and the tables of the root itself are out of reach. With `off`, the header does nothing.',
    }),
    managedVersioning: withDefault(boolean, {
      flag: 'managed-versioning',
      default: 'false',
      doc: 'Descriptions of tables ask programs of Lance that write to the storage root themselves (pylance, Spark, `connectNamespace`) to commit through this service (`managed_versioning`): then each commit needs a right, takes its turn and is durable. Such programs cannot create branches then; this service can.',
    }),
  }),
  ...inGroup('authentication', authenticationOptions),
  ...inGroup('limits', {
    maxMergeBytes: withDefault(bytes(KiB, largestBufferBytes), {
      flag: 'max-merge-size',
      default: '256MiB',
      doc: 'Largest body of one merge; it is held in memory as a whole.',
    }),
    sqlFunctions: optional(listOf(functionName), {
      flag: 'sql-functions',
      doc: 'Functions of the engine that filters may call in addition to those in docs/sql.md. Every client that may count rows can then call them, whatever time and memory they take.',
    }),
    acceptFields: optional(listOf(fieldName), {
      flag: 'accept-fields',
      doc: 'Names of fields and query parameters that the service does not know and passes over, so that a newer client works today. A name that is misspelt, or that would change what is written or read, is then ignored too; answers name them in `x-lancegate-ignored`.',
    }),
    memoryLimitBytes: withDefault(bytes(leastMemoryLimitBytes, 64 * TiB), {
      flag: 'memory-limit',
      default: '5GiB',
      doc: "Resident memory that the service's own process stays under; writes that would go beyond it get 503. Reader processes come on top: together they take this plus `--readers` times `--reader-memory`. If it is not set and that sum exceeds three quarters of the memory of the container or machine, it is what the readers leave of those. The default sizes of bodies shrink with it.",
    }),
    bodyMemoryBytes: withDefault(bytes(leastBodyMemoryBytes, 64 * TiB), {
      flag: 'body-memory',
      default: '1GiB',
      doc: 'Memory that all bodies together may hold, decompressed and until their answers; beyond it the answer is 503. The engine takes up to four times as much of what it works on, which has to fit under the memory limit: where this is not set, it is made to.',
    }),
    maxConnections: withDefault(integer(1, 1_000_000), {
      flag: 'max-connections',
      default: '4096',
      doc: 'Connections at the same time. Beyond it, the service closes the one that has waited longest for a request and accepts the new one; if none waits, it closes the new one. One address, or one IPv6 network of 64 bits, can have half of them; of each address that trusted proxies report, as many requests can be under way. Each is an open file, and the tables need some too: if this is not set and the process may open few (`ulimit -n`), it is less.',
    }),
    principalShare: withDefault(percent, {
      flag: 'principal-share',
      default: '50%',
      doc: 'Share of `--body-memory`, and of the 1024 writes with rows as a body that may be under way at once, that one principal or one table can have. Of the readers, of the queries that wait for one, and of the connections for its requests with a body, a principal has as much.',
    }),
    readers: withDefault(integer(1, 256), {
      flag: 'readers',
      default: '4',
      doc: "The most processes that run clients' SQL, one order at a time in each; 1 counts as 2. Neither queries nor writes get more than three quarters of them, and a principal gets its `--principal-share` for each, at least one.",
    }),
    readerMemoryBytes: withDefault(bytes(leastReaderMemoryBytes, TiB), {
      flag: 'reader-memory',
      default: '512MiB',
      doc: 'Resident memory of one reader process. The service kills one that needs more, and its query gets 503. A merge with a filter may take more: four times its body, and what a principal can have of `--memory-limit`, against which it counts. If it is not set and the container or machine is small, it is less.',
    }),
  }),
  ...inGroup('maintenance', {
    autoMaintenance: withDefault(boolean, {
      flag: 'auto-maintenance',
      default: 'true',
      doc: 'Compact, index and prune tables automatically. Without it only `lancegate maintain` does, and every commit makes the next one slower.',
    }),
    history: withDefault(historyRules, {
      flag: 'history',
      default: '1m:all,1d:1h,7d:1d',
      doc: 'Which versions stay once a newer one superseded them: by default all for a minute, then the last of each hour for a day, then the last of each day for a week (UTC). Until the last of these times the version before each delete, overwrite, drop of columns, restore and merge that deletes by source stays, too, and the one it made. `1m:all` alone keeps nothing for longer. Tagged versions, and those that branches start from, stay anyway. What is kept costs disk and not time.',
    }),
    historyBytes: optional(bytes(0, 1_024 * TiB), {
      flag: 'history-bytes',
      doc: 'The most that versions may take, over all tables, which stay longer than the first time of `--history` says. At the bound the oldest go before their time; `/healthz`, the metric `lancegate_undo_reach_seconds` and the log say how far back undo reaches then. If it is not set, a fifth of the disk of the tables, and no bound on an object store. On a nearly full disk the oldest go, too.',
    }),
    versionRetentionMs: optional(durationMs(1_000, 3_650 * dayMs), {
      flag: 'version-retention',
      doc: 'The former name of the first time of `--history`, and the only one: versions stay for this long, and none stays for longer. It wins over `--history`. The next release refuses it.',
    }),
    dropRetentionMs: withDefault(durationMs(0, 3_650 * dayMs), {
      flag: 'drop-retention',
      default: '7d',
      doc: 'How long a table that was dropped, or replaced by a create with `mode=overwrite`, stays in the trash, from which `undrop` brings it back. Its files take their space until then, or until it is purged; on a disk that is nearly full the oldest are purged earlier. With 0s files go at once.',
    }),
    consumerRetentionMs: withDefault(durationMs(1_000, 3_650 * dayMs), {
      flag: 'consumer-retention',
      default: '24h',
      doc: 'How long a consumer of changes keeps the versions after the one that it acknowledged last. Then it has to read the table anew. On a nearly full disk it keeps that one version only.',
    }),
    indexMemoryBytes: withDefault(bytes(leastReaderMemoryBytes, TiB), {
      flag: 'index-memory',
      default: '1GiB',
      doc: 'Resident memory of a process that builds an index, of which there are two at most, or that compacts a table, of which there is one. The service kills one that needs more, and the build or the compaction fails; the table stays as it was. It comes on top of the service and its readers while such a process works. If it is not set and the container or machine is small, it is less.',
    }),
  }),
  ...inGroup('times', {
    uploadIdleTimeoutMs: withDefault(durationMs(100, longestTimerMs), {
      flag: 'upload-idle-timeout',
      default: '30s',
      doc: 'The service gives up a body from which nothing arrives for this long, and an answer that its client has not read within this and a second for each kilobyte.',
    }),
    keepAliveTimeoutMs: withDefault(durationMs(100, longestTimerMs), {
      flag: 'keep-alive-timeout',
      default: '72s',
      doc: 'An idle connection is closed after this; keep it above the idle time of a proxy in front.',
    }),
    defaultTimeoutMs: withDefault(durationMs(1, longestTimerMs), {
      flag: 'default-timeout',
      default: '5m',
      doc: 'Time an operation has if its request names none. Waiting for its body is not counted, up to `--max-timeout` in all.',
    }),
    maxTimeoutMs: withDefault(durationMs(1, longestTimerMs), {
      flag: 'max-timeout',
      default: '1h',
      doc: 'Longest time a request can ask for.',
    }),
    idempotencyKeptMs: withDefault(durationMs(1_000, 365 * dayMs), {
      flag: 'idempotency-retention',
      default: '24h',
      doc: 'A request sent again with its `Idempotency-Key` within this time is not applied again and gets the first answer.',
    }),
    drainTimeoutMs: withDefault(durationMs(0, longestTimerMs), {
      flag: 'drain-timeout',
      default: '30s',
      doc: 'After SIGTERM, requests under way have this long to finish.',
    }),
  }),
  ...inGroup('logs', {
    logLevel: withDefault(oneOf(['debug', 'info', 'warn', 'error']), {
      flag: 'log-level',
      default: 'info',
      doc: 'Least important level that is written.',
    }),
    logFormat: withDefault(oneOf(['auto', 'json', 'text']), {
      flag: 'log-format',
      default: 'auto',
      doc: 'Form of the log on stderr; `auto` is text on a terminal and JSON elsewhere.',
    }),
    auditLog: withDefault(recordsTarget, {
      flag: 'audit-log',
      default: 'log',
      doc: "Where the audit record of each request goes (docs/audit.md): `log` puts it into the request's line in the log, which needs `--log-level` info or debug; a path, such as `/var/log/lancegate/audit.jsonl`, appends it to that file, and creates a new file after the old one was moved; `off` writes none.",
    }),
  }),
  ...inGroup('former', {
    addressShare: gone('address-share'),
    catalogConnections: gone('catalog-connections'),
    chunkSize: gone('chunk-size'),
    engineIndexCache: gone('engine-index-cache'),
    engineMetadataCache: gone('engine-metadata-cache'),
    indexFromRows: gone('index-from-rows'),
    introspectionCache: gone('introspection-cache'),
    maintenanceWait: gone('maintenance-wait'),
    maxConcurrentWrites: gone('max-concurrent-writes'),
    maxJsonSize: gone('max-json-size'),
    maxQueuedMerges: gone('max-queued-merges'),
    requestHeaderTimeout: gone('request-header-timeout'),
    tableShare: gone('table-share'),
    transactionRetention: gone('transaction-retention'),
  }),
} as const satisfies Readonly<Record<string, Setting>>;

/** They are validated and frozen. Sizes are in bytes, times in milliseconds, paths absolute. */
export type Config = OptionValues<typeof settings>;
export type SettingName = keyof typeof settings;
