/**
 * Which versions came of moving rows and nothing else (`rewrite-fragments.ts`). Their transactions say that rows were
 * updated, as those of anybody do, so only who made them knows. What is forgotten is taken for a change: writers then read
 * the keys of their table again.
 */
export class MovedRows {
  readonly #versions = new Map<string, readonly number[]>();

  remember(versionsFolder: string, version: number): void {
    const before = this.#versions.get(versionsFolder) ?? [];
    this.#versions.delete(versionsFolder);
    this.#versions.set(versionsFolder, [...before, version].slice(-mostVersions));
    const [oldest] = this.#versions.keys();
    if (this.#versions.size > mostFolders && oldest !== undefined) this.#versions.delete(oldest);
  }

  has(versionsFolder: string, version: number): boolean {
    return this.#versions.get(versionsFolder)?.includes(version) === true;
  }

  /** Whatever comes to be there has versions of its own. */
  forgetBelow(folder: string): void {
    for (const path of this.#versions.keys()) if (path.startsWith(`${folder}/`)) this.#versions.delete(path);
  }
}

/** Writers look back over the commits since their own last one. */
const mostVersions = 16;
const mostFolders = 1_000;
