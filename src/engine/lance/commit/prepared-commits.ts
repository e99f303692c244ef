/**
 * Compactions and index builds that the engine computes in a shadow of one version, concurrently with writers, however long that
 * takes. Their commits take milliseconds, and may follow commits that were made meanwhile. If one fails, or is never made, nothing
 * is changed.
 */
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { RowAddress } from '../../../keys/address-remap.ts';
import { DeletionVector } from '../../../lance-format/deletion/deletion-vector.ts';
import { changedFragments, columnsOfIndex } from '../../../lance-format/manifest/column-files.ts';
import { listVersions, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { type MovedGroup, nextManifest, type VersionIdentity } from '../../../lance-format/manifest/next-manifest.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { ifNotReplaceable } from '../../../lance-format/manifest/replaceable.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import { builtSegments, indexVersion } from '../../../lance-format/shadow/lifted-version.ts';
import { shadowManifest, withOwnColumns } from '../../../lance-format/shadow/shadow-manifest.ts';
import {
  keepsDeletions,
  type RewriteGroup,
  type RewrittenFragment,
  rewriteGroupsOf,
  transactionsBetween,
} from '../../../lance-format/transaction/transaction.ts';
import type { IndexSpec } from '../../port/index-spec.ts';
import type { CompactionResult, CompactionSpec, IndexBuildScope } from '../../port/reader-work.ts';
import type { PreparedCommit } from '../../port/upkeep.ts';
import { deletionsFile } from '../live-rows/deletion-files.ts';
import { CompactionRemap, LiveRowMap, type Tracked } from '../live-rows/live-rows.ts';
import type { NativeTable } from '../native/native.ts';
import { compactNative } from '../native/native-compaction.ts';
import { buildNativeIndex, partitionsHint } from '../native/native-index.ts';
import { type EngineCall, engineCall } from '../native/translate-errors.ts';
import { type BuiltVersion, liftedFrom } from './branch-commits.ts';
import type { Build, CommitLoop, HeadManifest } from './commit-loop.ts';
import { rowFile } from './staged-rows.ts';
import { rowsIn, type StagedChange, type Staging } from './staging.ts';
import { type Fresh, randomId } from './version-commit.ts';

/** What prepares commits to one branch on a file system. */
export interface PreparationParts {
  /** The absolute path of the dataset, or of the branch in it. */
  readonly folder: string;
  readonly staging: Staging;
  readonly loop: CommitLoop;
  /** See `BranchCommits`. */
  readonly uri: string;
  readonly fresh: Fresh;
  /** Builds an index of a shadow, by its name in the staging folder, in a builder. */
  readonly buildInBuilder?: ((shadow: string, spec: IndexSpec, scope: IndexBuildScope) => Promise<void>) | undefined;
  /** Compacts it there. */
  readonly compactInBuilder?:
    | ((shadow: string, spec: CompactionSpec, signal: AbortSignal) => Promise<CompactionResult>)
    | undefined;
}

interface Preparation {
  readonly build: Build<PreparedVersion>;
  discard(): void;
}

interface PreparedVersion extends BuiltVersion {
  readonly removedFragments: number;
}

/** undefined for a table that only the engine may change, or if `compute` returns nothing. */
export function prepare(
  loop: CommitLoop,
  compute: (version: number) => Promise<Preparation | undefined>,
  call: EngineCall = 'compaction',
): Promise<PreparedCommit | undefined> {
  return engineCall(call, async () => {
    const prepared = await compute(await loop.version()).catch((error: unknown) => ifNotReplaceable(error, undefined));
    if (prepared === undefined) return undefined;
    return {
      commit: (properties) => engineCall(call, () => loop.commit(prepared.build, { properties })),
      discard: () => prepared.discard(),
    };
  });
}

/**
 * An index. Its commit changes nothing but the list of indexes, so it may follow any version that keeps the column: the index does
 * not cover what was committed since, or fragments whose values were changed in place, and rows deleted since are not found. It may
 * not follow one that leaves nothing of what it covers. undefined if the version is not there.
 */
export async function prepareIndex(
  { folder, staging, uri, buildInBuilder }: PreparationParts,
  builtFrom: number,
  spec: IndexSpec,
  scope: IndexBuildScope,
): Promise<Preparation | undefined> {
  const versions = join(folder, '_versions');
  const original = readManifest(versions, builtFrom)?.bytes;
  if (original === undefined) return undefined;
  const only = new Set(parseManifest(original).fragments.map(({ id }) => id));
  const shadow = shadowManifest(original, { folder: uri, version: 1, only });
  const staged = await staging.change(shadow, (open, name) =>
    buildInBuilder === undefined
      ? usingTable(open, (table) => buildNativeIndex(table, spec))
      : buildInBuilder(name, spec, scope),
  );
  const [segment = Buffer.of()] = builtSegments(staged.manifest, spec.name);
  const columns = columnsOfIndex(segment);
  const since = new LaterCommits(versions, builtFrom);
  await since.checkToNewest(); // so that little is left to read for the commit
  const built = { shadow: staged.manifest, name: spec.name, builtFrom, hints: hintsOf(spec) };
  return {
    build: ({ version, bytes }, identity) => {
      const found = changedFragments(original, bytes, columns, since.keepDeletions(version));
      if (found === undefined || (found.kept === 0 && found.changed.size > 0)) return 'overtaken';
      const next = indexVersion(bytes, { ...built, changed: found.changed }, identity);
      return { ...next, files: next.files.map((file) => liftedFrom(staged.folder, file)), removedFragments: 0 };
    },
    discard: () => staged.discard(),
  };
}

/** Requests are served after so many, while the commits beside a long build are read. */
const versionsPerTurn = 16;

/** The commits to a branch that came after the version that an index is built from. */
class LaterCommits {
  readonly #versionsFolder: string;
  #checkedThrough: number;
  #keepsDeletions = true;

  constructor(versionsFolder: string, builtFrom: number) {
    this.#versionsFolder = versionsFolder;
    this.#checkedThrough = builtFrom;
  }

  async checkToNewest(): Promise<void> {
    const newest = () => listVersions(this.#versionsFolder).at(-1) ?? 0;
    for (let last = newest(); this.#keepsDeletions && this.#checkedThrough < last; last = newest()) {
      this.keepDeletions(Math.min(last, this.#checkedThrough + versionsPerTurn));
      await setImmediate();
    }
  }

  /** False where one of them may have brought back a row that was deleted, which an index does not have. */
  keepDeletions(version: number): boolean {
    const after = this.#checkedThrough;
    if (!this.#keepsDeletions || version <= after) return this.#keepsDeletions;
    const commits = transactionsBetween(this.#versionsFolder, after, version, version - after);
    this.#keepsDeletions = commits.every((each) => each !== undefined && keepsDeletions(each));
    this.#checkedThrough = version;
    return this.#keepsDeletions;
  }
}

async function usingTable<Result>(
  open: () => Promise<NativeTable>,
  use: (table: NativeTable) => Promise<Result>,
): Promise<Result> {
  const table = await open();
  return use(table).finally(() => table.close());
}

function hintsOf({ options }: IndexSpec): Readonly<Record<string, string>> {
  const partitions = 'vector' in options ? options.vector.numPartitions : undefined;
  return partitions === undefined ? {} : { [partitionsHint]: String(partitions) };
}

/**
 * undefined if the version is not there, or if the engine sees nothing to compact that can be. What it could not read afterwards is
 * left as it was.
 */
export async function prepareCompaction(
  parts: PreparationParts,
  version: number,
  ids: readonly number[],
  signal: AbortSignal,
): Promise<Preparation | undefined> {
  const { folder, staging, uri, compactInBuilder } = parts;
  const current = readManifest(join(folder, '_versions'), version);
  if (current === undefined) return undefined;
  const shadow = shadowManifest(current.bytes, {
    folder: uri,
    version: 1,
    only: new Set(ids),
    hasJsonAsBytes: true,
  });
  const spec = { isToRead: true };
  let isReadable = false;
  const staged = await staging.change(shadow, async (open, name) => {
    ({ isReadable } = await (compactInBuilder?.(name, spec, signal) ??
      usingTable(open, (table) => compactNative(table, spec))));
  });
  const groups = staged.transactions.flatMap((each) => rewriteGroupsOf(each) ?? []);
  if (groups.length > 0 && isReadable) {
    const manifest = withOwnColumns(staged.manifest, current.bytes);
    return new CompactedFragments(parts, { ...staged, manifest }, groups, version);
  }
  staged.discard();
  return undefined;
}

/**
 * A compaction of some fragments. Its new fragments replace the old ones in one commit. Rows that were deleted meanwhile are
 * deleted in the new fragments, too: compaction keeps the order of rows, so it is known which row is which.
 *
 * The commit reads the deletion vectors of as many fragments as there are. Indexes do not cover the moved rows until they are
 * rebuilt, unless the rows have ids (`followingRows`).
 */
class CompactedFragments implements Preparation {
  readonly #parts: PreparationParts;
  readonly #versionsFolder: string;
  readonly #staged: StagedChange;
  readonly #groups: readonly RewriteGroup[];
  readonly #targets: readonly RewrittenFragment[];
  /** The live rows when the fragments were staged. */
  readonly #then: LiveRowMap;
  readonly #now: LiveRowMap;
  #isKnown: boolean;

  constructor(parts: PreparationParts, staged: StagedChange, groups: readonly RewriteGroup[], version: number) {
    this.#parts = parts;
    this.#versionsFolder = join(parts.folder, '_versions');
    this.#staged = staged;
    this.#groups = groups;
    this.#targets = groups.flatMap(({ after }) => after);
    const ids = new Set(groups.flatMap(({ before }) => before).map(({ id }) => id));
    this.#then = new LiveRowMap(this.#versionsFolder, ids);
    this.#then.advance(version);
    this.#now = this.#then.copy();
    // So that little is left to read for the commit. Whatever is wrong shows there.
    const newest = listVersions(this.#versionsFolder).at(-1);
    this.#isKnown = newest === undefined || this.#now.advance(newest).isKnown;
  }

  readonly build: Build<PreparedVersion> = (head, identity) => {
    const groups = this.#groupsAt(head.version);
    return groups.some(({ before }) => before.length > 0) ? this.#versionAfter(head, groups, identity) : 'overtaken';
  };

  discard(): void {
    this.#staged.discard();
  }

  /** None where it is not known which row is which. */
  #groupsAt(version: number): readonly CompactedGroup[] {
    this.#isKnown &&= this.#now.advance(version).isKnown;
    if (!this.#isKnown) return [];
    const deleted = this.#deletedMeanwhile();
    return this.#groups.map((group) => this.#groupWith(deleted, group));
  }

  /** The deletion vectors have the ids that this version gives the new fragments, so each attempt writes its own. */
  #versionAfter(
    { bytes: current }: HeadManifest,
    groups: readonly CompactedGroup[],
    identity: VersionIdentity,
  ): PreparedVersion {
    const { manifest, folder } = this.#staged;
    const next = nextManifest(current, {
      deletions: new Map(groups.flatMap(({ before }) => before.map((id) => [id, 'all rows'] as const))),
      staged: manifest,
      groups,
      ...identity,
    });
    const deletions = groups
      .flatMap(({ after }) => after)
      .flatMap(({ deletions: file, bitmap }, at) => {
        const fragment = next.fragments[at]?.id;
        if (file === undefined || bitmap === undefined || fragment === undefined) return [];
        return { from: bitmap, to: deletionsFile(fragment, file) };
      });
    const removedFragments = groups.reduce((sum, { before, after }) => sum + before.length - after.length, 0);
    return { ...next, files: [...rowsIn(manifest, folder).files.map(rowFile), ...deletions], removedFragments };
  }

  /**
   * What others deleted since the staging, as rows of the new fragments, by staged id. A fragment that is gone has lost all its
   * rows, wherever they are now.
   */
  #deletedMeanwhile(): ReadonlyMap<number, DeletionVector> {
    const deleted = new Map(this.#targets.map(({ id, rows }) => [id, new DeletionVector(rows)]));
    const moves = this.#moves();
    const mark = (address: RowAddress): void => {
      const now = moves.newAddressOf(address);
      if (now !== undefined) deleted.get(now.fragment)?.add(now.offset);
    };
    for (const { id: fragment } of this.#groups.flatMap(({ before }) => before)) {
      const then = this.#then.deletedIn(fragment);
      const now = this.#now.deletedIn(fragment);
      if (then === undefined) throw new MalformedFile(`no fragment ${fragment}`);
      if (now === undefined) for (const address of this.#then.rowsOf(fragment)) mark(address);
      else for (const offset of now.addedSince(then)) mark({ fragment, offset });
    }
    return deleted;
  }

  #moves(): CompactionRemap {
    const targets = this.#targets.map(({ id, rows }) => [id, asTracked(rows)] as const);
    const moves = new CompactionRemap(this.#then.fragments, new Map(targets), this.#groups);
    if (this.#targets.some(({ id }) => !moves.isTarget(id))) throw new MalformedFile('rows that do not add up');
    return moves;
  }

  #groupWith(deleted: ReadonlyMap<number, DeletionVector>, { before, after }: RewriteGroup): CompactedGroup {
    return {
      before: before.map(({ id }) => id).filter((id) => this.#now.hasFragment(id)),
      after: after.map((fragment) => this.#fragmentWith(deleted, fragment)).filter((each) => each !== undefined),
    };
  }

  /** undefined if no row is left. */
  #fragmentWith(
    deleted: ReadonlyMap<number, DeletionVector>,
    { id, rows }: RewrittenFragment,
  ): CompactedGroup['after'][number] | undefined {
    const vector = deleted.get(id);
    if (vector === undefined || vector.count === 0) return { id, deletions: undefined, bitmap: undefined };
    if (vector.count === rows) return undefined;
    const deletions = { readVersion: this.#now.version, id: randomId(this.#parts.fresh), deletedRows: vector.count };
    return { id, deletions, bitmap: vector.toBitmap() };
  }
}

/** A group of moved fragments with the content of its deletion vectors. */
interface CompactedGroup extends MovedGroup {
  readonly after: readonly (MovedGroup['after'][number] & { readonly bitmap: Buffer | undefined })[];
}

const asTracked = (rows: number): Tracked => ({ rows, deleted: new DeletionVector(rows), deletionsId: undefined });
