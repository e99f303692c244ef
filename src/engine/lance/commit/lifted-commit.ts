import { existsSync, statSync } from 'node:fs';
import { mkdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { manifestNames } from '../../../lance-format/manifest/manifest-files.ts';
import type { LiftedVersion } from '../../../lance-format/shadow/shadow-manifest.ts';
import type { CommitLink } from './commit-link.ts';
import { removeIfPossible } from './new-files.ts';

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
   * False where another program has made this version; then, and after an error, the files are gone. `from`: folder of the shadow.
   * `after`: path of the manifest before it.
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
      if (!isMade) for (const path of targets) removeIfPossible(path);
    }
  }

  async #move({ files }: LiftedVersion, from: string): Promise<void> {
    for (const folder of new Set(files.map(({ to }) => dirname(join(this.#folder, to))))) {
      await mkdir(folder, { recursive: true });
    }
    const moves = files.map((file) => rename(join(from, file.from), join(this.#folder, file.to)));
    const failed = (await Promise.allSettled(moves)).find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }
}
