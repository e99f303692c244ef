import { restore, transaction } from '../messages.ts';
import { encode } from '../protobuf.ts';
import { type NewVersion, requireReplaceable, type VersionIdentity, versionAfter } from './next-manifest.ts';
import { sectionsOf } from './parse-manifest.ts';

/**
 * The version after `head` with all that an older version of the same branch has: rows, columns, indexes and settings, as the
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

/** undefined in a dataset that never had a fragment. */
const largest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.max(a, b);
