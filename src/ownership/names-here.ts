import type { OwnedName, OwnedNames } from '../catalog/replica-port.ts';
import type { TableRef } from '../kernel/ids.ts';

/** The names that this replica believes to own, and their epochs. The catalog compares them with what it knows itself. */
export class NamesHere implements OwnedNames {
  readonly replica: string;
  readonly #names = new Map<string, OwnedName>();

  constructor(replica: string) {
    this.replica = replica;
  }

  epochOf(ref: TableRef): number | undefined {
    return this.#names.get(keyOf(ref))?.epoch;
  }

  add(name: OwnedName): void {
    this.#names.set(keyOf(name.ref), name);
  }

  remove(ref: TableRef): void {
    this.#names.delete(keyOf(ref));
  }
}

/** This replica owns the name, or is about to. */
export interface HeldName {
  readonly table: TableRef;
  /** `closing`: requests that learned that this replica is the owner may still lock the table, and no further request learns it. */
  status: 'claiming' | 'held' | 'closing' | 'leaving';
  /** Resolves when the name is held, or has been handed over. Never rejects. */
  steady: Promise<void>;
  /** When the name was claimed, or when its last handover failed because of work that was under way. */
  sinceMs: number;
  /** How many works need it that acquired it. Until they end it is handed over only at the end of the process. */
  works: number;
}

export const keyOf = ({ namespace, name }: TableRef): string => JSON.stringify([...namespace, name]);
