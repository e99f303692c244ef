/** Changes which fragments an index covers. Readers find rows of all others without it. */
import { index, indexSection } from '../messages.ts';
import { decode, edit, editEach } from '../protobuf.ts';
import { bitmapOfValues, valuesOfBitmap } from '../roaring.ts';

function withCoverage(encoded: Uint8Array, change: (covered: ReadonlySet<number>) => ReadonlySet<number>): Uint8Array {
  const { coverage } = decode(index, encoded, ['coverage']);
  if (coverage === undefined) return encoded;
  const covered = new Set(valuesOfBitmap(Buffer.from(coverage)));
  const changed = change(covered);
  return changed === covered
    ? encoded
    : edit(index, encoded, { coverage: bitmapOfValues([...changed].sort((a, b) => a - b)) });
}

const idsOf = (fragments: readonly { readonly id: number }[]) => new Set(fragments.map(({ id }) => id));

/** Makes an encoded index one that does not cover these fragments. */
export const notCovering = (fragments: ReadonlySet<number>, encoded: Uint8Array): Uint8Array =>
  fragments.size === 0 ? encoded : withCoverage(encoded, (covered) => covered.difference(fragments));

/**
 * Makes the index section after a compaction of rows with ids, by which an index knows them wherever they are: one that covers all
 * fragments of a group covers those that take their place.
 */
export function followingRows(
  groups: readonly Readonly<Record<'before' | 'after', readonly { readonly id: number }[]>>[],
  section: Uint8Array | undefined,
): Uint8Array | undefined {
  if (section === undefined || groups.length === 0) return section;
  const follow = (covered: ReadonlySet<number>) =>
    groups
      .filter(({ before }) => before.length > 0 && before.every(({ id }) => covered.has(id)))
      .reduce((set, { before, after }) => set.difference(idsOf(before)).union(idsOf(after)), covered);
  return editEach(indexSection, section, { indexes: (each) => withCoverage(each, follow) });
}
