import type { BranchName, TableId } from '../kernel/ids.ts';

/** A version that something long is computed from. */
interface Pin {
  readonly version: number;
  /** Its fragments are those up to this id. */
  readonly lastFragment: number;
}

/** Versions whose files must stay although the versions are old, and whose fragments maintenance does not rewrite. */
export class VersionPins {
  readonly #pins = new Map<string, Set<Pin>>();

  /** Until the returned function is called, more than once if need be. */
  pin(tableId: TableId, branch: BranchName | undefined, pin: Pin): () => void {
    const key = keyOf(tableId, branch);
    const pins = this.#pins.get(key) ?? new Set();
    this.#pins.set(key, pins.add(pin));
    return () => {
      pins.delete(pin);
      if (pins.size === 0 && this.#pins.get(key) === pins) this.#pins.delete(key);
    };
  }

  /** The oldest one; `Infinity` without any. */
  oldestVersion(tableId: TableId, branch: BranchName | undefined): number {
    return Math.min(...this.#of(tableId, branch).map(({ version }) => version));
  }

  /** The last fragment of all pinned versions; below every id without any. */
  lastFragment(tableId: TableId, branch: BranchName | undefined): number {
    return Math.max(-1, ...this.#of(tableId, branch).map(({ lastFragment }) => lastFragment));
  }

  #of(tableId: TableId, branch: BranchName | undefined): readonly Pin[] {
    return [...(this.#pins.get(keyOf(tableId, branch)) ?? [])];
  }
}

const keyOf = (tableId: TableId, branch: BranchName | undefined): string => JSON.stringify([tableId, branch ?? null]);
