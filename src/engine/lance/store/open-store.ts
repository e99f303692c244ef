import { codeOf, LancegateError } from '../../../kernel/errors.ts';
import type { Properties } from '../../../kernel/ids.ts';
import type { ObjectStore } from './object-store.ts';
import { StoreOptions } from './store-options.ts';
import { StoreUnusable } from './store-unusable.ts';

/** A part of a bucket. */
export interface StorePlace {
  readonly store: ObjectStore;
  /** All keys begin with it; it is empty or ends with a slash. */
  readonly prefix: string;
}

/**
 * undefined for a folder. The library of a vendor takes memory, so it is loaded where it is used.
 */
export async function openStore(uri: string, options: Properties): Promise<StorePlace | undefined> {
  const [, scheme = '', bucket = '', path = ''] = /^([a-z0-9+]+):\/\/([^/]+)\/?(.*)$/.exec(uri) ?? [];
  const store = await storeOf(scheme, bucket, options);
  return store && { store, prefix: path === '' ? '' : `${path.replace(/\/+$/, '')}/` };
}

async function storeOf(scheme: string, bucket: string, options: Properties): Promise<ObjectStore | undefined> {
  switch (scheme) {
    case 's3': {
      const { S3Store } = await import('./s3-store.ts');
      return new S3Store(bucket, new StoreOptions(options, /^aws_/));
    }
    case 'az':
    case 'abfss': {
      const { AzureStore, azureAccountIn, azureContainerIn } = await withClient(
        '@azure/storage-blob@12',
        () => import('./azure-store.ts'),
      );
      const { container, accountName } = azureContainerIn(bucket);
      const account = azureAccountIn(new StoreOptions(options, /^azure_(?:storage_)?/), Date.now(), accountName);
      return new AzureStore(container, account);
    }
    case 'gs': {
      const { gcsAccessIn } = await withClient('google-auth-library@11', () => import('./gcs-credentials.ts'));
      const { GcsStore } = await import('./gcs-store.ts');
      return new GcsStore(bucket, await gcsAccessIn(new StoreOptions(options, /^google_/)));
    }
    default:
      return undefined;
  }
}

/** The package brings no client of these stores, which most of its users do not have. `client` names one with its version. */
async function withClient<Module>(client: string, load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch (error) {
    const code = codeOf(error);
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw error;
    const text = `this store needs a package that is not installed: npm install ${client}, where lancegate is installed`;
    throw new StoreUnusable(text, error);
  }
}

/** What the vendor's library or the network said first. */
function faultOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? faultOf(error.cause) : error.message || error.name;
}

/** Throws what the store says; writes nothing, so that it is no outcome that is not known. */
export async function requireAnswer({ store, prefix }: StorePlace, uri: string): Promise<void> {
  try {
    for await (const _ of store.list({ prefix, most: 1 })) return;
  } catch (error) {
    throw new StoreUnusable(`${uri} cannot be used: ${faultOf(error)}`, error);
  }
}

const racers = 8;

/**
 * Throws `Unsupported` for a store that makes an object for more than one of several programs that ask at once: commits would be lost
 * there. `name` is a key that no table has. `uri` names the store in the error.
 */
export async function requireOneWinner({ store, prefix }: StorePlace, name: string, uri: string): Promise<void> {
  await requireAnswer({ store, prefix }, uri);
  const key = `${prefix}${name}`;
  const races = Array.from({ length: racers }, (_, racer) => store.putIfAbsent(key, Buffer.from(`${name} ${racer}`)));
  const outcomes = await Promise.allSettled(races);
  await store.delete([key]).catch(() => undefined); // it harms no one
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  const winners = outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value).length;
  if (winners === 1) return;
  throw new LancegateError(
    'Unsupported',
    `${uri} does not honour conditional writes: ${winners} of ${racers} programs made the same object`,
  );
}
