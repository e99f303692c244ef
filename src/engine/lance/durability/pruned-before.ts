import { LRUCache } from 'lru-cache';
import { FileSpans } from '../store/file-spans.ts';

interface KnownOfBranch {
  readonly spans: FileSpans;
  orphansSearchedAtMs: number;
  forgetVersions(): void;
}

/** Some 200 bytes each. */
const mostNames = 200_000;

/**
 * What the last removals of versions read of the branches in folders, so that the next one reads what is new. It is bounded (P7): of a
 * branch that is forgotten, or too large for it, the next removal reads all.
 */
export class PrunedBefore {
  readonly #known = new LRUCache<string, KnownOfBranch>({ maxSize: mostNames });

  async remember<Result>(versionsFolder: string, prune: (known: KnownOfBranch) => Promise<Result>): Promise<Result> {
    const known = this.#known.get(versionsFolder) ?? {
      ...{ spans: new FileSpans(), orphansSearchedAtMs: 0 },
      forgetVersions: () => undefined,
    };
    try {
      return await prune(known);
    } finally {
      this.#known.set(versionsFolder, known, { size: 1 + known.spans.size });
    }
  }
}
