/**
 * The commit that replaces rows by their places: the engine writes the new rows, and this puts them in place with the lists
 * of deleted rows, the transaction and the manifest that an update has. The engine's own merge first has to find the rows,
 * which takes it five to ten times as long as everything here (docs/adr/0015).
 *
 * The commit is one `link` of the manifest to its name, which fails if the version is there already (`commit-link.ts`): so
 * either nobody has committed since the version that the places are of, or nothing happens. It is never a guess: other
 * people's commits are not rebased on, save those that leave all rows where they are. Before the link nothing refers to the
 * files that were written; they are removed, and those that a crash leaves are found by start-up recovery. Files are made
 * durable by whoever made the commit (`durability.ts`).
 *
 * The few files that every commit has are written in its turn of the event loop: a turn of the thread pool for each of their
 * three calls takes 1 ms beside everything else that goes on.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { IpcFile } from '../../arrow/source.ts';
import type { Replaced, Replacing, RowPlace } from '../places.ts';
import { CommitLink, committedAtMs, type Fresh, randomId } from './commit-link.ts';
import { deletionsFile } from './deletion-files.ts';
import type { FileWriter } from './file-writer.ts';
import { FragmentMove } from './fragment-move.ts';
import { NotReplaceable } from './manifest-draft.ts';
import { listVersions, readManifest } from './manifest-files.ts';
import type { NewFile } from './new-files.ts';
import { type DeletionFile, type NextManifest, nextManifest } from './next-manifest.ts';
import { keepsEveryPlace } from './row-change.ts';
import type { StagedRows, Staging } from './staging.ts';
import type { FragmentRows } from './tracked-rows.ts';

/** Indexes that are finished one after the other just then; more is no coincidence. */
const mostAttempts = 5;

/** What a fragment's list of deleted rows becomes; undefined where no row is left. */
type Deletion = { readonly listed: DeletionFile; readonly file: NewFile } | undefined;

export class RowReplacement {
  readonly #folder: string;
  readonly #versionsFolder: string;
  readonly #staging: Staging;
  readonly #files: FileWriter;
  readonly #fresh: Fresh;
  readonly #link: CommitLink;

  /** `folder`: of the dataset, or of the branch in it. */
  constructor(folder: string, staging: Staging, files: FileWriter, fresh: Fresh) {
    this.#folder = folder;
    this.#versionsFolder = join(folder, '_versions');
    this.#staging = staging;
    this.#files = files;
    this.#fresh = fresh;
    this.#link = new CommitLink(folder, fresh);
  }

  /** As `Dataset.replaceRows`. */
  async commit(tracked: FragmentRows, places: Iterable<RowPlace>, file: IpcFile, rows: number): Promise<Replacing> {
    const current = readManifest(this.#versionsFolder, tracked.version);
    if (current === undefined || !tracked.isOf(current.bytes)) return 'overtaken';
    const staged = await this.#staging.stage(file);
    try {
      if (staged.rows !== rows || !this.#fits(tracked, staged)) return 'refused';
      return await this.#commitStaged(tracked, places, staged);
    } finally {
      staged.discard();
    }
  }

  /** As `Dataset.prepareMove`, of this version; undefined also for a table that is for the engine alone. */
  async prepareMove(version: number, ids: readonly number[]): Promise<FragmentMove | undefined> {
    try {
      const parts = { folder: this.#folder, staging: this.#staging, fresh: this.#fresh };
      return await FragmentMove.prepare(parts, version, ids);
    } catch (error) {
      if (error instanceof NotReplaceable) return undefined;
      throw error;
    }
  }

  #fits(tracked: FragmentRows, staged: StagedRows): boolean {
    try {
      return this.#next(tracked, new Map(), staged) !== undefined;
    } catch (error) {
      if (error instanceof NotReplaceable) return false;
      throw error;
    }
  }

  async #commitStaged(tracked: FragmentRows, places: Iterable<RowPlace>, staged: StagedRows): Promise<Replacing> {
    const deletions = this.#markDeleted(tracked, places);
    const files = [...deletions.values()].flatMap((deletion) => deletion?.file ?? []);
    await this.#files.write(files);
    const written = files.map(({ path }) => path);
    try {
      written.push(...staged.moveTo(this.#folder));
      const made = this.#commitOnNewest(tracked, deletions, staged);
      if (made !== undefined) written.length = 0;
      return made ?? 'overtaken';
    } catch (error) {
      // Somebody else has made the table one that is for the engine alone.
      if (error instanceof NotReplaceable) return 'overtaken';
      throw error;
    } finally {
      for (const path of written) rmSync(path, { force: true });
    }
  }

  #commitOnNewest(
    tracked: FragmentRows,
    deletions: ReadonlyMap<number, Deletion>,
    staged: StagedRows,
  ): Replaced | undefined {
    for (let attempt = 0; attempt < mostAttempts; attempt++) {
      const next = this.#next(tracked, deletions, staged);
      if (next === undefined) return undefined;
      if (this.#link.commit(next, next.after)) {
        const { version, fragments } = next;
        tracked.committed(next, new Map([...deletions].map(([id, each]) => [id, each?.listed.id])), fragments);
        return { version, fragments };
      }
      const newest = listVersions(this.#versionsFolder).at(-1) ?? 0;
      if (newest <= tracked.version || !keepsEveryPlace(this.#versionsFolder, tracked.version, newest))
        return undefined;
      tracked.skipTo(newest);
    }
    return undefined;
  }

  /** undefined where the version before it is gone. */
  #next(tracked: FragmentRows, deletions: ReadonlyMap<number, Deletion>, staged: StagedRows): Next | undefined {
    const current = readManifest(this.#versionsFolder, tracked.version);
    if (current === undefined || !tracked.isOf(current.bytes)) return undefined;
    const next = nextManifest(current.bytes, {
      deletions: new Map([...deletions].map(([id, each]) => [id, each?.listed ?? 'all rows'])),
      staged: staged.manifest,
      transactionId: this.#fresh.uuid(),
      committedAtMs: committedAtMs(this.#fresh),
    });
    return { ...next, after: current.path };
  }

  #markDeleted(tracked: FragmentRows, places: Iterable<RowPlace>): ReadonlyMap<number, Deletion> {
    const fragments = new Set<number>();
    for (const place of places) {
      if (!tracked.markDeleted(place)) throw new Error(`no row at ${place.fragment}, ${place.offset}`);
      fragments.add(place.fragment);
    }
    return new Map([...fragments].map((fragment) => [fragment, this.#deletionIn(tracked, fragment)]));
  }

  #deletionIn(tracked: FragmentRows, fragment: number): Deletion {
    const deleted = tracked.deletionsOf(fragment);
    if (deleted === undefined) return undefined;
    const listed = { readVersion: tracked.version, id: randomId(this.#fresh), deletedRows: deleted.count };
    return { listed, file: deletionsFile(this.#folder, fragment, listed, deleted.toBitmap()) };
  }
}

interface Next extends NextManifest {
  /** The path of the manifest before it. */
  readonly after: string;
}
