import { readFileSync, writeFileSync } from 'node:fs';
import { codeOf } from '../kernel/errors.ts';
import { CatalogUnusable } from './port.ts';
import type { StorageRootCatalog } from './replica-port.ts';

/**
 * The catalog of a data folder names tables that are in it, or in the storage root that the service has with this folder. With that of
 * another folder each would be taken for a damaged one, or for an older one of the same name. So both have an id, in the place where
 * a shared catalog has its storage root: whoever moves the folder moves both. A folder without one takes that of its catalog.
 */
export async function requireOwnCatalog(
  catalog: Pick<StorageRootCatalog, 'agreeOnRoot'>,
  { idFile, newId }: { readonly idFile: string; readonly newId: () => string },
): Promise<void> {
  const known = readIfThere(idFile);
  const agreed = await catalog.agreeOnRoot(known ?? newId());
  if (known === undefined) writeFileSync(idFile, agreed, { mode: 0o600, flag: 'wx', flush: true });
  else if (known !== agreed)
    throw new CatalogUnusable(
      `The catalog is of another data folder: its tables are not those of this one. Put back the catalog that was here; or, where the files of its tables were moved here too, remove ${idFile}, and the next start takes this catalog.`,
    );
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim() || undefined;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
