import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isOutcomeUnknown } from '../../../kernel/errors.ts';
import { nextManifestName } from '../../../lance-format/manifest/manifest-files.ts';
import type { NewVersion } from '../../../lance-format/manifest/next-manifest.ts';
import type { BranchCommits, CommitFile, PlacedFiles, VersionTurn } from '../commit/branch-commits.ts';
import { removeIfPossible, writeFiles } from '../commit/version-commit.ts';
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

  /** Deletion vectors also into the mirror, where live rows are read from. */
  place(files: readonly CommitFile[]): PlacedFiles {
    const all = files.flatMap(wholeFiles);
    const mirrored = all.flatMap(({ from, to }) =>
      to.startsWith('_deletions/')
        ? { path: join(this.#mirror.folder, to), content: from instanceof Uint8Array ? from : readFileSync(from) }
        : [],
    );
    writeFiles(mirrored);
    const uploads = all.map(({ from, to }) => this.#put(to, from instanceof Uint8Array ? from : { path: from }));
    return {
      done: Promise.all(uploads).then(() => undefined),
      takeBack: async () => {
        for (const { path } of mirrored) removeIfPossible(path);
        await Promise.allSettled(uploads);
        await this.#forget(all.map(({ to }) => to));
      },
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
      if (!isRecorded) void this.#forget([recorded]);
      return false;
    }
    // The number may be free again that another program took long ago.
    const mustLook = this.#mirror.known !== undefined && !this.#mirror.isCurrent;
    const isMade = !mustLook && (await this.#makeVersion(next, name));
    if (!isMade) {
      this.#mirror.distrust();
      if (!isRecorded) void this.#forget([recorded]);
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

  async newest(): Promise<number | undefined> {
    return this.#mirror.newestToWrite();
  }

  #put(within: string, content: Parameters<BranchMirror['store']['put']>[1]): Promise<void> {
    return this.#mirror.store.put(`${this.#mirror.prefix}${within}`, content);
  }

  /** What stays is found by the removal of orphans. */
  async #forget(within: readonly string[]): Promise<void> {
    const keys = within.map((each) => `${this.#mirror.prefix}${each}`);
    await this.#mirror.store.delete(keys).catch(() => undefined);
  }
}

/** The files of a folder by themselves. */
function wholeFiles({ from, to }: CommitFile): readonly CommitFile[] {
  if (from instanceof Uint8Array || statSync(from).isFile()) return [{ from, to }];
  return readdirSync(from).flatMap((name) => wholeFiles({ from: join(from, name), to: join(to, name) }));
}
