import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { NotReplaceable } from '../../../lance-format/manifest/next-manifest.ts';
import type { MergeCounts } from '../../port/merge-spec.ts';
import { committedAtMs, type Fresh } from '../commit/commit-link.ts';
import type { LiftedCommit } from '../commit/lifted-commit.ts';
import { LocalShadow, type LocalShadowParts, type ReaderMerge } from './local-shadow.ts';
import type { ShadowFolders } from './shadow-folders.ts';

export interface BranchShadowsParts {
  readonly branchFolder: string;
  readonly versionsFolder: string;
  readonly folders: ShadowFolders;
  readonly commit: LiftedCommit;
  readonly fresh: Fresh;
  /** In a shadow, by its name. Without it, merges with clients' filters run in this process. */
  readonly mergeInReader: ((shadow: string, merge: ReaderMerge) => Promise<MergeCounts>) | undefined;
}

/** Who asks for a shadow. */
export type ShadowUser = Pick<LocalShadowParts, 'usesIndex' | 'onCommit'>;

/** Makes the shadows of one branch on a file system. */
export class BranchShadows {
  readonly #parts: BranchShadowsParts;

  constructor(parts: BranchShadowsParts) {
    this.#parts = parts;
  }

  /** undefined where there can be none: the version is gone, or the table is one for the engine alone. */
  async begin(version: number, user: ShadowUser): Promise<LocalShadow | undefined> {
    const { branchFolder, versionsFolder, folders, commit, mergeInReader } = this.#parts;
    const found = readManifest(versionsFolder, version);
    if (found === undefined) return undefined;
    const folder = folders.take(branchFolder);
    try {
      const shadowVersion = await folder.begin({ version, bytes: found.bytes });
      return new LocalShadow({
        folder,
        original: { version, bytes: found.bytes },
        shadowVersion,
        ...user,
        mergeInReader: mergeInReader && ((merge) => mergeInReader(folder.name, merge)),
        commit: (lifted, from) => commit.commit(lifted, from, found.path),
        release: () => folders.release(branchFolder, folder),
        newTransaction: () => this.#newTransaction(),
      });
    } catch (error) {
      folder.remove();
      if (error instanceof NotReplaceable) return undefined;
      throw error;
    }
  }

  /** Reads an index into memory for the next shadows. False where there can be none. */
  async warm(version: number, index: string): Promise<boolean> {
    const { branchFolder, versionsFolder, folders } = this.#parts;
    const original = readManifest(versionsFolder, version);
    if (original === undefined) return false;
    const folder = folders.take(branchFolder);
    try {
      await folder.begin({ version, bytes: original.bytes });
      await (await folder.table()).prewarmIndex(index);
      folders.release(branchFolder, folder);
      return true;
    } catch (error) {
      folder.remove();
      if (error instanceof NotReplaceable) return false;
      throw error;
    }
  }

  #newTransaction() {
    return { transactionId: this.#parts.fresh.uuid(), committedAtMs: committedAtMs(this.#parts.fresh) };
  }
}
