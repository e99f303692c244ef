import { mapEntry, restore, transaction } from '../messages.ts';
import { encode } from '../protobuf.ts';
import { type NewVersion, requireReplaceable, type VersionIdentity, versionAfter } from './next-manifest.ts';
import { sectionsOf } from './parse-manifest.ts';

/**
 * The version after `head` that has all of it and nothing else: it takes the number that another writer may be about to use. It is
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
    properties: Object.entries(properties).map(([key, value]) => encode(mapEntry, { key, value })),
    restore: encode(restore, { version: readVersion }),
  });
  return versionAfter({ message, readVersion, like: head }, {}, { indexes, transaction: recorded }, identity);
}
