/** The first version of a branch, of which Lance says something wrong about indexes. */
import { index, indexSection } from '../messages.ts';
import { decode, edit, editEach } from '../protobuf.ts';
import { manifestFileOf, sectionsOf } from './parse-manifest.ts';

/**
 * The manifest of a new branch with its indexes where they are; undefined if it says so already. Lance looks for all of them in the
 * folder of `parent`, also for those that the parent itself has from the branch that it started from. (The ids of base paths are the
 * same in both manifests.)
 */
export function branchManifest(made: Buffer, parent: Buffer): Buffer | undefined {
  const { message, indexes } = sectionsOf(made);
  const inherited = inheritedBases(sectionsOf(parent).indexes);
  if (indexes === undefined || inherited.size === 0) return undefined;
  const placed = editEach(indexSection, indexes, {
    indexes: (each) => {
      const baseId = inherited.get(idOf(each));
      return baseId === undefined ? each : edit(index, each, { baseId });
    },
  });
  return manifestFileOf({ message, indexes: placed, transaction: sectionsOf(made).transaction }, made);
}

/** The base paths of the indexes that are not in the folder of the manifest's own branch, by the ids of the indexes. */
function inheritedBases(section: Uint8Array | undefined): ReadonlyMap<string, number> {
  const { indexes = [] } = section === undefined ? {} : decode(indexSection, section, ['indexes']);
  const based = indexes.flatMap((each): [string, number][] => {
    const { baseId } = decode(index, each, ['baseId']);
    return baseId === undefined ? [] : [[idOf(each), baseId]];
  });
  return new Map(based);
}

const idOf = (encoded: Uint8Array): string => Buffer.from(decode(index, encoded, ['uuid']).uuid ?? []).toString('hex');
