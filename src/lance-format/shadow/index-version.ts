/** The version of a dataset that has an index more, or another one of the same name: what the engine commits for `createIndex`. */

import { ofOneVersion, requireReplaceable, timestampOf } from '../manifest/next-manifest.ts';
import { manifestFileOf, sectionsOf } from '../manifest/parse-manifest.ts';
import { createIndex, index, indexSection, manifest, transaction } from '../messages.ts';
import { decode, edit, encode, MalformedFile } from '../protobuf.ts';
import { indexFolders, type LiftedVersion } from './shadow-manifest.ts';

export interface BuiltIndex {
  /** The newest manifest of the shadow that the engine built it in. */
  readonly shadow: Buffer;
  readonly name: string;
  /** Version of the dataset that the shadow was made of. */
  readonly builtFrom: number;
}

export interface Identity {
  /** A version-4 UUID. */
  readonly transactionId: string;
  readonly committedAtMs: number;
}

/**
 * `head` may be a later version than the index was built from, if no commit between them changed a column of rows that stayed
 * where they were. Throws `NotReplaceable` for a table that this package writes no version of.
 */
export function indexVersion(head: Buffer, built: BuiltIndex, identity: Identity): LiftedVersion {
  const { message, indexes } = sectionsOf(head);
  const known = requireReplaceable(message, indexes);
  const readVersion = known.version ?? 0;
  const entry = entryOf(built);
  const all = entriesOf(indexes);
  const removedIndexes = all.filter((each) => decode(index, each, ['name']).name === built.name);
  const operation = encode(createIndex, { newIndexes: [entry], removedIndexes });
  const record = encode(transaction, { readVersion, uuid: identity.transactionId, createIndex: operation });
  const transactionFile = `${readVersion}-${identity.transactionId}.txn`;
  const next = edit(manifest, message, {
    ...ofOneVersion,
    version: readVersion + 1,
    timestamp: timestampOf(identity.committedAtMs),
    transactionFile,
  });
  const section = encode(indexSection, { indexes: [...all.filter((each) => !removedIndexes.includes(each)), entry] });
  const bytes = manifestFileOf({ message: next, indexes: section, transaction: record }, head);
  return {
    version: readVersion + 1,
    bytes,
    transaction: record,
    transactionFile,
    files: indexFolders(entry),
  };
}

function entryOf({ shadow, name, builtFrom }: BuiltIndex): Uint8Array {
  const found = entriesOf(sectionsOf(shadow).indexes).find((each) => decode(index, each, ['name']).name === name);
  if (found === undefined) throw new MalformedFile(`no index ${name}`);
  return edit(index, found, { datasetVersion: builtFrom });
}

const entriesOf = (section: Uint8Array | undefined): readonly Uint8Array[] =>
  section === undefined ? [] : (decode(indexSection, section).indexes ?? []);
