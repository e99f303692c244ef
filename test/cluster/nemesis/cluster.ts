/** Replicas of the service with what they share, each by a way of its own that can be broken. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '#test/fixtures/free-port.ts';
import { startS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { mintToken } from '#test/fixtures/service-process.ts';
import { type StoreProxy, startStoreProxy } from '#test/fixtures/store-proxy.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import type { Link } from './link.ts';
import { Replica } from './replica.ts';

/** A replica and its ways; undefined where it has no such way. */
export interface Member {
  readonly replica: Replica;
  readonly toStore: StoreProxy | undefined;
  readonly toCatalog: Link | undefined;
  /** How the other replicas reach it. */
  readonly fromPeers: Link | undefined;
}

export interface Cluster {
  readonly members: readonly Member[];
  readonly authorization: string;
  /** Of the database of the catalog, where it is one. */
  restartCatalog?(): Promise<void>;
}

type After = (clean: () => void | Promise<void>) => void;

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
  return { members: [{ replica, toStore, toCatalog: undefined, fromPeers: undefined }], authorization };
}
