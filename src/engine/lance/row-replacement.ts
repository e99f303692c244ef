/**
 * The commit that replaces rows by their places: the engine writes the new rows, and this puts them in place with the lists
 * of deleted rows, the transaction and the manifest that an update has. The engine's own merge first has to find the rows,
 * which takes it five to ten times as long as everything here (docs/adr/0015).
 *
 * The commit is one `link` of the manifest to its name, which fails if the version is there already: so either nobody has
 * committed since the version that the places are of, or nothing happens. That is how the engine and other programs commit
 * on a file system, too, and it is never a guess: other people's commits are not rebased on, save those that leave all rows
 * where they are. Before the link nothing refers to the files that were written; they are removed, and those that a crash
 * leaves are found by start-up recovery. Files are made durable by whoever made the commit (`durability.ts`).
 *
 * Files are written at once, into the memory of the operating system: some 0.05 ms each, where a turn of the thread pool for
 * each of their three calls takes 1 ms beside everything else that goes on (measured, 30 files).
 */
import { linkSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { IpcFile } from '../../arrow/source.ts';
import type { Replaced, Replacing, RowPlace } from '../port.ts';
import { listVersions, manifestNames, readManifest } from './manifest-files.ts';
import { type DeletionFile, type NextManifest, NotReplaceable, nextManifest } from './next-manifest.ts';
import { keepsEveryPlace } from './row-change.ts';
import type { StagedRows, Staging } from './staging.ts';
import type { FragmentRows } from './tracked-rows.ts';

/** What is new each time. */
export interface Fresh {
  nowMs(): number;
  /** Version 4, which is random. */
  uuid(): string;
}

/** Indexes that are finished one after the other just then; more is no coincidence. */
const mostAttempts = 5;

/** Some 2 ms of work, after which others have a turn of the event loop (P10). */
const filesPerTurn = 32;

/** What a fragment's list of deleted rows becomes; undefined where no row is left. */
type Deletion = { readonly listed: DeletionFile; readonly bitmap: Buffer; readonly path: string } | undefined;

export class RowReplacement {
  readonly #folder: string;
  readonly #versionsFolder: string;
  readonly #staging: Staging;
  readonly #fresh: Fresh;
  #hasFolders = false;

  /** `folder`: of the dataset, or of the branch in it. */
  constructor(folder: string, staging: Staging, fresh: Fresh) {
    this.#folder = folder;
    this.#versionsFolder = join(folder, '_versions');
    this.#staging = staging;
    this.#fresh = fresh;
  }

  /** As `Dataset.replaceRows`. */
  async commit(tracked: FragmentRows, places: Iterable<RowPlace>, file: IpcFile, rows: number): Promise<Replacing> {
    this.#makeFolders();
    const staged = await this.#staging.stage(file);
    try {
      if (staged.rows !== rows || !this.#fits(tracked, staged)) return 'refused';
      return await this.#commitStaged(tracked, places, staged);
    } finally {
      staged.discard();
    }
  }

  /** A dataset that was only created, and a branch without commits of its own, do not have all of them. */
  #makeFolders(): void {
    if (this.#hasFolders) return;
    for (const name of ['data', '_deletions', '_transactions'])
      mkdirSync(join(this.#folder, name), { recursive: true });
    this.#hasFolders = true;
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
    const files = [...deletions.values()].filter((deletion) => deletion !== undefined);
    const written = files.map(({ path }) => path);
    try {
      for (const [index, { path, bitmap }] of files.entries()) {
        if (index % filesPerTurn === filesPerTurn - 1) await setImmediate();
        writeFileSync(path, bitmap);
      }
      written.push(...staged.moveTo(join(this.#folder, 'data')));
      const made = this.#commitOnNewest(tracked, deletions, staged);
      if (made !== undefined) written.length = 0;
      return made ?? 'overtaken';
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
      if (this.#link(next)) {
        const { version, fragments } = next;
        tracked.committed(version, new Map([...deletions].map(([id, each]) => [id, each?.listed.id])), fragments);
        this.#hint(version);
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
    if (current === undefined) return undefined;
    const next = nextManifest(current.bytes, {
      deletions: new Map([...deletions].map(([id, each]) => [id, each?.listed ?? 'all rows'])),
      staged: staged.manifest,
      transactionId: this.#fresh.uuid(),
      committedAtMs: this.#fresh.nowMs(),
    });
    const scheme = manifestNames(tracked.version).indexOf(basename(current.path));
    return { ...next, name: manifestNames(next.version)[scheme === 1 ? 1 : 0] };
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
    const listed = { readVersion: tracked.version, id: this.#randomId(), deletedRows: deleted.count };
    const name = `${fragment}-${listed.readVersion}-${listed.id}.bin`;
    return { listed, bitmap: deleted.toBitmap(), path: join(this.#folder, '_deletions', name) };
  }

  /** As random as the last 64 bits of a UUID are, of which two are not. */
  #randomId(): bigint {
    return BigInt(`0x${this.#fresh.uuid().replaceAll('-', '').slice(-16)}`);
  }

  /** False where somebody else has made this version. */
  #link({ version, name, bytes, transaction, transactionFile }: Next): boolean {
    const transactionPath = join(this.#folder, '_transactions', transactionFile);
    const draft = join(this.#versionsFolder, `.tmp_${name}_${this.#fresh.uuid()}`);
    try {
      writeFileSync(transactionPath, transaction);
      writeFileSync(draft, bytes);
      linkSync(draft, join(this.#versionsFolder, name));
      return true;
    } catch (error) {
      // A file system over a network may have done what it says has failed.
      const stored = readManifest(this.#versionsFolder, version);
      if (stored?.bytes.equals(bytes) === true) return true;
      rmSync(transactionPath, { force: true });
      if (stored === undefined) throw error;
      return false;
    } finally {
      removeIfPossible(draft);
    }
  }

  /** Spares readers a listing of the folder. It may be old or missing, so nothing depends on whether it can be written. */
  #hint(version: number): void {
    const path = join(this.#versionsFolder, 'latest_version_hint.json');
    const draft = join(this.#versionsFolder, `.tmp_hint_${this.#fresh.uuid()}`);
    try {
      writeFileSync(draft, JSON.stringify({ version }));
      renameSync(draft, path);
    } catch {
      removeIfPossible(draft);
    }
  }
}

interface Next extends NextManifest {
  /** Of the manifest's file. */
  readonly name: string;
}

/** A draft that stays does no harm: nobody takes it for a manifest, and recovery removes it. */
function removeIfPossible(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // Whatever is wrong with the disk, the version is there or it is not.
  }
}
