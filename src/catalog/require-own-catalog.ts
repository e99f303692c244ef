import { readFileSync, writeFileSync } from 'node:fs';
import { codeOf } from '../kernel/errors.ts';
import { CatalogUnusable } from './open-errors.ts';
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

interface RootOfReplica {
  /** It is an absolute path, or a URI, without a slash at its end. */
  readonly root: string;
  /** The operator says that all files came from there. */
  readonly movedFrom: string | undefined;
  readonly replica: string;
}

/**
 * The catalog names tables by locations below the storage root, so a replica with another root would take all tables for damaged
 * and make new ones elsewhere. Throws `CatalogUnusable` for such a replica. The first replica decides; a move of all files is taken
 * while no other replica lives.
 */
export async function requireStorageRoot(
  catalog: StorageRootCatalog,
  { root, movedFrom, replica }: RootOfReplica,
): Promise<void> {
  const agreed = await catalog.agreeOnRoot(root);
  if (agreed === root) return;
  if (agreed !== movedFrom)
    throw new CatalogUnusable(
      `The tables of the catalog are in ${agreed}, and this replica was started for ${root}: all replicas of a catalog have one storage root. Start it with --storage-root ${agreed}; or, where all files were moved to ${root}, stop every replica and start one with --storage-root-moved-from ${agreed}.`,
    );
  const others = await catalog.moveRoot({ from: agreed, to: root, replica });
  if (others.length > 0) {
    const addresses = others.map(({ address }) => address).join(', ');
    throw new CatalogUnusable(
      `The storage root of the catalog stays ${agreed}, and is not ${root} yet: replicas still run, at ${addresses}. Stop all of them, and start again some seconds later.`,
    );
  }
  await requireStorageRoot(catalog, { root, movedFrom: undefined, replica });
}
