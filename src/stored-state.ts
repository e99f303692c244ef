/** Composition of what outlives the process: the catalog and the credentials, in files of the data folder or in a shared database. */
import { randomUUID } from 'node:crypto';
import { ApiKeyFile } from './auth/tokens/api-key-file.ts';
import { IssuerKeyFile } from './auth/tokens/issuer-key-file.ts';
import { CatalogProbe } from './catalog/catalog-probe.ts';
import type { Credentials, IssuerKeyRecords } from './catalog/credentials.ts';
import type { Catalog } from './catalog/port.ts';
import { openPostgresSession, sharedCatalogOf } from './catalog/postgres/open-postgres-catalog.ts';
import { requireOwnCatalog, requireStorageRoot } from './catalog/require-own-catalog.ts';
import type { SqlSession } from './catalog/sql-catalog.ts';
import { SqlApiKeys, SqlIssuerKeys } from './catalog/sql-credentials.ts';
import { holdFolderOf, openSqliteCatalog } from './catalog/sqlite/open-sqlite-catalog.ts';
import { type DataFolder, makeDataFolder } from './config/data-folder.ts';
import type { Config } from './config/settings.ts';
import type { Clock } from './kernel/clock.ts';
import { NamesHere } from './ownership/names-here.ts';
import { ReplicaOwners } from './ownership/replica-owners.ts';
import type { WhileStorageAnswers } from './table/table-access.ts';
import { EmbeddedOwners, type TableOwners } from './table/table-owners.ts';
import type { Logger } from './telemetry/logger.ts';

interface ReplicaIdentity {
  readonly id: string;
  /** Replicas vouch for clients to one another by these. */
  readonly keys: IssuerKeyRecords;
}

/** What commands on this machine know of a running service. */
interface Announcement {
  readonly url: string;
  readonly acceptsOwnTokens: boolean;
  /** undefined where the default policies decide. */
  readonly policyFile: string | undefined;
}

export interface StoredState extends Credentials {
  readonly catalog: Catalog;
  /** They know which process writes to a table. */
  readonly owners: TableOwners;
  /** One of several replicas has it; undefined where this process has the catalog for itself. */
  readonly replica: ReplicaIdentity | undefined;
  /** Throws where the tables of the catalog are in another storage root than this service's. */
  requireStorageRoot(): Promise<void>;
  /** Throws where requests cannot be answered: what does not answer is the catalog, or the storage of the tables. */
  requireReady(): Promise<void>;
  readonly whileStorageAnswers: WhileStorageAnswers;
  /** Tells commands on this machine where the service listens. */
  announce(service: Announcement): void;
}

/** Fails where another process holds the data folder, or the catalog cannot be used; the message is for the operator. */
export function openState(config: Config, folder: DataFolder, clock: Clock, logger: Logger): Promise<StoredState> {
  const open = sessionOpener(config, clock);
  return open === undefined ? openEmbedded(folder, clock) : openShared(open, config, folder, clock, logger);
}

const holder = { command: 'lancegate serve' };

async function openEmbedded(folder: DataFolder, clock: Clock): Promise<StoredState> {
  await using opened = new AsyncDisposableStack();
  const catalog = await openSqliteCatalog(folder.catalogFile, { holder, clock });
  opened.defer(() => catalog.close());
  const { apiKeys, issuerKeys } = opened.use(filesOf(folder));
  const all = opened.move();
  return {
    catalog,
    owners: new EmbeddedOwners(),
    replica: undefined,
    apiKeys,
    issuerKeys,
    requireStorageRoot: () => requireOwnCatalog(catalog, { idFile: folder.catalogIdFile, newId: randomUUID }),
    requireReady: async () => {},
    whileStorageAnswers: (read) => read(),
    announce: catalog.announce,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** The folder has nothing that a restart needs; two replicas in one would take each other's files for left ones. */
async function openShared(
  open: OpenSession,
  config: Config,
  folder: DataFolder,
  clock: Clock,
  logger: Logger,
): Promise<StoredState> {
  await using opened = new AsyncDisposableStack();
  sayIfFolder(config, logger);
  const hold = holdFolderOf(folder.catalogFile, { holder, clock });
  opened.defer(() => hold.release());
  const session = await open();
  opened.defer(() => session.close());
  const names = new NamesHere(randomUUID());
  const catalog = sharedCatalogOf(session, names, randomUUID);
  const owners = new ReplicaOwners({ catalog, names, clock, logger, monotonicMs: () => performance.now() });
  const probe = new CatalogProbe(catalog, clock);
  const all = opened.move();
  return {
    catalog,
    owners,
    replica: { id: names.replica, keys: new SqlIssuerKeys(session, 'replicas') },
    ...credentialsIn(session, clock),
    requireStorageRoot: () => requireStorageRoot(catalog, rootOf(config, names.replica)),
    requireReady: async () => {
      owners.requireStorage();
      await probe.requireAnswer();
    },
    whileStorageAnswers: (read) => owners.whileStorageAnswers(read),
    announce: hold.announce,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

const rootOf = ({ storageRoot: root, storageRootMovedFrom: movedFrom }: Config, replica: string) => ({
  root,
  movedFrom,
  replica,
});

/** Replicas on one machine may share a folder. On several, a file system that breaks `link` loses rows without a word. */
function sayIfFolder({ storageRoot }: Config, logger: Logger): void {
  if (storageRoot.includes('://')) return;
  logger.warn(
    { storageRoot },
    'the tables are in a folder: replicas on other machines need an object store, and network file systems are not tested',
  );
}

/** Commands call it, also while the service runs. */
export async function openCredentials(config: Config, clock: Clock): Promise<Credentials> {
  const open = sessionOpener(config, clock);
  if (open === undefined) return filesOf(makeDataFolder(config.dataFolder));
  const session = await open();
  return { ...credentialsIn(session, clock), [Symbol.asyncDispose]: () => session.close() };
}

type OpenSession = () => Promise<SqlSession>;

/** undefined where the catalog is a file. */
const sessionOpener = ({ catalogUrl: url, catalogPasswordFile: passwordFile }: Config, clock: Clock) =>
  url === undefined
    ? undefined
    : () => openPostgresSession({ url, passwordFile }, { clock, limits: { maxConnections: 10 } });

const credentialsIn = (session: SqlSession, clock: Clock) => ({
  apiKeys: new SqlApiKeys(session, clock),
  issuerKeys: new SqlIssuerKeys(session, 'own'),
});

function filesOf({ apiKeysFile, issuerKeyFile }: DataFolder): Credentials {
  const apiKeys = new ApiKeyFile(apiKeysFile);
  return {
    apiKeys,
    issuerKeys: new IssuerKeyFile(issuerKeyFile),
    [Symbol.asyncDispose]: async () => apiKeys[Symbol.dispose](),
  };
}
