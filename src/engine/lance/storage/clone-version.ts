/**
 * A clone of one version: a dataset of its own, whose files are copies of those of the source, or hard links to them. So whatever is
 * pruned or dropped of the one leaves the other whole. The engine's shallow clone names the files of the source where they are, and
 * loses its rows with them; it has no other kind.
 */
import { basename, join } from 'node:path';
import { LancegateError } from '../../../kernel/errors.ts';
import { manifestNames } from '../../../lance-format/manifest/manifest-files.ts';
import { type FileReference, type Manifest, parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { ifNotReplaceable } from '../../../lance-format/manifest/replaceable.ts';
import { requireBoundedColumns } from '../../../lance-format/manifest/stored-columns.ts';
import { cloneManifest } from '../../../lance-format/shadow/clone-manifest.ts';
import { makeVersion } from '../commit/branch-commits.ts';
import { locationTaken } from '../native/translate-errors.ts';
import { withinBranch } from '../store/file-spans.ts';
import type { BranchStorage } from './branch-storage.ts';

interface CloneRequest {
  readonly from: BranchStorage;
  readonly version: number;
  readonly to: BranchStorage;
  /** The key of what a base path names; undefined outside the storage root. */
  readonly keyOf: (base: string) => string | undefined;
  readonly nowMs: number;
}

const copiesAtOnce = 16;

/** See `Datasets.clone`. Durable when it resolves. */
export async function cloneVersion({ from, version, to, keyOf, nowMs }: CloneRequest): Promise<void> {
  await from.take(version);
  const source = from.readWhole(version);
  if (source === undefined) throw new LancegateError('TableVersionNotFound', `the table has no version ${version}`);
  const bytes = clonedManifest(source.bytes, nowMs);
  const copies = await copiesOf(parseManifest(source.bytes), from, keyOf);
  for (let start = 0; start < copies.length; start += copiesAtOnce) {
    const some = copies.slice(start, start + copiesAtOnce);
    await Promise.all(some.map(({ key, within }) => from.store.copy(key, `${to.prefix}${within}`)));
  }
  const naming = manifestNames(version)[1] === basename(source.path) ? 1 : 0;
  const before = join(to.versionsFolder, manifestNames(version - 1)[naming]);
  const clone = { version, bytes, transaction: Buffer.of(), transactionFile: '', isRecorded: true } as const;
  if (!(await makeVersion(to.commits, clone, before))) throw locationTaken();
  await to.sync(version);
}

/** `Unsupported`; throws `UnboundedColumns`. */
function clonedManifest(bytes: Buffer, nowMs: number): Buffer {
  requireBoundedColumns(bytes);
  try {
    return cloneManifest(bytes, nowMs);
  } catch (error) {
    throw ifNotReplaceable(error, notCloneable('it has features that this service cannot carry over', error));
  }
}

const notCloneable = (why: string, cause?: unknown): LancegateError =>
  new LancegateError('Unsupported', `this service does not clone the table: ${why}`, { cause });

interface Copy {
  readonly key: string;
  /** The file has this path in the folder of the clone. */
  readonly within: string;
}

/** It lacks the transaction: none made the version of the clone. */
async function copiesOf(
  manifest: Manifest,
  { store, prefix }: BranchStorage,
  keyOf: CloneRequest['keyOf'],
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
