import { ofOneVersion } from '../manifest/next-manifest.ts';
import { manifestFileOf, sectionsOf, timestampOf } from '../manifest/parse-manifest.ts';
import { basePathsFlag, requireReplaceable } from '../manifest/replaceable.ts';
import { basePath, manifest } from '../messages.ts';
import { decode, edit } from '../protobuf.ts';
import { fragmentWith, indexesWith } from './shadow-manifest.ts';

/**
 * Makes the first version of a dataset that has all files of another's version in folders of its own: under the same number and names, so
 * that deletion vectors and indexes keep the versions they are from. Throws `NotReplaceable` for a table whose manifest would say
 * something wrong there.
 */
export function cloneManifest(original: Buffer, committedAtMs: number): Buffer {
  const { message, indexes } = sectionsOf(original);
  const known = requireReplaceable(message, indexes);
  const changes = (known.basePaths ?? []).map((each) => ({ from: decode(basePath, each).id ?? 0, to: undefined }));
  const clone = edit(manifest, message, {
    ...ofOneVersion,
    branch: undefined,
    timestamp: timestampOf(committedAtMs),
    fragments: known.fragments.map((each) => changes.reduce((changed, change) => fragmentWith(change, changed), each)),
    basePaths: undefined,
    readerFlags: known.readerFlags & ~basePathsFlag || undefined,
    writerFlags: known.writerFlags & ~basePathsFlag || undefined,
  });
  const own = indexes && changes.reduce((changed, change) => indexesWith(change, changed), indexes);
  return manifestFileOf({ message: clone, indexes: own, transaction: undefined }, original);
}
