import type { DeletionVector } from '../../../lance-format/deletion/deletion-vector.ts';
import type { RewriteGroup, RewrittenFragment } from '../../../lance-format/transaction/transaction.ts';
import type { AddressRemap, RowAddress } from '../../port/row-address.ts';

/** A fragment as it is known. */
export interface Tracked {
  /** Deleted ones included. */
  readonly rows: number;
  readonly deleted: DeletionVector;
  /** Tells one deletion vector from another; undefined for none. */
  readonly deletionsId: bigint | undefined;
}

type Fragments = ReadonlyMap<number, Tracked>;

/** A fragment that was compacted. */
interface Source {
  /** How many rows of its group came before its own. */
  readonly start: number;
  readonly deleted: DeletionVector;
  readonly targets: readonly Target[];
}

interface Target {
  readonly id: number;
  /** Which rows of the group it has, deleted ones not counted. */
  readonly start: number;
  readonly end: number;
  /** The offsets of those, where some of its rows are deleted. */
  readonly offsets: Uint32Array | undefined;
}

/**
 * Where compactions moved rows: the rows of a group that are not deleted have the same order before and after. A group counts only
 * if all its fragments are known and their rows add up; the old fragments of any other count as gone, and the others as new.
 */
export class CompactionRemap implements AddressRemap {
  readonly #sources = new Map<number, Source>();
  readonly #targets = new Set<number>();
  #rows = 0;
  #bytes = 0;

  constructor(before: Fragments, after: Fragments, groups: readonly RewriteGroup[]) {
    for (const group of groups) this.#add(known(before, group.before), known(after, group.after));
  }

  get isEmpty(): boolean {
    return this.#sources.size === 0;
  }

  get rows(): number {
    return this.#rows;
  }

  get bytes(): number {
    return this.#bytes;
  }

  fragments(): Iterable<number> {
    return this.#sources.keys();
  }

  hasMoved(fragment: number): boolean {
    return this.#sources.has(fragment);
  }

  fragmentsOf(fragment: number): readonly number[] {
    return this.#sources.get(fragment)?.targets.map(({ id }) => id) ?? [];
  }

  isTarget(fragment: number): boolean {
    return this.#targets.has(fragment);
  }

  placeOf(address: RowAddress): RowAddress | undefined {
    const source = this.#sources.get(address.fragment);
    if (source === undefined) return address;
    if (source.deleted.has(address.offset)) return undefined;
    const position = source.start + source.deleted.livingBefore(address.offset);
    const target = source.targets.find(({ end }) => position < end);
    if (target === undefined) return undefined;
    const among = position - target.start;
    return { fragment: target.id, offset: target.offsets?.[among] ?? among };
  }

  #add(sources: readonly Known[] | undefined, compacted: readonly Known[] | undefined): void {
    if (sources === undefined || compacted === undefined || livingIn(sources) !== livingIn(compacted)) return;
    const targets = targetsOf(compacted);
    let start = 0;
    for (const { id, tracked } of sources) {
      this.#sources.set(id, { start, deleted: tracked.deleted, targets });
      this.#bytes += tracked.deleted.bytes;
      start += living(tracked);
    }
    this.#rows += start;
    for (const { id, offsets } of targets) {
      this.#targets.add(id);
      this.#bytes += offsets?.byteLength ?? 0;
    }
  }
}

interface Known {
  readonly id: number;
  readonly tracked: Tracked;
}

/** undefined unless all have the deletion vectors that the compaction knew. */
function known(fragments: Fragments, rewritten: readonly RewrittenFragment[]): readonly Known[] | undefined {
  const found: Known[] = [];
  for (const { id, deletionsId } of rewritten) {
    const tracked = fragments.get(id);
    if (tracked === undefined || tracked.deletionsId !== deletionsId) return undefined;
    found.push({ id, tracked });
  }
  return found;
}

const living = ({ rows, deleted }: Tracked): number => rows - deleted.count;
const livingIn = (fragments: readonly Known[]): number =>
  fragments.reduce((sum, { tracked }) => sum + living(tracked), 0);

function targetsOf(compacted: readonly Known[]): readonly Target[] {
  let start = 0;
  return compacted.map(({ id, tracked }) => {
    const target = {
      id,
      start,
      end: start + living(tracked),
      offsets: tracked.deleted.count === 0 ? undefined : tracked.deleted.living(),
    };
    start = target.end;
    return target;
  });
}
