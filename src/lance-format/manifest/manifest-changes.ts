import { index, indexSection, mapUpdate, restore, transaction, updateConfig } from '../messages.ts';
import { decode, edit, editEach, encode } from '../protobuf.ts';
import { entriesOf, type NewVersion, type VersionIdentity, versionAfter } from './next-manifest.ts';
import { identifierOf, manifestFileOf, sectionsOf } from './parse-manifest.ts';
import { requireReplaceable } from './replaceable.ts';

/**
 * Makes the version after `head` that has all of it and nothing else: it takes the number that another writer may be about to use. It is
 * recorded as a return to `head`, which no commit that began before may follow. Its transaction has the properties. Throws
 * `NotReplaceable` for a table that this package writes no version of.
 */
export function fenceVersion(
  head: Buffer,
  properties: Readonly<Record<string, string>>,
  identity: VersionIdentity,
): NewVersion {
  const { message, indexes } = sectionsOf(head);
  const { version: readVersion } = requireReplaceable(message, indexes);
  const recorded = encode(transaction, {
    readVersion,
    uuid: identity.transactionId,
    properties: entriesOf(properties),
    restore: encode(restore, { version: readVersion }),
  });
  return versionAfter({ message, readVersion, like: head }, {}, { indexes, transaction: recorded }, identity);
}

/**
 * Makes the version after `head` with all that an older version of the same branch has: rows, columns, indexes and settings, as the
 * engine restores it. No fragment, and no row, gets an id that a later version has used. The caller makes sure that the files of the older
 * version are there. Throws `NotReplaceable` for a table that this package writes no version of, now or then.
 */
export function restoredVersion(head: Buffer, older: Buffer, identity: VersionIdentity): NewVersion {
  const now = sectionsOf(head);
  const then = sectionsOf(older);
  const { version: readVersion, maxFragmentId, nextRowId } = requireReplaceable(now.message, now.indexes);
  const restored = requireReplaceable(then.message, then.indexes);
  const recorded = encode(transaction, {
    readVersion,
    uuid: identity.transactionId,
    restore: encode(restore, { version: restored.version }),
  });
  return versionAfter(
    { message: then.message, readVersion, like: older },
    {
      maxFragmentId: largest(maxFragmentId, restored.maxFragmentId),
      nextRowId: largest(nextRowId, restored.nextRowId),
    },
    { indexes: then.indexes, transaction: recorded },
    identity,
  );
}

/** A dataset that never had a fragment has no largest id. */
const largest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.max(a, b);

/**
 * Makes the version after `head` with this metadata of the schema and no other, which the engine's binding cannot change. Throws
 * `NotReplaceable` for a table that this package writes no version of.
 */
export function schemaMetadataVersion(
  head: Buffer,
  metadata: Readonly<Record<string, string>>,
  identity: VersionIdentity,
): NewVersion {
  const { message, indexes } = sectionsOf(head);
  const { version: readVersion } = requireReplaceable(message, indexes);
  const entries = entriesOf(metadata);
  const update = encode(updateConfig, { schemaMetadata: encode(mapUpdate, { entries, isWhole: true }) });
  const recorded = encode(transaction, { readVersion, uuid: identity.transactionId, updateConfig: update });
  return versionAfter(
    { message, readVersion, like: head },
    { schemaMetadata: entries },
    { indexes, transaction: recorded },
    identity,
  );
}

/** Makes the version after `head` with the settings of the identity, and nothing else. */
export function settingsVersion(head: Buffer, identity: VersionIdentity): NewVersion {
  const { message, indexes } = sectionsOf(head);
  const { version: readVersion } = requireReplaceable(message, indexes);
  const entries = entriesOf(identity.settings ?? {});
  const update = encode(updateConfig, { config: encode(mapUpdate, { entries }) });
  const recorded = encode(transaction, { readVersion, uuid: identity.transactionId, updateConfig: update });
  return versionAfter({ message, readVersion, like: head }, {}, { indexes, transaction: recorded }, identity);
}

/**
 * Makes the manifest of a new branch with its indexes where they are; undefined if it says so already. Lance looks for all of them in the
 * folder of `parent`, also for those that the parent itself has from the branch that it started from. (The ids of base paths are the
 * same in both manifests.)
 */
export function branchManifest(made: Buffer, parent: Buffer): Buffer | undefined {
  const { message, indexes } = sectionsOf(made);
  const inherited = inheritedBases(sectionsOf(parent).indexes);
  if (indexes === undefined || inherited.size === 0) return undefined;
  const placed = editEach(indexSection, indexes, {
    indexes: (each) => {
      const baseId = inherited.get(identifierOf(each));
      return baseId === undefined ? each : edit(index, each, { baseId });
    },
  });
  return manifestFileOf({ message, indexes: placed, transaction: sectionsOf(made).transaction }, made);
}

/** Finds the base paths of the indexes that are not in the folder of the manifest's own branch, by the ids of the indexes. */
function inheritedBases(section: Uint8Array | undefined): ReadonlyMap<string, number> {
  const { indexes = [] } = section === undefined ? {} : decode(indexSection, section, ['indexes']);
  const based = indexes.flatMap((each): [string, number][] => {
    const { baseId } = decode(index, each, ['baseId']);
    return baseId === undefined ? [] : [[identifierOf(each), baseId]];
  });
  return new Map(based);
}
