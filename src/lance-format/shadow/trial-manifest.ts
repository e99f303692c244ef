import { fragmentId, manifestFileOf, sectionsOf } from '../manifest/parse-manifest.ts';
import { basePathsFlag } from '../manifest/replaceable.ts';
import { basePath, manifest } from '../messages.ts';
import { decode, edit, encode } from '../protobuf.ts';
import { type BaseChange, baseIdIn, fragmentWith, indexesWith } from './shadow-manifest.ts';

/**
 * A proposed version as one of a dataset of its own, to see whether it can be read before it is a version: with the files of the branch
 * in `folder` where they are, of the fragments `only`, and otherwise what its writer wrote, whatever that is.
 */
export function trialManifest(proposed: Buffer, folder: string, only: ReadonlySet<number>): Buffer {
  const { message, indexes, transaction } = sectionsOf(proposed);
  const { fragments = [], basePaths = [], readerFlags = 0n, writerFlags = 0n } = decode(manifest, message);
  const baseId = baseIdIn({ basePaths });
  const change: BaseChange = { from: undefined, to: baseId };
  const trial = edit(manifest, message, {
    branch: undefined,
    fragments: fragments.filter((each) => only.has(fragmentId(each))).map((each) => fragmentWith(change, each)),
    basePaths: [...basePaths, encode(basePath, { id: baseId, isDatasetRoot: true, path: folder })],
    readerFlags: readerFlags | basePathsFlag,
    writerFlags: writerFlags | basePathsFlag,
  });
  return manifestFileOf({ message: trial, indexes: indexes && indexesWith(change, indexes), transaction }, proposed);
}
