/** What lies where in the data folder. Nothing else knows these names. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

export interface DataFolder {
  readonly root: string;
  readonly issuerKeyFile: string;
  readonly apiKeysFile: string;
  readonly catalogFile: string;
  /** JSON with the `url` of the service that holds the catalog, while one does. */
  readonly holderFile: string;
  /** The storage root, unless the configuration names another. */
  readonly tablesFolder: string;
  /** Files that no restart needs. */
  readonly scratchFolder: string;
}

export const dataFolderAt = (root: string): DataFolder => ({
  root,
  issuerKeyFile: join(root, 'issuer-key.json'),
  apiKeysFile: join(root, 'api-keys.sqlite'),
  catalogFile: join(root, 'catalog.sqlite'),
  holderFile: join(root, 'lancegate.holder.json'),
  tablesFolder: join(root, 'tables'),
  scratchFolder: join(root, 'scratch'),
});

/**
 * Makes the folder if it is missing, for its owner only: it holds the key that signs tokens. A folder that is there
 * already keeps the rights its operator gave it. Throws the `node:fs` error if it cannot be made.
 */
export function makeDataFolder(root: string): DataFolder {
  mkdirSync(root, { recursive: true, mode: 0o700 });
  return dataFolderAt(root);
}
