/** Tables that this package writes no version of. */
import { type Decoded, decode } from '../message.ts';
import { field, fragment, index, indexSection, type manifest } from '../messages.ts';

/** The table is for the engine alone to write. `message` says why. */
export class NotLiftable extends Error {
  override readonly name = 'NotLiftable';
}

/** Deletion files, the old format 2, a table configuration, base paths. */
const knownFlags = 1n | 4n | 8n | 16n;

export const areFlagsKnown = (flags: bigint): boolean => (flags & ~knownFlags) === 0n;

export function requireLiftable(known: Decoded<typeof manifest>, indexes: Uint8Array | undefined): void {
  const { readerFlags = 0n, writerFlags = 0n, fragments = [], fields = [] } = known;
  if (!areFlagsKnown(readerFlags | writerFlags))
    throw new NotLiftable(`the manifest has feature flags ${readerFlags | writerFlags}`);
  for (const each of fragments) requireNoneOf(each);
  if (fields.some(holdsBlobs)) throw new NotLiftable('a column holds blobs');
  if (indexes !== undefined && namesOfIndexes(indexes).some((name) => name.startsWith('__'))) {
    throw new NotLiftable('an index takes part in commits');
  }
}

/** Identifiers of rows, versions of rows, overlays. */
function requireNoneOf(encoded: Uint8Array): void {
  const { id, files, deletionFile, physicalRows, ...others } = decode(fragment, encoded);
  const [name] = Object.keys(others);
  if (name !== undefined) throw new NotLiftable(`a fragment has ${name}`);
}

/** By its metadata: `lance-encoding:blob`, or an extension type of that name. The bytes may be in files of their own. */
function holdsBlobs(encoded: Uint8Array): boolean {
  return decode(field, encoded).metadata?.some((entry) => Buffer.from(entry).includes('blob')) === true;
}

export const namesOfIndexes = (section: Uint8Array): readonly string[] =>
  decode(indexSection, section).indexes?.map((each) => decode(index, each).name ?? '') ?? [];
