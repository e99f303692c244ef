import { ofOneVersion, timestampOf } from '../manifest/next-manifest.ts';
import { manifestFileOf, sectionsOf } from '../manifest/parse-manifest.ts';
import { fragment, manifest, overwrite, rowVersionRun, rowVersions, transaction } from '../messages.ts';
import { decode, edit } from '../protobuf.ts';
import type { LiftedVersion, LiftRequest } from './shadow-manifest.ts';

/** The only version of a new dataset, of all rows that the engine appended to one in another place. */
export function firstVersion({
  result,
  steps,
  transactionId,
  committedAtMs,
}: Omit<LiftRequest, 'original'>): Omit<LiftedVersion, 'files'> {
  const { message } = sectionsOf(result);
  const made = decode(manifest, message);
  const fragments = (made.fragments ?? []).map(ofFirstVersion);
  const [step = Buffer.of()] = steps;
  const { overwrite: operation = Buffer.of() } = decode(transaction, step);
  const added = fragments.map((each) => edit(fragment, each, { id: undefined }));
  const recorded = edit(transaction, step, {
    uuid: transactionId,
    overwrite: edit(overwrite, operation, { fragments: added }),
  });
  const transactionFile = `0-${transactionId}.txn`;
  const changes = { version: 1, timestamp: timestampOf(committedAtMs), fragments, transactionFile };
  const sections = {
    message: edit(manifest, message, { ...ofOneVersion, ...changes }),
    indexes: undefined,
    transaction: recorded,
  };
  return {
    version: 1,
    bytes: manifestFileOf(sections, result),
    transaction: recorded,
    transactionFile,
  };
}

/** Rows with identifiers of their own also have the versions that created and updated them. */
function ofFirstVersion(encoded: Uint8Array): Uint8Array {
  const { createdAtVersions, updatedAtVersions } = decode(fragment, encoded, [
    'createdAtVersions',
    'updatedAtVersions',
  ]);
  if (createdAtVersions === undefined && updatedAtVersions === undefined) return encoded;
  const ofFirst = (sequence: Uint8Array | undefined) =>
    sequence &&
    edit(rowVersions, sequence, {
      runs: decode(rowVersions, sequence).runs?.map((run) => edit(rowVersionRun, run, { version: 1 })),
    });
  return edit(fragment, encoded, {
    createdAtVersions: ofFirst(createdAtVersions),
    updatedAtVersions: ofFirst(updatedAtVersions),
  });
}
