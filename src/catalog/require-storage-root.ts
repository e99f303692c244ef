import { CatalogUnusable } from './port.ts';
import type { StorageRootCatalog } from './replica-port.ts';

interface RootOfReplica {
  /** An absolute path, or a URI, without a slash at its end. */
  readonly root: string;
  /** Where the operator says that all files came from. */
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
