/**
 * The versions that are being removed just now, so that none of them is restored: a removal has looked for the files that other
 * versions name before it removes the rest, and does not look again. Both sides ask and note in one turn of the event loop.
 */
export class VersionsInRemoval {
  readonly #removals = new Map<string, Set<ReadonlySet<number>>>();

  /** Of the branch with this folder of manifests. The caller calls what it returns when the removal is over. */
  begin(versionsFolder: string, versions: ReadonlySet<number>): () => void {
    const ofBranch = this.#removals.get(versionsFolder) ?? new Set();
    this.#removals.set(versionsFolder, ofBranch.add(versions));
    return () => {
      ofBranch.delete(versions);
      if (ofBranch.size === 0 && this.#removals.get(versionsFolder) === ofBranch) this.#removals.delete(versionsFolder);
    };
  }

  has(versionsFolder: string, version: number): boolean {
    return [...(this.#removals.get(versionsFolder) ?? [])].some((versions) => versions.has(version));
  }
}
