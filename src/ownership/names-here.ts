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

export const keyOf = ({ namespace, name }: TableRef): string => JSON.stringify([...namespace, name]);
