/** Tables of which this package makes no versions: their manifests say what it does not know how to carry on. */
import { type Decoded, decode, edit, fieldsIn } from '../message-codec.ts';
import { field, fragment, manifest } from '../messages.ts';
import { namesOfIndexes } from './manifest-outline.ts';

/** The rows of this table are for the engine alone to replace. `message` says why. */
export class NotReplaceable extends Error {
  override readonly name = 'NotReplaceable';
}

/** Deletion files, the second file format before it had a version, a table configuration, base paths. */
const knownFlags = 1n | 4n | 8n | 16n;

/** Of a fragment: all but identifiers of rows, versions of rows, overlays, and what is newer. */
const { id, files, deletionFile, physicalRows } = fragment.fields;
const knownOfFragment = [id, files, deletionFile, physicalRows].map(({ number }) => number);

export interface Replaceable extends Decoded<typeof manifest> {
  readonly readerFlags: bigint;
  readonly writerFlags: bigint;
  readonly fragments: readonly Uint8Array[];
}

/** `indexes`: the index section. */
export function requireReplaceable(message: Uint8Array, indexes: Uint8Array | undefined): Replaceable {
  const known = decode(manifest, message);
  const { readerFlags = 0n, writerFlags = 0n, fragments = [], fields = [] } = known;
  const flags = readerFlags | writerFlags;
  if ((flags & ~knownFlags) !== 0n) throw new NotReplaceable(`the manifest has feature flags ${flags}`);
  for (const { number } of fragments.flatMap(fieldsIn)) {
    if (!knownOfFragment.includes(number)) throw new NotReplaceable(`a fragment has field ${number}`);
  }
  if (fields.some((each) => hasInMetadata(each, 'blob'))) throw new NotReplaceable('a column holds blobs');
  if (indexes !== undefined && namesOfIndexes(indexes).some((name) => name.startsWith('__'))) {
    throw new NotReplaceable('an index takes part in commits');
  }
  return { ...known, readerFlags, writerFlags, fragments };
}

/** What the engine inserts in such a table it lists by key, for writers who insert the same keys at the same time. */
export const hasPrimaryKey = ({ fields = [] }: Replaceable): boolean =>
  fields.some((each) => hasInMetadata(each, 'unenforced-primary-key'));

/** In anything but its name: what a column holds is also told by an extension type. */
const hasInMetadata = (encoded: Uint8Array, text: string): boolean =>
  Buffer.from(encoded).includes(text) && edit(field, encoded, { name: undefined }).includes(text);
