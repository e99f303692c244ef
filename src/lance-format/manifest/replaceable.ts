/** This package makes a version of tables of which it knows all that the manifest says. */
import { field, fragment, manifest } from '../messages.ts';
import { type Decoded, decode, edit, fieldOtherThan } from '../protobuf.ts';
import { indexesIn, nameOfIndex } from './parse-manifest.ts';
import { rowIdsFlag } from './row-identity.ts';

/** This package makes no version of such a table, as it cannot carry on what the manifest says. `message` says why. */
export class NotReplaceable extends Error {
  override readonly name = 'NotReplaceable';
}

/** A `catch` gives the answer where the error is `NotReplaceable`; any other error is thrown again. */
export function ifNotReplaceable<Answer>(error: unknown, answer: Answer): Answer {
  if (error instanceof NotReplaceable) return answer;
  throw error;
}

export const deletionFilesFlag = 1n;
export const basePathsFlag = 16n;
export const configurationFlag = 8n;
/** They include the second file format before it had a version. */
const knownFlags = deletionFilesFlag | rowIdsFlag | 4n | configurationFlag | basePathsFlag;

const numbersOf = (names: readonly (keyof typeof fragment.fields)[]): readonly number[] =>
  names.map((name) => fragment.fields[name].number);

/** They are all of a fragment but identifiers and versions of rows in files of their own, overlays, and what is newer. */
const knownOfFragment = numbersOf(['id', 'files', 'deletionFile', 'physicalRows']);
const knownWithRowIds = [...knownOfFragment, ...numbersOf(['rowIds', 'updatedAtVersions', 'createdAtVersions'])];

export interface Replaceable extends Decoded<typeof manifest> {
  readonly version: number;
  readonly readerFlags: bigint;
  readonly writerFlags: bigint;
  readonly fragments: readonly Uint8Array[];
  /** Its rows have ids that updates leave as they are, and versions. */
  readonly hasRowIds: boolean;
}

/** `indexes` is the index section. */
export function requireReplaceable(message: Uint8Array, indexes: Uint8Array | undefined): Replaceable {
  const known = decode(manifest, message);
  const { version = 0, readerFlags = 0n, writerFlags = 0n, fragments = [], fields = [] } = known;
  const flags = readerFlags | writerFlags;
  if ((flags & ~knownFlags) !== 0n) throw new NotReplaceable(`the manifest has feature flags ${flags}`);
  const hasRowIds = (flags & rowIdsFlag) !== 0n;
  for (const each of fragments) {
    const other = fieldOtherThan(hasRowIds ? knownWithRowIds : knownOfFragment, each);
    if (other !== undefined) throw new NotReplaceable(`a fragment has field ${other}`);
    if (hasRowIds && decode(fragment, each, ['rowIds']).rowIds === undefined)
      throw new NotReplaceable('rows without ids');
  }
  if (fields.some((each) => hasInMetadata(each, 'blob'))) throw new NotReplaceable('a column holds blobs');
  if (indexesIn(indexes).some((each) => nameOfIndex(each).startsWith('__'))) {
    throw new NotReplaceable('an index takes part in commits');
  }
  return { ...known, version, readerFlags, writerFlags, fragments, hasRowIds };
}

/** The engine lists the keys that it inserts into such a table, for other writers that insert the same keys concurrently. */
export function hasPrimaryKey({ fields = [] }: Replaceable): boolean {
  return fields.some((each) => {
    const { isPrimaryKey = false, primaryKeyPosition = 0 } = decode(field, each, [
      'isPrimaryKey',
      'primaryKeyPosition',
    ]);
    return isPrimaryKey || primaryKeyPosition > 0 || hasInMetadata(each, 'unenforced-primary-key');
  });
}

export const primaryKeyMetadata = 'lance-schema:unenforced-primary-key';

/** Looks at all but the name: an extension type, too, says what a column holds. */
const hasInMetadata = (encoded: Uint8Array, text: string): boolean =>
  Buffer.from(encoded).includes(text) && edit(field, encoded, { name: undefined }).includes(text);
