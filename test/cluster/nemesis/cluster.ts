/** Replicas of the service with what they share, each by a way of its own that can be broken. */
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '#test/fixtures/free-port.ts';
import { startPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { startS3Gateway, withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { mintToken } from '#test/fixtures/service-process.ts';
import { type StoreProxy, startStoreProxy } from '#test/fixtures/store-proxy.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Link } from './link.ts';
import { Namespace } from './namespace.ts';
import { main, Replica } from './replica.ts';

/** A replica and its ways; undefined where it has no such way. */
export interface Member {
  readonly replica: Replica;
  readonly toStore: StoreProxy | undefined;
  readonly toCatalog: Link | undefined;
  /** How the other replicas reach it. */
  readonly fromPeers: Link | undefined;
  /** Where packets on these ways can be lost. */
  readonly namespace: Namespace | undefined;
}

export interface Cluster {
  readonly members: readonly Member[];
  readonly authorization: string;
  /** Of the database of the catalog, where it is one. */
  restartCatalog?(): Promise<void>;
}

/** Why the tests of replicas are skipped, if they are. */
export const withoutReplicas: string | undefined = withoutS3Gateway ?? withoutPostgres;

type After = (clean: () => void | Promise<void>) => void;

/**
 * Replicas on one PostgreSQL and one object store. Each reaches them, and is reached by the others, by ways of its own; clients reach
 * each directly.
 */
export async function startReplicas(
  after: After,
  count: number,
  network: 'namespaces' | 'proxies alone' = 'proxies alone',
): Promise<Cluster> {
  const gateway = await startS3Gateway(after);
  const root = gateway.newRoot();
  const postgres = await startPostgres(after);
  const catalog = new URL(await postgres.newDatabase());
  const authorization = `Bearer ${await mintWith({ CATALOG: catalog.href })}`;
  const start = async (index: number): Promise<Member> => {
    const [port, data] = [await freePort(), join(temporaryFolder(after), 'data')];
    const namespace = network === 'proxies alone' ? undefined : Namespace.open(after, index);
    const toStore = await startStoreProxy(after, gateway.storageOptions, namespace?.hostOf('store'));
    const toCatalog = await Link.open(after, () => ({ port: postgres.port }), namespace?.hostOf('catalog'));
    const self = { port, ...(namespace && { host: namespace.replicaOf('peers') }) };
    const fromPeers = await Link.open(after, () => self, namespace?.hostOf('peers'));
    const ownWay = new URL(catalog);
    ownWay.host = `${toCatalog.host}:${toCatalog.port}`;
    ownWay.searchParams.set('sslmode', 'disable');
    const settings = {
      CATALOG: ownWay.href,
      STORAGE_ROOT: root,
      STORAGE_OPTIONS: JSON.stringify(toStore.storageOptions),
      HOST: namespace === undefined ? '127.0.0.1' : '0.0.0.0',
      ADVERTISE: `http://${fromPeers.host}:${fromPeers.port}`,
      OWN_ISSUER: 'true',
      DATA: data,
    };
    const replica = new Replica(`replica ${index + 1}`, port, settings, namespace);
    after(() => replica.kill());
    await replica.start();
    return { replica, toStore, toCatalog, fromPeers, namespace };
  };
  const members = await Promise.all(Array.from({ length: count }, (_, index) => start(index)));
  return {
    members,
    authorization,
    restartCatalog: async () => {
      await postgres.stop('immediate');
      await postgres.start();
    },
  };
}

/** A token with all rights, from the issuer whose key the catalog has. */
async function mintWith(settings: Readonly<Record<string, string>>): Promise<string> {
  const environment = Object.entries(settings).map(([name, value]) => [`LANCEGATE_${name}`, value]);
  const args = [main, 'token', '--subject', 'tester', '--scope', 'lancegate:admin'];
  const env = { PATH: process.env.PATH, ...Object.fromEntries(environment) };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  return stdout.trim().split('\n').at(-1) ?? '';
}

/** One process, with its catalog in a file, whose tables are in a folder or, behind a proxy, on the S3 gateway. */
export async function startOne(after: After, storage: 'folder' | 'store'): Promise<Cluster> {
  const data = join(temporaryFolder(after), 'data');
  mkdirSync(data, { mode: 0o700 });
  const authorization = `Bearer ${await mintToken(data)}`;
  const gateway = storage === 'store' ? await startS3Gateway(after) : undefined;
  const toStore = gateway === undefined ? undefined : await startStoreProxy(after, gateway.storageOptions);
  const onStore =
    gateway === undefined
      ? {}
      : { STORAGE_ROOT: gateway.newRoot(), STORAGE_OPTIONS: JSON.stringify(toStore?.storageOptions) };
  const replica = new Replica('the replica', await freePort(), { DATA: data, ...onStore });
  after(() => replica.kill());
  await replica.start();
  return {
    members: [{ replica, toStore, toCatalog: undefined, fromPeers: undefined, namespace: undefined }],
    authorization,
  };
}
