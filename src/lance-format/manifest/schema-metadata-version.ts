import { mapEntry, mapUpdate, transaction, updateConfig } from '../messages.ts';
import { encode } from '../protobuf.ts';
import { type NewVersion, requireReplaceable, type VersionIdentity, versionAfter } from './next-manifest.ts';
import { sectionsOf } from './parse-manifest.ts';

/**
 * The version after `head` with this metadata of the schema and no other, which the engine's binding cannot change. Throws
 * `NotReplaceable` for a table that this package writes no version of.
 */
export function schemaMetadataVersion(
  head: Buffer,
  metadata: Readonly<Record<string, string>>,
  identity: VersionIdentity,
): NewVersion {
  const { message, indexes } = sectionsOf(head);
  const { version: readVersion } = requireReplaceable(message, indexes);
  const entries = Object.entries(metadata).map(([key, value]) => encode(mapEntry, { key, value }));
  const update = encode(updateConfig, { schemaMetadata: encode(mapUpdate, { entries, isWhole: true }) });
  const recorded = encode(transaction, { readVersion, uuid: identity.transactionId, updateConfig: update });
  return versionAfter(
    { message, readVersion, like: head },
    { schemaMetadata: entries },
    { indexes, transaction: recorded },
    identity,
  );
}
