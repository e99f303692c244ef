import { join, relative } from 'node:path';
import { DeletionVector } from '../../../lance-format/deletion/deletion-vector.ts';
import { listVersions, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { type MovedGroup, NotReplaceable, nextManifest } from '../../../lance-format/manifest/next-manifest.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import { indexVersion, type LiftedFile, type LiftedVersion } from '../../../lance-format/shadow/lifted-version.ts';
import { shadowManifest } from '../../../lance-format/shadow/shadow-manifest.ts';
import {
  keepsColumn,
  type RewriteGroup,
  type RewrittenFragment,
  transactionsBetween,
} from '../../../lance-format/transaction/transaction.ts';
import type { PreparedCommit } from '../../port/engine.ts';
import type { RowAddress } from '../../port/row-address.ts';
import { deletionsFile, LiveRowMap } from '../live-rows/live-rows.ts';
import { CompactionRemap, type Tracked } from '../live-rows/remap.ts';
import { engineCall } from '../native/translate-errors.ts';
import type { StagedFragments, StagedIndex, Staging } from './staging.ts';
import {
  committedAtMs,
  type Fresh,
  type HeadManifest,
  type LiftedCommit,
  randomId,
  writeFiles,
} from './version-commit.ts';

/** The dataset that asks for them. */
export interface CommittingDataset {
  version(): Promise<number>;
  readonly onCommit: (version: number) => void;
}

/** Compactions and index builds of one branch on a file system. Each is undefined for a table that only the engine may change. */
export class PreparedCommits {
  readonly #deps: ShadowCommitDeps;

  constructor(deps: ShadowCommitDeps) {
    this.#deps = deps;
  }

  compaction(dataset: CommittingDataset, fragments: readonly number[]): Promise<PreparedCommit | undefined> {
    return this.#prepare(dataset, (version) => CompactedFragments.prepare(this.#deps, version, fragments));
  }

  index(dataset: CommittingDataset, column: string): Promise<PreparedCommit | undefined> {
    return this.#prepare(dataset, (version) => IndexBuild.prepare(this.#deps, version, column));
  }

  #prepare(
    dataset: CommittingDataset,
    compute: (version: number) => Promise<CompactedFragments | IndexBuild | undefined>,
  ): Promise<PreparedCommit | undefined> {
    return engineCall('maintain', async () => {
      const result = await compute(await dataset.version()).catch(undefinedIfRefused);
      const commit = () => engineCall('maintain', () => committed(dataset, result));
      return result && { commit, discard: () => result.discard() };
    });
  }
}

async function committed(
  dataset: CommittingDataset,
  result: CompactedFragments | IndexBuild | undefined,
): Promise<number | undefined> {
  const version = await dataset.version();
  const made: CompactedVersion | undefined = await result?.commit(version).catch(undefinedIfRefused);
  if (made !== undefined) dataset.onCommit(made.version);
  return made?.removedFragments;
}

function undefinedIfRefused(error: unknown): undefined {
  if (!(error instanceof NotReplaceable)) throw error;
}

/**
 * An index that the engine builds in a shadow, concurrently with writers. Its commit changes nothing but the list of indexes, so
 * it may follow any version: what was committed since is not covered by the index, and rows deleted since are not found.
 */

export interface ShadowCommitDeps {
  /** Of the dataset, or of the branch in it; absolute. */
  readonly folder: string;
  readonly staging: Staging;
  readonly commit: LiftedCommit;
  readonly fresh: Fresh;
}

export class IndexBuild {
  readonly #deps: ShadowCommitDeps;
  readonly #staged: StagedIndex;
  readonly #builtFrom: number;
  readonly #fieldId: number;
  /** No commit up to this version changed the column where it is. */
  #checkedThrough: number;

  private constructor(deps: ShadowCommitDeps, staged: StagedIndex, builtFrom: number, fieldId: number) {
    this.#deps = deps;
    this.#staged = staged;
    this.#builtFrom = builtFrom;
    this.#fieldId = fieldId;
    this.#checkedThrough = builtFrom;
  }

  /** undefined if the version or the column is not there. Throws `NotReplaceable` for a table that is the engine's alone. */
  static async prepare(deps: ShadowCommitDeps, version: number, column: string): Promise<IndexBuild | undefined> {
    const versions = join(deps.folder, '_versions');
    const current = readManifest(versions, version);
    if (current === undefined) return undefined;
    const { fragments, fieldIds } = parseManifest(current.bytes);
    const fieldId = fieldIds.get(column);
    if (fieldId === undefined) return undefined;
    const only = new Set(fragments.map(({ id }) => id));
    const shadow = shadowManifest(current.bytes, { folder: deps.folder, version: 1, only });
    const staged = await deps.staging.index(shadow, column);
    const build = new IndexBuild(deps, staged, version, fieldId);
    build.#keepsColumnThrough(listVersions(versions).at(-1) ?? version); // so that little is left to read for the commit
    return build;
  }

  /** Returns undefined if another program has changed the column. `version`: the newest one that is known. */
  async commit(version: number): Promise<{ readonly version: number; readonly removedFragments: 0 } | undefined> {
    const { commit } = this.#deps;
    const made = await commit.commitOnHead(version, this.#staged.folder, (head) => this.#versionAfter(head));
    return made === undefined ? undefined : { version: made, removedFragments: 0 };
  }

  discard(): void {
    this.#staged.discard();
  }

  #versionAfter({ version, bytes }: HeadManifest): LiftedVersion | undefined {
    if (!this.#keepsColumnThrough(version)) return undefined;
    const { manifest: shadow, name } = this.#staged;
    const { fresh } = this.#deps;
    return indexVersion(
      bytes,
      { shadow, name, builtFrom: this.#builtFrom },
      { transactionId: fresh.uuid(), committedAtMs: committedAtMs(fresh) },
    );
  }

  #keepsColumnThrough(version: number): boolean {
    const after = this.#checkedThrough;
    const transactions = transactionsBetween(join(this.#deps.folder, '_versions'), after, version, version - after);
    if (!transactions.every((each) => each !== undefined && keepsColumn(each, this.#fieldId))) return false;
    this.#checkedThrough = Math.max(after, version);
    return true;
  }
}

/**
 * A compaction of some fragments, concurrently with writers: the engine compacts a clone of them (`shadow-manifest.ts`), however
 * long that takes, and then its new fragments replace the old ones in one commit. Rows that were deleted meanwhile are deleted in
 * the new fragments, too: compaction keeps the order of rows, so it is known which row is which.
 *
 * The commit takes milliseconds: as many as there are fragments to read the deletion vectors of. Indexes do not cover the
 * moved rows until they are rebuilt. If it fails, or is never made, nothing is changed.
 */

export interface CompactedVersion {
  readonly version: number;
  readonly removedFragments: number;
}

export class CompactedFragments {
  readonly #deps: ShadowCommitDeps;
  readonly #staged: StagedFragments;
  /** As they were staged. */
  readonly #then: LiveRowMap;
  readonly #now: LiveRowMap;
  #isKnown = true;

  private constructor(deps: ShadowCommitDeps, staged: StagedFragments, version: number) {
    const versions = join(deps.folder, '_versions');
    this.#deps = deps;
    this.#staged = staged;
    const ids = new Set(staged.groups.flatMap(({ before }) => before).map(({ id }) => id));
    this.#then = new LiveRowMap(versions, ids);
    this.#then.advance(version);
    this.#now = this.#then.copy();
  }

  /** undefined if the engine sees nothing to compact. Throws `NotReplaceable` for a table that only the engine may change. */
  static async prepare(
    deps: ShadowCommitDeps,
    version: number,
    ids: readonly number[],
  ): Promise<CompactedFragments | undefined> {
    const current = readManifest(join(deps.folder, '_versions'), version);
    if (current === undefined) return undefined;
    const staged = await deps.staging.compact(
      shadowManifest(current.bytes, { folder: deps.folder, version: 1, only: new Set(ids) }),
    );
    if (staged.groups.length === 0) {
      staged.discard();
      return undefined;
    }
    const compacted = new CompactedFragments(deps, staged, version);
    compacted.#catchUp();
    return compacted;
  }

  /**
   * Returns undefined, with nothing changed, if another program has changed the rows in a way that does not tell which row is
   * which. `version`: the newest one that is known.
   */
  async commit(version: number): Promise<CompactedVersion | undefined> {
    let removedFragments = 0;
    try {
      const made = await this.#deps.commit.commitOnHead(version, this.#staged.folder, (head) => {
        const groups = this.#groupsAt(head.version);
        removedFragments = groups.reduce((sum, { before, after }) => sum + before.length - after.length, 0);
        return groups.some(({ before }) => before.length > 0) ? this.#versionAfter(head, groups) : undefined;
      });
      return made === undefined ? undefined : { version: made, removedFragments };
    } catch (error) {
      // Another program has made the table one that only the engine may change.
      if (error instanceof NotReplaceable) return undefined;
      throw error;
    }
  }

  discard(): void {
    this.#staged.discard();
  }

  /** So that little is left to read for the commit. Whatever is wrong shows there. */
  #catchUp(): void {
    const newest = listVersions(this.#versionsFolder).at(-1);
    if (newest !== undefined) this.#isKnown = this.#now.advance(newest).isKnown;
  }

  /** None where it is not known which row is which. */
  #groupsAt(version: number): readonly CompactedGroup[] {
    this.#isKnown &&= this.#now.advance(version).isKnown;
    if (!this.#isKnown) return [];
    const deleted = this.#deletedMeanwhile();
    return this.#staged.groups.map((group) => this.#groupWith(deleted, group));
  }

  /** The deletion vectors have the ids that this version gives the new fragments, so each attempt writes its own. */
  #versionAfter({ bytes: current }: HeadManifest, groups: readonly CompactedGroup[]): LiftedVersion {
    const { fresh } = this.#deps;
    const next = nextManifest(current, {
      deletions: new Map(groups.flatMap(({ before }) => before.map((id) => [id, 'all rows'] as const))),
      staged: this.#staged.manifest,
      groups,
      transactionId: fresh.uuid(),
      committedAtMs: committedAtMs(fresh),
    });
    const deletions = groups
      .flatMap(({ after }) => after)
      .flatMap(({ deletions: file, bitmap }, at) => {
        const fragment = next.fragments[at]?.id;
        if (file === undefined || bitmap === undefined || fragment === undefined) return [];
        return deletionsFile(this.#staged.folder, fragment, file, bitmap);
      });
    writeFiles(deletions);
    const written = deletions.map(({ path }) => relative(this.#staged.folder, path));
    return { ...next, files: [...this.#dataFiles, ...written].map(asLifted) };
  }

  get #dataFiles(): readonly string[] {
    const { files } = parseManifest(this.#staged.manifest);
    return files
      .filter(({ kind, baseId }) => kind === 'data' && baseId === undefined)
      .map(({ path }) => `data/${path}`);
  }

  get #versionsFolder(): string {
    return join(this.#deps.folder, '_versions');
  }

  /** In the new fragments, by their staged ids. A fragment that is gone has lost all its rows, wherever they are now. */
  #deletedMeanwhile(): ReadonlyMap<number, DeletionVector> {
    const deleted = new Map(this.#targets().map(({ id, rows }) => [id, new DeletionVector(rows)]));
    const moves = this.#moves();
    const mark = (place: RowAddress): void => {
      const now = moves.placeOf(place);
      if (now !== undefined) deleted.get(now.fragment)?.add(now.offset);
    };
    for (const { id: fragment } of this.#staged.groups.flatMap(({ before }) => before)) {
      const then = this.#then.deletedIn(fragment);
      const now = this.#now.deletedIn(fragment);
      if (then === undefined) throw new MalformedFile(`no fragment ${fragment}`);
      if (now === undefined) for (const place of this.#then.rowsOf(fragment)) mark(place);
      else for (const offset of now.addedSince(then)) mark({ fragment, offset });
    }
    return deleted;
  }

  #targets(): readonly RewrittenFragment[] {
    return this.#staged.groups.flatMap(({ after }) => after);
  }

  #moves(): CompactionRemap {
    const targets = this.#targets().map(({ id, rows }) => [id, asTracked(rows)] as const);
    const moves = new CompactionRemap(this.#then.fragments, new Map(targets), this.#staged.groups);
    if (this.#targets().some(({ id }) => !moves.isTarget(id))) throw new MalformedFile('rows that do not add up');
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
    const deletions = { readVersion: this.#now.version, id: randomId(this.#deps.fresh), deletedRows: vector.count };
    return { id, deletions, bitmap: vector.toBitmap() };
  }
}

/** With the content of the deletion vectors. */
interface CompactedGroup extends MovedGroup {
  readonly after: readonly (MovedGroup['after'][number] & { readonly bitmap: Buffer | undefined })[];
}

const asLifted = (path: string): LiftedFile => ({ from: path, to: path });

const asTracked = (rows: number): Tracked => ({ rows, deleted: new DeletionVector(rows), deletionsId: undefined });
