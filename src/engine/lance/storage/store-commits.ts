import { mkdirSync, readdirSync, renameSync, statSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { isOutcomeUnknown } from '../../../kernel/errors.ts';
import { paired } from '../../../kernel/paired.ts';
import { nextManifestName } from '../../../lance-format/manifest/manifest-files.ts';
import type { NewVersion } from '../../../lance-format/manifest/next-manifest.ts';
import type { LiftedFile, LiftedVersion } from '../../../lance-format/shadow/lifted-version.ts';
import type { BranchCommits, PlacedRows, VersionTurn } from '../commit/branch-commits.ts';
import type { StagedRows } from '../commit/staging.ts';
import { type NewFile, removeFiles, writeFiles } from '../commit/version-commit.ts';
import type { BranchMirror } from '../store/branch-mirror.ts';

/**
 * On an object store, in two rounds of requests: all files that the version names, then its manifest, by a write that fails if there is
 * one. Nothing is read. The first round of a commit can be on its way with the second of the one before it.
 */
export class StoreCommits implements BranchCommits {
  readonly #mirror: BranchMirror;

  constructor(mirror: BranchMirror) {
    this.#mirror = mirror;
  }

  get uri(): string {
    return this.#mirror.uri;
  }

  /** Also into the mirror, where live rows are read from. */
  async write(files: readonly NewFile[]): Promise<void> {
    writeFiles(files);
    await Promise.all(files.map(({ path, content }) => this.#put(this.#within(path), content)));
  }

  remove(files: readonly NewFile[]): void {
    removeFiles(files);
    this.#forget(files.map(({ path }) => this.#within(path)));
  }

  place({ files }: StagedRows): PlacedRows {
    const names = files.map((path) => join('data', basename(path)));
    const uploads = paired(files, names).map(([path, name]) => this.#put(name, { path }));
    const done = Promise.all(uploads).then(() => undefined);
    return {
      done,
      remove: () => void Promise.allSettled(uploads).then(() => this.#forget(names)),
      moveBack: () => undefined,
    };
  }

  /** The next commit uploads its files while this one's manifest is written, which waits for the version before it. */
  async make(next: NewVersion, after: string, files?: Promise<unknown>, turn?: VersionTurn): Promise<boolean> {
    const { version, transaction, transactionFile, isRecorded = false } = next;
    const name = nextManifestName(after, version);
    const recorded = join('_transactions', transactionFile);
    const turned = turn?.isNext();
    turned?.catch(() => undefined); // it is awaited once the files are there
    await Promise.all([files, isRecorded ? undefined : this.#put(recorded, transaction)]);
    turn?.planned();
    if ((await turned) === false) {
      if (!isRecorded) this.#forget([recorded]);
      return false;
    }
    // The number may be free again that another program took long ago.
    const mustLook = this.#mirror.known !== undefined && !this.#mirror.isCurrent;
    const isMade = !mustLook && (await this.#makeVersion(next, name));
    if (!isMade) {
      this.#mirror.distrust();
      if (!isRecorded) this.#forget([recorded]);
    }
    return isMade;
  }

  async #makeVersion(next: NewVersion, name: string): Promise<boolean> {
    try {
      return await this.#mirror.makeVersion(next, name);
    } catch (error) {
      if (isOutcomeUnknown(error)) this.#mirror.unsettled(next.version);
      throw error;
    }
  }

  async lift(lifted: LiftedVersion, from: string, after: string): Promise<boolean> {
    const files = lifted.files.flatMap((file) => wholeFiles(file, from));
    if (files.some(isDeletions)) mkdirSync(join(this.#mirror.folder, deletionsFolder), { recursive: true });
    const uploads = files.map(({ from: path, to }) => this.#put(to, { path: join(from, path) }));
    const forget = (): void => {
      void Promise.allSettled(uploads).then(() => this.#forget(files.map(({ to }) => to)));
    };
    const isMade = await this.make(lifted, after, Promise.all(uploads)).catch((error: unknown) => {
      if (!isOutcomeUnknown(error)) forget();
      throw error;
    });
    if (isMade) this.#mirrorDeletions(files, from);
    else forget();
    return isMade;
  }

  async newest(): Promise<number | undefined> {
    return this.#mirror.newestToWrite();
  }

  #put(within: string, content: Parameters<BranchMirror['store']['put']>[1]): Promise<void> {
    return this.#mirror.store.put(`${this.#mirror.prefix}${within}`, content);
  }

  /** What stays is found by the removal of orphans. */
  #forget(within: readonly string[]): void {
    const keys = within.map((each) => `${this.#mirror.prefix}${each}`);
    void this.#mirror.store.delete(keys).catch(() => undefined);
  }

  #mirrorDeletions(files: readonly LiftedFile[], from: string): void {
    for (const file of files.filter(isDeletions)) {
      renameSync(join(from, file.from), join(this.#mirror.folder, file.to));
    }
  }

  #within(path: string): string {
    return relative(this.#mirror.folder, path);
  }
}

const deletionsFolder = '_deletions';
const isDeletions = ({ to }: LiftedFile): boolean => to.startsWith(`${deletionsFolder}/`);

/** The files of a folder by themselves. */
function wholeFiles({ from, to }: LiftedFile, folder: string): readonly LiftedFile[] {
  if (statSync(join(folder, from)).isFile()) return [{ from, to }];
  return readdirSync(join(folder, from)).flatMap((name) =>
    wholeFiles({ from: join(from, name), to: join(to, name) }, folder),
  );
}
