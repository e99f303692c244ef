import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { stagingFolder } from '../../../lance-format/manifest/manifest-files.ts';
import type { NativeConnection } from '../native/native.ts';
import { ShadowFolder } from './shadow-folder.ts';

/** Each keeps an open dataset with its manifest, and a few files. */
const mostKept = 32;

/** The folders of shadows that no shadow uses just now: one for each branch, the least recently used removed first. */
export class ShadowFolders {
  readonly #connect: (folder: string) => Promise<NativeConnection>;
  /** By the folder of the branch. */
  readonly #kept = new Map<string, ShadowFolder>();

  /** `connect`: to datasets in a folder, with the engine's present caches. */
  constructor(connect: (folder: string) => Promise<NativeConnection>) {
    this.#connect = connect;
  }

  /** The one that was kept, or a new one. It is the caller's alone until `release`. */
  take(branchFolder: string): ShadowFolder {
    const kept = this.#kept.get(branchFolder);
    this.#kept.delete(branchFolder);
    // A branch that was deleted took its folder along; the engine's caches would be wrong for another one at its path.
    if (kept !== undefined && existsSync(kept.path)) return kept;
    kept?.remove();
    const within = stagingFolder(branchFolder);
    return new ShadowFolder(randomUUID(), branchFolder, within, () => this.#connect(within));
  }

  release(branchFolder: string, folder: ShadowFolder): void {
    this.#kept.get(branchFolder)?.remove();
    this.#kept.delete(branchFolder);
    this.#kept.set(branchFolder, folder);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > mostKept && oldest !== undefined) this.#forget(oldest);
  }

  /** Of a dataset and its branches that are about to go, or with caches that were replaced; by default all. */
  forgetBelow(datasetPath = ''): void {
    for (const branchFolder of this.#kept.keys()) {
      if (branchFolder === datasetPath || branchFolder.startsWith(datasetPath && `${datasetPath}/`))
        this.#forget(branchFolder);
    }
  }

  #forget(branchFolder: string): void {
    this.#kept.get(branchFolder)?.remove();
    this.#kept.delete(branchFolder);
  }
}
