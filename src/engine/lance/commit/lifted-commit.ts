import { existsSync, renameSync, statSync } from 'node:fs';
import { mkdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { listVersions, manifestNames, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import type { LiftedVersion } from '../../../lance-format/shadow/shadow-manifest.ts';
import type { CommitLink } from './commit-link.ts';
import { removeIfPossible } from './new-files.ts';

export interface HeadManifest {
  readonly version: number;
  readonly bytes: Buffer;
  /** Of its manifest. */
  readonly path: string;
}

/** Other programs would have to be quick to commit before it so often. */
const mostAttempts = 8;

/** Commits what was made in a shadow on the same file system. */
export class LiftedCommit {
  readonly #folder: string;
  readonly #link: CommitLink;
  readonly #beginSync: (paths: readonly string[]) => void;

  /** `folder`: of the dataset, or of the branch in it. */
  constructor(folder: string, link: CommitLink, beginSync: (paths: readonly string[]) => void) {
    this.#folder = folder;
    this.#link = link;
    this.#beginSync = beginSync;
  }

  /**
   * False where another program has made this version; then, and after an error, the files are in the shadow again. `from`: folder
   * of the shadow. `after`: path of the manifest before it.
   */
  async commit(lifted: LiftedVersion, from: string, after: string): Promise<boolean> {
    if (manifestNames(lifted.version).some((name) => existsSync(join(dirname(after), name)))) return false;
    const targets = lifted.files.map(({ to }) => join(this.#folder, to));
    let isMade = false;
    try {
      await this.#move(lifted, from);
      this.#beginSync(targets.filter((path) => statSync(path).isFile()));
      isMade = this.#link.commit(lifted, after);
      return isMade;
    } finally {
      if (!isMade) this.#moveBack(lifted, from);
    }
  }

  /**
   * As `commit`, of what may follow any version: after a commit of another program `make` runs again. `version`: the newest one
   * that is known. Returns the version made; undefined if `make` returns nothing, or if too many others came first.
   */
  async commitOnHead(
    version: number,
    from: string,
    make: (head: HeadManifest) => LiftedVersion | undefined,
  ): Promise<number | undefined> {
    const versionsFolder = join(this.#folder, '_versions');
    let newest: number | undefined = version;
    for (let attempt = 0; attempt < mostAttempts && newest !== undefined; attempt += 1) {
      const head = readManifest(versionsFolder, newest);
      const lifted = head && make({ version: newest, ...head });
      if (head === undefined || lifted === undefined) return undefined;
      if (await this.commit(lifted, from, head.path)) return lifted.version;
      newest = listVersions(versionsFolder).at(-1);
    }
    return undefined;
  }

  async #move({ files }: LiftedVersion, from: string): Promise<void> {
    for (const folder of new Set(files.map(({ to }) => dirname(join(this.#folder, to))))) {
      await mkdir(folder, { recursive: true });
    }
    const moves = files.map((file) => rename(join(from, file.from), join(this.#folder, file.to)));
    const failed = (await Promise.allSettled(moves)).find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }

  /** What was not moved is where it was. */
  #moveBack({ files }: LiftedVersion, from: string): void {
    for (const file of files) {
      const path = join(this.#folder, file.to);
      try {
        renameSync(path, join(from, file.from));
      } catch {
        removeIfPossible(path);
      }
    }
  }
}
