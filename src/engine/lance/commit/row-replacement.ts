/**
 * The commit that replaces rows by their addresses: the engine writes the new rows, and this adds the deletion vectors, the
 * transaction and the manifest that an update has. The engine's own merge would first have to find the rows, which takes it
 * several times as long (docs/design/key-index.md).
 *
 * The commit gives the manifest its name by a call that fails if the version is there already (`branch-commits.ts`): so
 * either no program has committed since the version that the addresses are of, or nothing happens. It never guesses: it
 * follows only those commits of other programs that leave all rows where they are. Before that call nothing refers to the files
 * that were written; a failed commit removes them, and start-up recovery finds those that a crash leaves. The caller makes the
 * commit durable (`durability.ts`).
 */
import { join } from 'node:path';
import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { isOutcomeUnknown } from '../../../kernel/errors.ts';
import type { RowAddress } from '../../../keys/address-remap.ts';
import { nextManifestName, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import {
  type DeletionFile,
  ifNotReplaceable,
  type NextManifest,
  nextManifest,
} from '../../../lance-format/manifest/next-manifest.ts';
import { overwriteVersion } from '../../../lance-format/shadow/lifted-version.ts';
import { keepsEveryAddress } from '../../../lance-format/transaction/transaction.ts';
import type { NewRows, PreparedRows, ReplaceOptions, Replacing, StagedSource } from '../../port/row-address.ts';
import { deletionsFile } from '../live-rows/deletion-files.ts';
import { LiveRowMap, type RowChanges } from '../live-rows/live-rows.ts';
import { type BranchCommits, mostAttempts, type VersionTurn } from './branch-commits.ts';
import { FileInStaging, type ReadStaged, RowsInStaging, SourceInStaging } from './staged-rows.ts';
import type { StagedRows, Staging } from './staging.ts';
import { type Fresh, type NewFile, newTransaction, randomId } from './version-commit.ts';

/** What the deletion vector of a fragment becomes; undefined where no row is left. */
type Deletion = { readonly listed: DeletionFile; readonly file: NewFile } | undefined;

/** The rows at the version of `tracked` that a commit deletes. An append deletes none, and other programs may know it as one. */
interface RowChange {
  readonly tracked: LiveRowMap;
  readonly changes: RowChanges;
  readonly deletions: ReadonlyMap<number, Deletion>;
  readonly isAppend: boolean;
  readonly options: ReplaceOptions;
}

interface ReplacementParts {
  /** The folder of the dataset, or of the branch in it. */
  readonly folder: string;
  readonly staging: Staging;
  readonly readStaged: ReadStaged;
  readonly commits: BranchCommits;
  readonly fresh: Fresh;
}

export class RowReplacement {
  readonly #parts: ReplacementParts;
  readonly #versionsFolder: string;
  /** The last commit was overtaken: the next one must take less time between its look at the rows and its manifest. */
  #wasOvertaken = false;

  constructor(parts: ReplacementParts) {
    this.#parts = parts;
    this.#versionsFolder = join(parts.folder, '_versions');
  }

  /** As `Dataset.prepareRows`. */
  prepare(rows: NewRows): PreparedRows {
    return new FileInStaging(this.#parts.staging, rows);
  }

  /** As `Dataset.stageSource`. */
  stageSource(columns: IpcFile | undefined): StagedSource {
    return new SourceInStaging(this.#parts.staging, columns, this.#parts.readStaged);
  }

  /** As `Dataset.replaceRows`. */
  async commit(
    tracked: LiveRowMap,
    addresses: Iterable<RowAddress>,
    rows: NewRows,
    options: ReplaceOptions = {},
  ): Promise<Replacing> {
    if (this.#manifestOf(tracked) === undefined) return 'overtaken';
    const changes = tracked.change();
    try {
      const deletions = this.#markDeleted(tracked, addresses);
      return await this.#commitPrepared({ tracked, changes, deletions, isAppend: false, options }, rows);
    } finally {
      tracked.takeBack(changes); // nothing, once it is committed
    }
  }

  /** As `Dataset.appendRows`, to the dataset at this version. No row that is there matters. */
  async append(version: number, rows: PreparedRows | StagedSource): Promise<Replacing> {
    const tracked = new LiveRowMap(this.#versionsFolder, new Set());
    tracked.advance(version);
    const options = { properties: this.#parts.fresh.noted?.() };
    const changes = tracked.change();
    const change: RowChange = { tracked, changes, deletions: new Map(), isAppend: true, options };
    if (rows instanceof SourceInStaging) return this.#commitMarked(change, await rows.rows());
    return 'file' in rows ? this.#commitPrepared(change, rows) : 'refused';
  }

  /** As `Dataset.overwriteRows`, of the dataset at this version. */
  async overwrite(version: number, source: StagedSource): Promise<Replacing> {
    const head = readManifest(this.#versionsFolder, version);
    if (head === undefined) return 'overtaken';
    if (!(source instanceof SourceInStaging)) return 'refused';
    const { manifest, folder } = source.staged();
    try {
      const next = overwriteVersion(head.bytes, manifest, newTransaction(this.#parts.fresh));
      if (!(await this.#parts.commits.lift(next, folder, head.path))) return 'overtaken';
      return { version: next.version, fragments: [] };
    } catch (error) {
      return ifNotReplaceable(error, 'refused');
    }
  }

  async #commitPrepared(change: RowChange, rows: NewRows): Promise<Replacing> {
    if (rows instanceof RowsInStaging) return this.#commitMarked(change, rows);
    const prepared = new FileInStaging(this.#parts.staging, rows);
    return this.#commitMarked(change, prepared).finally(() => prepared.discard());
  }

  /** The deletion vectors are written while the engine writes the new rows: neither needs the other. */
  async #commitMarked(change: RowChange, rows: RowsInStaging): Promise<Replacing> {
    const { commits } = this.#parts;
    const vectors = [...change.deletions.values()].flatMap((deletion) => deletion?.file ?? []);
    const writing = commits.write(vectors, this.#wasOvertaken ? 'in haste' : undefined);
    writing.catch(() => undefined); // the commit throws it
    let mayBeMade = false;
    try {
      const staged = await rows.staged;
      if (staged.rows !== rows.rows) return 'refused';
      const files = Promise.all([writing, rows.place(commits, staged)]);
      const made = await this.#commitOnNewest(change, staged, files);
      mayBeMade = typeof made === 'object';
      this.#wasOvertaken = made === 'overtaken';
      return made;
    } catch (error) {
      mayBeMade = isOutcomeUnknown(error);
      throw error;
    } finally {
      await Promise.allSettled([writing]);
      if (mayBeMade) rows.committed();
      else commits.remove(vectors);
    }
  }

  async #commitOnNewest(change: RowChange, staged: StagedRows, files: Promise<unknown>): Promise<Replacing> {
    const { tracked } = change;
    files.catch(() => undefined); // of a commit that does not wait for them
    for (let attempt = 0; attempt < mostAttempts; attempt++) {
      const next = this.#next(change, staged);
      // Another program has made the table one that only the engine may change, and so was first.
      if (next === 'refused' && attempt > 0) return 'overtaken';
      if (typeof next === 'string') return next;
      if (await this.#parts.commits.make(next, next.after, files, this.#turnOf(change, next))) {
        if (!isPlanned(change)) this.#plan(change, next);
        tracked.made();
        return { version: next.version, fragments: next.fragments };
      }
      if (!(await this.#canRepeat(change))) return 'overtaken';
    }
    return 'overtaken';
  }

  /** After a commit of another program that leaves all rows where they are; the change is on that then. */
  async #canRepeat(change: RowChange): Promise<boolean> {
    const { tracked, changes } = change;
    // What follows it is planned for this version, or the commit that it follows was not made.
    if (isPlanned(change) || !tracked.isUnderWay(changes)) return false;
    const newest = (await this.#parts.commits.newest()) ?? 0;
    if (newest <= tracked.version || !keepsEveryAddress(this.#versionsFolder, tracked.version, newest)) return false;
    tracked.skipTo(newest);
    return true;
  }

  #turnOf(change: RowChange, next: Next): VersionTurn | undefined {
    const { turn } = change.options;
    if (turn === undefined) return undefined;
    const planned = (): void => {
      if (!change.tracked.isUnderWay(change.changes)) return;
      this.#plan(change, next);
      turn.planned({ version: next.version, fragments: next.fragments });
    };
    return { planned, isNext: () => turn.isNext() };
  }

  #plan({ tracked, deletions }: RowChange, next: Next): void {
    const path = join(this.#versionsFolder, nextManifestName(next.after, next.version));
    const ids = new Map([...deletions].map(([id, each]) => [id, each?.listed.id] as const));
    tracked.plan({ ...next, path }, ids, next.fragments);
  }

  #next(
    { tracked, changes, deletions, isAppend, options }: RowChange,
    staged: StagedRows,
  ): Next | 'refused' | 'overtaken' {
    const current = this.#manifestOf(tracked);
    if (current === undefined || !tracked.isUnderWay(changes)) return 'overtaken';
    try {
      const next = nextManifest(current.bytes, {
        deletions: new Map([...deletions].map(([id, each]) => [id, each?.listed ?? 'all rows'])),
        staged: staged.manifest,
        isAppend,
        updated: options.updated,
        ...newTransaction(this.#parts.fresh),
        properties: options.properties,
      });
      return { ...next, after: current.path };
    } catch (error) {
      return ifNotReplaceable(error, 'refused');
    }
  }

  /** undefined where it is gone, or is now of another table. */
  #manifestOf(tracked: LiveRowMap): ReturnType<typeof readManifest> {
    const current = tracked.planned ?? readManifest(this.#versionsFolder, tracked.version);
    return current !== undefined && tracked.isOf(current.bytes) ? current : undefined;
  }

  #markDeleted(tracked: LiveRowMap, addresses: Iterable<RowAddress>): ReadonlyMap<number, Deletion> {
    const fragments = new Set<number>();
    for (const address of addresses) {
      if (!tracked.markDeleted(address)) throw new Error(`no row at ${address.fragment}, ${address.offset}`);
      fragments.add(address.fragment);
    }
    return new Map([...fragments].map((fragment) => [fragment, this.#deletionIn(tracked, fragment)]));
  }

  #deletionIn(tracked: LiveRowMap, fragment: number): Deletion {
    const deleted = tracked.deletionsOf(fragment);
    if (deleted === undefined) return undefined;
    const listed = { readVersion: tracked.version, id: randomId(this.#parts.fresh), deletedRows: deleted.count };
    return { listed, file: deletionsFile(this.#parts.folder, fragment, listed, deleted.toBitmap()) };
  }
}

const isPlanned = ({ changes }: RowChange): boolean => changes.planned !== undefined;

interface Next extends NextManifest {
  /** The path of the manifest before it. */
  readonly after: string;
}
