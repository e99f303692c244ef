/**
 * The versions that are being removed just now, so that none of them is restored: a removal has looked for the files that other
 * versions name before it removes the rest, and does not look again. Both sides ask and note in one turn of the event loop.
 */
export class VersionsInRemoval {
  readonly #removals = new Map<string, Set<ReadonlySet<number>>>();
  /** Versions that are being restored, by the branch and the number. */
  readonly #inUse = new Map<string, number>();

  /** Of the branch with this folder of manifests. The caller calls what it returns when the removal is over. */
  begin(versionsFolder: string, versions: ReadonlySet<number>): () => void {
    const ofBranch = this.#removals.get(versionsFolder) ?? new Set();
    this.#removals.set(versionsFolder, ofBranch.add(versions));
    return () => {
      ofBranch.delete(versions);
      if (ofBranch.size === 0 && this.#removals.get(versionsFolder) === ofBranch) this.#removals.delete(versionsFolder);
    };
  }

  /** The version is being restored, and is not to be removed before the caller calls what this returns. */
  use(versionsFolder: string, version: number): () => void {
    const key = `${versionsFolder} ${version}`;
    this.#inUse.set(key, (this.#inUse.get(key) ?? 0) + 1);
    return () => {
      const left = (this.#inUse.get(key) ?? 1) - 1;
      if (left === 0) this.#inUse.delete(key);
      else this.#inUse.set(key, left);
    };
  }

  isInUse(versionsFolder: string, version: number): boolean {
    return this.#inUse.has(`${versionsFolder} ${version}`);
  }

  has(versionsFolder: string, version: number): boolean {
    return [...(this.#removals.get(versionsFolder) ?? [])].some((versions) => versions.has(version));
  }
}
