/**
 * Which rows differ between two versions, by their manifests and deletion vectors and those in between; the engine is asked nothing.
 *
 * The manifests are walked from the earlier to the later one, to know of each fragment where its rows come from: from a fragment of
 * the earlier version, from a commit in between, or, after a compaction, from the fragments that became it. Which rows are left is
 * compared at the end alone. So what was inserted and deleted in between, and what a restore brought back, is no difference.
 *
 * Where a column has the name of another one now, or another name, every row that is left is removed and new.
 *
 * No changed row is left out: where no transaction says where the rows of a fragment come from, they are new, and the rows of a fragment
 * that is gone are removed.
 */
import { dirname } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { DeletionVector } from '../../../lance-format/deletion/deletion-vector.ts';
import {
  areFieldsMoved,
  droppedFieldsIn,
  type FieldPaths,
  fieldPathsIn,
} from '../../../lance-format/manifest/column-files.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { type Manifest, parseManifest, type StoredFragment } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import {
  type RewriteGroup,
  type RewrittenFragment,
  rewriteGroupsOf,
  transactionsBetween,
} from '../../../lance-format/transaction/transaction.ts';
import type { RowsBetween, RowsOfFragment } from '../../port/dataset.ts';
import { readDeletedOffsets } from './deletion-files.ts';

/** Some 5 ms of work, after which other work of the event loop comes first (P10). */
const rowsPerTurn = 16_384;

/** Where the rows of a fragment come from. */
type FragmentOrigin =
  | { readonly kind: 'before'; readonly fragment: number }
  | { readonly kind: 'new'; readonly version: number }
  | {
      readonly kind: 'moved';
      readonly from: CompactedRows;
      readonly start: number;
      readonly living: Uint32Array | undefined;
    };

/** The fragments that a compaction took, one behind the other: only their rows that were left then. */
interface CompactedRows {
  readonly sources: readonly {
    readonly origin: FragmentOrigin;
    readonly end: number;
    readonly living: Uint32Array | undefined;
  }[];
}

/** `take`: has the manifest and the deletion vectors of a version in the local folder. undefined where `after` or `until` is not there. */
export async function rowsBetween(
  versionsFolder: string,
  after: number,
  until: number,
  take: (version: number) => Promise<unknown>,
): Promise<RowsBetween | undefined> {
  const walk = new VersionWalk(versionsFolder, after === 0);
  for (let version = after === 0 ? until : after; version <= until; version += 1) {
    await take(version);
    if (!walk.step(version) && (version === after || version === until)) return undefined;
    await setImmediate();
  }
  return walk.difference(until);
}

interface WalkedVersion {
  readonly paths: FieldPaths;
  readonly manifest: Manifest;
  readonly origins: ReadonlyMap<number, FragmentOrigin>;
}

class VersionWalk {
  readonly #versionsFolder: string;
  readonly #fromNothing: boolean;
  #first: Pick<WalkedVersion, 'paths' | 'manifest'> | undefined;
  #last: (WalkedVersion & { readonly number: number }) | undefined;
  /** A restore brings fragments back, so each that was seen is kept. */
  readonly #known = new Map<string, FragmentOrigin>();
  /** Fields of the first version whose values a compaction has left behind, since their column was dropped. Lance may give out their ids again. */
  readonly #lost = new Set<number>();

  /** `fromNothing`: the earlier version has no rows. */
  constructor(versionsFolder: string, fromNothing: boolean) {
    this.#versionsFolder = versionsFolder;
    this.#fromNothing = fromNothing;
  }

  /** False where there is no such version. */
  step(version: number): boolean {
    const file = readManifest(this.#versionsFolder, version);
    if (file === undefined) return false;
    const manifest = parseManifest(file.bytes);
    const moved = this.#movedTo(version, manifest);
    const origins = new Map<number, FragmentOrigin>();
    for (const each of manifest.fragments) {
      const known = this.#known.get(identityOf(each)) ?? moved.get(each.id);
      const origin = known ?? this.#originOf(each, version);
      this.#known.set(identityOf(each), origin);
      origins.set(each.id, origin);
    }
    const paths = fieldPathsIn(file.bytes);
    this.#first ??= { paths: new Map([...droppedFieldsIn(file.bytes), ...paths]), manifest };
    if (moved.size > 0) for (const id of this.#first.paths.keys()) if (!paths.has(id)) this.#lost.add(id);
    this.#last = { paths, manifest, origins, number: version };
    return true;
  }

  #originOf({ id }: StoredFragment, version: number): FragmentOrigin {
    const isFirst = this.#first === undefined && !this.#fromNothing;
    return isFirst ? { kind: 'before', fragment: id } : { kind: 'new', version };
  }

  /** The fragments that a compaction has made, where it is known which row became which. */
  #movedTo(version: number, manifest: Manifest): ReadonlyMap<number, FragmentOrigin> {
    const moved = new Map<number, FragmentOrigin>();
    const last = this.#last;
    if (last === undefined || last.number !== version - 1) return moved;
    const [transaction] = transactionsBetween(this.#versionsFolder, version - 1, version);
    const groups = transaction === undefined ? [] : (rewriteGroupsOf(transaction) ?? []);
    for (const group of groups) {
      for (const [id, origin] of this.#targetsOf(group, last, manifest)) moved.set(id, origin);
    }
    return moved;
  }

  *#targetsOf(
    group: RewriteGroup,
    last: WalkedVersion,
    manifest: Manifest,
  ): Iterable<readonly [id: number, origin: FragmentOrigin]> {
    const before = foundIn(last.manifest, group.before);
    const after = foundIn(manifest, group.after);
    if (before === undefined || after === undefined) return;
    let end = 0;
    const sources = before.map((fragment) => {
      end += livingIn(fragment);
      const origin = last.origins.get(fragment.id) ?? { kind: 'new', version: last.manifest.version };
      return { origin, end, living: this.#living(last.manifest, fragment) };
    });
    if (after.reduce((sum, fragment) => sum + livingIn(fragment), 0) !== end) return;
    let start = 0;
    for (const fragment of after) {
      yield [fragment.id, { kind: 'moved', from: { sources }, start, living: this.#living(manifest, fragment) }];
      start += livingIn(fragment);
    }
  }

  /** undefined where no row is deleted. */
  #living(manifest: Manifest, fragment: StoredFragment): Uint32Array | undefined {
    return fragment.deletions === undefined ? undefined : this.#deleted(manifest, fragment).living();
  }

  #deleted(manifest: Manifest, fragment: StoredFragment): DeletionVector {
    const offsets = readDeletedOffsets(manifest, dirname(this.#versionsFolder), fragment);
    return DeletionVector.of(fragment.rows, offsets);
  }

  async difference(until: number): Promise<RowsBetween> {
    const { manifest, origins } = this.#last ?? noVersion();
    const earlier = this.#earlierFragments();
    const added = new AddedRows();
    const compared = { earlier: this.#isEachRowChanged() ? noFragments : earlier, added, until };
    for (const fragment of manifest.fragments) {
      const origin = origins.get(fragment.id) ?? noVersion();
      const own = origin.kind === 'before' ? compared.earlier.get(origin.fragment) : undefined;
      if (origin.kind === 'moved') {
        await trace(fragment.id, origin, this.#deleted(manifest, fragment).living(), compared);
      } else if (own === undefined) {
        const version = origin.kind === 'new' ? origin.version : until;
        added.addAll(fragment.id, version, livingIn(fragment), this.#living(manifest, fragment));
      } else {
        const restored = own.compare(fragment, () => this.#deleted(manifest, fragment));
        added.addEach(fragment.id, until, restored);
      }
      await setImmediate();
    }
    return { removed: [...earlier.values()].flatMap((each) => each.removed()), added: [...added.fragments()] };
  }

  #earlierFragments(): ReadonlyMap<number, EarlierFragment> {
    if (this.#fromNothing) return noFragments;
    const { manifest } = this.#first ?? noVersion();
    const read = (each: StoredFragment) => new EarlierFragment(each, () => this.#deleted(manifest, each));
    return new Map(manifest.fragments.map((each) => [each.id, read(each)]));
  }

  #isEachRowChanged(): boolean {
    const [before, { paths }] = [this.#first?.paths ?? noVersion(), this.#last ?? noVersion()];
    return areFieldsMoved(before, paths) || [...this.#lost].some((id) => paths.has(id));
  }
}

const noFragments: ReadonlyMap<number, EarlierFragment> = new Map();

interface Difference {
  readonly earlier: ReadonlyMap<number, EarlierFragment>;
  readonly added: AddedRows;
  readonly until: number;
}

/** Where the rows of a compacted fragment come from, one by one. */
async function trace(
  fragment: number,
  origin: FragmentOrigin,
  living: Uint32Array,
  { earlier, added, until }: Difference,
): Promise<void> {
  for (const [row, offset] of living.entries()) {
    const place = placeOf(origin, offset);
    if (place.kind === 'new') added.add(fragment, place.version, offset);
    else if (earlier.get(place.fragment)?.leave(place.offset) !== true) added.add(fragment, until, offset);
    if (row % rowsPerTurn === rowsPerTurn - 1) await setImmediate();
  }
}

const noVersion = (): never => {
  throw new MalformedFile('no such rows between these versions');
};

/** A fragment of the earlier version, and which of its rows the later one has. */
class EarlierFragment {
  readonly #stored: StoredFragment;
  readonly #readDeleted: () => DeletionVector;
  #deleted: DeletionVector | undefined;
  /** Those of its rows that the later version has in other fragments. */
  #left: DeletionVector | undefined;
  /** Those of its rows that are gone, where the later version has the fragment itself. */
  #gone: Uint32Array | undefined;

  constructor(stored: StoredFragment, readDeleted: () => DeletionVector) {
    this.#stored = stored;
    this.#readDeleted = readDeleted;
  }

  /** The later version has the fragment itself. Returns the rows that were deleted before and are there again. */
  compare(later: StoredFragment, readDeleted: () => DeletionVector): Iterable<number> {
    this.#gone = new Uint32Array();
    if (later.deletions?.path === this.#stored.deletions?.path) return [];
    const deleted = readDeleted();
    this.#gone = Uint32Array.from(deleted.addedSince(this.#deletedRows()));
    return this.#deletedRows().addedSince(deleted);
  }

  /** Notes that the later version has the row. False where the earlier one has not. */
  leave(offset: number): boolean {
    if (this.#deletedRows().has(offset)) return false;
    this.#left ??= new DeletionVector(this.#stored.rows);
    this.#left.add(offset);
    return true;
  }

  removed(): readonly RowsOfFragment[] {
    const { id: fragment, rows } = this.#stored;
    const offsets =
      this.#gone ??
      this.#deletedRows()
        .living()
        .filter((offset) => this.#left?.has(offset) !== true);
    if (offsets.length === 0) return [];
    return [{ fragment, count: offsets.length, offsets: offsets.length === rows ? undefined : offsets }];
  }

  #deletedRows(): DeletionVector {
    this.#deleted ??= this.#readDeleted();
    return this.#deleted;
  }
}

type RowOrigin =
  | { readonly kind: 'before'; readonly fragment: number; readonly offset: number }
  | { readonly kind: 'new'; readonly version: number };

/** Where the row at this offset comes from. */
function placeOf(origin: FragmentOrigin, offset: number): RowOrigin {
  let [at, row] = [origin, offset];
  while (at.kind === 'moved') {
    const position = at.start + (at.living === undefined ? row : rankIn(at.living, row));
    const { sources } = at.from;
    const index = sources.findIndex(({ end }) => position < end);
    const source = sources[index] ?? noVersion();
    const among = position - (sources[index - 1]?.end ?? 0);
    row = source.living?.[among] ?? among;
    at = source.origin;
  }
  return at.kind === 'new' ? at : { kind: 'before', fragment: at.fragment, offset: row };
}

/** How many of the ascending numbers are less. */
function rankIn(ascending: Uint32Array, number: number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] ?? 0) < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The rows that are new, by fragment and by the version that brought them. */
class AddedRows {
  readonly #whole: (RowsOfFragment & { readonly version: number })[] = [];
  readonly #some = new Map<
    string,
    { readonly fragment: number; readonly version: number; readonly offsets: number[] }
  >();

  addAll(fragment: number, version: number, count: number, offsets: Uint32Array | undefined): void {
    if (count > 0) this.#whole.push({ fragment, version, count, offsets });
  }

  addEach(fragment: number, version: number, offsets: Iterable<number>): void {
    for (const offset of offsets) this.add(fragment, version, offset);
  }

  add(fragment: number, version: number, offset: number): void {
    const key = `${fragment} ${version}`;
    const found = this.#some.get(key) ?? { fragment, version, offsets: [] };
    if (found.offsets.length === 0) this.#some.set(key, found);
    found.offsets.push(offset);
  }

  *fragments(): Iterable<RowsOfFragment & { readonly version: number }> {
    yield* this.#whole;
    for (const { fragment, version, offsets } of this.#some.values()) {
      yield { fragment, version, count: offsets.length, offsets: Uint32Array.from(offsets) };
    }
  }
}

const identityOf = ({ id, content }: StoredFragment): string => `${id} ${content}`;

const livingIn = ({ rows, deletedRows }: StoredFragment): number => rows - deletedRows;

/** undefined unless all have the deletion vectors that the compaction knew. */
function foundIn(
  { fragments }: Manifest,
  rewritten: readonly RewrittenFragment[],
): readonly StoredFragment[] | undefined {
  const ids = new Map(rewritten.map((each) => [each.id, each]));
  const byId = new Map(fragments.filter(({ id }) => ids.has(id)).map((each) => [each.id, each]));
  const found = rewritten.flatMap(({ id, deletionsId }) => {
    const fragment = byId.get(id);
    return fragment === undefined || fragment.deletionsId !== deletionsId ? [] : [fragment];
  });
  return found.length === rewritten.length ? found : undefined;
}
