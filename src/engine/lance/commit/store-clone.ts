/** A clone on an object store: the store copies the files, which this machine does not see. */
import { basename } from 'node:path';
import { LancegateError } from '../../../kernel/errors.ts';
import { type FileReference, type Manifest, parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { locationTaken } from '../native/translate-errors.ts';
import type { BranchMirror } from '../store/branch-mirror.ts';
import { withinBranch } from '../store/file-spans.ts';
import { clonedManifest, notCloneable } from './clone.ts';
import type { Fresh } from './version-commit.ts';

interface StoreCloneRequest {
  readonly from: BranchMirror;
  readonly version: number;
  readonly to: BranchMirror;
  /** The key of what the URI names; undefined outside the storage root. */
  readonly keyOf: (uri: string) => string | undefined;
}

const copiesAtOnce = 16;

/** As `Datasets.clone`. */
export async function cloneStored({ from, version, to, keyOf }: StoreCloneRequest, fresh: Fresh): Promise<void> {
  const source = await from.take(version);
  if (source === undefined) throw new LancegateError('TableVersionNotFound', `the table has no version ${version}`);
  const manifest = clonedManifest(source.bytes, fresh);
  const copies = await copiesOf(parseManifest(source.bytes), from, keyOf);
  for (let start = 0; start < copies.length; start += copiesAtOnce) {
    const some = copies.slice(start, start + copiesAtOnce);
    await Promise.all(some.map(({ key, within }) => from.store.copy(key, `${to.prefix}${within}`)));
  }
  const name = basename(source.path);
  if (!(await to.makeVersion({ version, bytes: manifest }, name))) throw locationTaken();
}

interface Copy {
  readonly key: string;
  /** In the folder of the clone. */
  readonly within: string;
}

/** But for the transaction: the clone's version was made by none. */
async function copiesOf(
  manifest: Manifest,
  { store, prefix }: BranchMirror,
  keyOf: StoreCloneRequest['keyOf'],
): Promise<readonly Copy[]> {
  const placeOf = (file: FileReference): Copy => {
    const within = withinBranch(file);
    if (within === undefined) throw notCloneable('it has files of identifiers of rows');
    if (file.baseId === undefined) return { key: `${prefix}${within}`, within };
    const base = manifest.bases.get(file.baseId);
    const root = base && keyOf(base.path);
    if (base === undefined || root === undefined) throw notCloneable('it has files outside the storage root');
    return { key: `${root}/${base.isDatasetRoot ? within : file.path}`, within };
  };
  const listed = manifest.files.filter(({ kind }) => kind !== 'transaction').map(placeOf);
  const folders = await Promise.all(
    manifest.indexFolders.map(placeOf).map(async ({ key, within }) => {
      const found = await Array.fromAsync(store.list({ prefix: `${key}/` }));
      return found.map((each) => ({ key: each.key, within: `${within}${each.key.slice(key.length)}` }));
    }),
  );
  return [...listed, ...folders.flat()];
}
