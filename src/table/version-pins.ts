import type { Layout } from '../engine/port/upkeep.ts';
import type { BranchName, TableId } from '../kernel/ids.ts';

interface BranchOfTable {
  readonly tableId: TableId;
  readonly branch: BranchName | undefined;
}

/** Something long is computed from such a version. */
interface Pin {
  readonly version: number;
  /** Its fragments are those up to this id. */
  readonly lastFragment: number;
}

/** Knows versions whose files must stay although they are old, and whose fragments maintenance does not rewrite. */
export class VersionPins {
  readonly #pins = new Map<string, Set<Pin>>();

  /** Pins a version with these fragments until the caller calls the returned function. */
  pin({ tableId, branch }: BranchOfTable, version: number, { fragments }: Pick<Layout, 'fragments'>): () => void {
    const pin: Pin = { version, lastFragment: Math.max(-1, ...fragments.map(({ id = -1 }) => id)) };
    const key = keyOf(tableId, branch);
    const pins = this.#pins.get(key) ?? new Set();
    this.#pins.set(key, pins.add(pin));
    return () => {
      pins.delete(pin);
      if (pins.size === 0 && this.#pins.get(key) === pins) this.#pins.delete(key);
    };
  }

  /** Returns the oldest pinned version of the branch; `Infinity` without any. */
  oldestVersion(branch: BranchOfTable): number {
    return Math.min(...this.#of(branch).map(({ version }) => version));
  }

  /** Returns the last fragment of all pinned versions of the branch; below every id without any. */
  lastFragment(branch: BranchOfTable): number {
    return Math.max(-1, ...this.#of(branch).map(({ lastFragment }) => lastFragment));
  }

  #of({ tableId, branch }: BranchOfTable): readonly Pin[] {
    return [...(this.#pins.get(keyOf(tableId, branch)) ?? [])];
  }
}

const keyOf = (tableId: TableId, branch: BranchName | undefined): string => JSON.stringify([tableId, branch ?? null]);
