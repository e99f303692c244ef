import { dirname } from 'node:path';
import type { AddressRemap, RowAddress } from '../../../keys/address-remap.ts';
import { DeletionVector } from '../../../lance-format/deletion/deletion-vector.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { type Manifest, parseManifest, type StoredFragment } from '../../../lance-format/manifest/parse-manifest.ts';
import { MalformedFile } from '../../../lance-format/protobuf.ts';
import {
  mostVersionsFollowed,
  type RewriteGroup,
  type RewrittenFragment,
  rewriteGroupsOf,
  transactionsBetween,
} from '../../../lance-format/transaction/transaction.ts';
import type { LiveRows, LiveRowsChange } from '../../port/row-address.ts';
import { readDeletedOffsets } from './deletion-files.ts';

/** A fragment of a live-row map. */
export interface Tracked {
  /** Deleted ones included. */
  readonly rows: number;
  readonly deleted: DeletionVector;
  /** Tells one deletion vector from another; undefined for none. */
  readonly deletionsId: bigint | undefined;
}

type Fragments = ReadonlyMap<number, Tracked>;

/** A manifest, and the path that its name is of. */
export interface ManifestFile {
  readonly bytes: Buffer;
  readonly path: string;
}

/** A commit on its way into a live-row map. */
interface RowChanges {
  /** What the map was before. */
  readonly before: { readonly version: number; readonly manifest: Buffer | undefined; readonly fragments: Fragments };
  readonly deleted: readonly RowAddress[];
  /** The manifest, once it is known. */
  readonly planned: ManifestFile | undefined;
}

type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] };

/**
 * The fragments of one version of a branch and which of their rows are deleted, in memory: a bit for each row at the most. So rows
 * can be replaced by their addresses, and the key index knows which of its addresses still have a row.
 *
 * It follows the branch from manifest to manifest. If the commits between two versions do not say where the rows went, all
 * fragments count as new. Throws the errors of `node:fs`, and `MalformedFile`, and then stays at the version where it was.
 *
 * A commit can be planned before it is made, and the next one follows it here: to take the first back takes back both.
 */
export class LiveRowMap implements LiveRows {
  readonly #versionsFolder: string;
  readonly #only: ReadonlySet<number> | undefined;
  #version = 0;
  /** Commits under way made them; the oldest is first. */
  #changes: (Writable<Omit<RowChanges, 'deleted'>> & { readonly deleted: RowAddress[] })[] = [];
  /** Whole: another table in the same folder may have a version of the same number, and the same fragments. */
  #manifest: Buffer | undefined;
  #fragments: ReadonlyMap<number, Tracked> = new Map();

  /** `only`: the other fragments are of no interest. */
  constructor(versionsFolder: string, only?: ReadonlySet<number>) {
    this.#versionsFolder = versionsFolder;
    this.#only = only;
  }

  /** Returns a map at the same version, which shares what this one has read. No commit must be under way. */
  copy(): LiveRowMap {
    const copy = new LiveRowMap(this.#versionsFolder, this.#only);
    copy.#version = this.#version;
    copy.#manifest = this.#manifest;
    copy.#fragments = this.#fragments;
    return copy;
  }

  get version(): number {
    return this.#version;
  }

  get bytes(): number {
    return this.#fragments.values().reduce((sum, { deleted }) => sum + deleted.bytes, this.#manifest?.length ?? 0);
  }

  has({ fragment, offset }: RowAddress): boolean {
    const tracked = this.#fragments.get(fragment);
    return tracked !== undefined && offset < tracked.rows && !tracked.deleted.has(offset);
  }

  get fragments(): ReadonlyMap<number, Tracked> {
    return this.#fragments;
  }

  hasFragment(id: number): boolean {
    return this.#fragments.has(id);
  }

  countRows(fragment: number): number {
    const tracked = this.#fragments.get(fragment);
    return tracked === undefined ? 0 : tracked.rows - tracked.deleted.count;
  }

  *rowsOf(fragment: number): Iterable<RowAddress> {
    const tracked = this.#fragments.get(fragment);
    for (let offset = 0; offset < (tracked?.rows ?? 0); offset++) {
      if (tracked?.deleted.has(offset) === false) yield { fragment, offset };
    }
  }

  advance(version: number): LiveRowsChange {
    const groups = this.#rewrittenSince(version);
    const before = groups === undefined ? new Map<number, Tracked>() : this.#fragments;
    const after = this.#read(version, before);
    const moves = new CompactionRemap(before, after, groups ?? []);
    const added = [...after.keys()].filter((id) => !before.has(id) && !moves.isTarget(id));
    this.#fragments = after;
    this.#version = version;
    return { added, isKnown: groups !== undefined, moved: moves.isEmpty ? undefined : moves };
  }

  /** undefined where there is no such fragment. */
  deletedIn(fragment: number): DeletionVector | undefined {
    return this.#fragments.get(fragment)?.deleted;
  }

  /** Whether this is the manifest that it was made of. */
  isOf(manifest: Buffer): boolean {
    return this.#manifest?.equals(manifest) === true;
  }

  /** The caller calls this if no commit since has changed or moved a row. */
  skipTo({ version, bytes }: { readonly version: number; readonly bytes: Buffer }): void {
    this.#manifest = bytes;
    this.#version = version;
  }

  /** Begins a commit, after those under way. It ends with `made` or `takeBack`. */
  change(): RowChanges {
    const before = { version: this.#version, manifest: this.#manifest, fragments: this.#fragments };
    const change = { before, deleted: [], planned: undefined };
    this.#changes.push(change);
    return change;
  }

  /** False once the commit was made or taken back. */
  isUnderWay(change: RowChanges): boolean {
    return this.#changes.some((each) => each === change);
  }

  /** The manifest of this version where that is planned and not made yet. */
  get planned(): ManifestFile | undefined {
    return this.#changes.findLast(({ planned }) => planned !== undefined)?.planned;
  }

  /** The newest commit under way deletes the row. Returns false if it was deleted before. */
  markDeleted(address: RowAddress): boolean {
    const isMarked = this.#fragments.get(address.fragment)?.deleted.add(address.offset) ?? false;
    if (isMarked) this.#changes.at(-1)?.deleted.push(address);
    return isMarked;
  }

  /** The map is as it was before the commit. Nothing, where that is not under way any more. */
  takeBack(change: RowChanges): void {
    while (this.isUnderWay(change)) {
      const last = this.#changes.pop();
      if (last === undefined) return;
      const { before, deleted } = last;
      this.#version = before.version;
      this.#manifest = before.manifest;
      this.#fragments = before.fragments;
      for (const { fragment, offset } of deleted) this.#fragments.get(fragment)?.deleted.remove(offset);
    }
  }

  /** `undefined` for a fragment none of whose rows is left. */
  deletionsOf(fragment: number): DeletionVector | undefined {
    const { rows, deleted } = this.#tracked(fragment);
    return deleted.count === rows ? undefined : deleted;
  }

  /** The newest commit under way makes this version with the deletions that were marked. */
  plan(
    { version, bytes, path }: ManifestFile & { readonly version: number },
    deletions: ReadonlyMap<number, bigint | undefined>,
    added: readonly { readonly id: number; readonly rows: number }[],
  ): void {
    const fragments = new Map(this.#fragments);
    for (const [id, deletionsId] of deletions) {
      if (deletionsId === undefined) fragments.delete(id);
      else fragments.set(id, { ...this.#tracked(id), deletionsId });
    }
    for (const { id, rows } of added) {
      fragments.set(id, { rows, deleted: new DeletionVector(rows), deletionsId: undefined });
    }
    this.#fragments = fragments;
    this.#version = version;
    this.#manifest = bytes;
    this.#changes.at(-1)!.planned = { bytes, path };
  }

  /** The oldest commit under way is made, as it was planned. */
  made(): void {
    this.#changes.shift();
  }

  #tracked(fragment: number): Tracked {
    const tracked = this.#fragments.get(fragment);
    if (tracked === undefined) throw new MalformedFile(`no fragment ${fragment}`);
    return tracked;
  }

  /** What `before` has already is not read again. */
  #read(version: number, before: ReadonlyMap<number, Tracked>): ReadonlyMap<number, Tracked> {
    const file = readManifest(this.#versionsFolder, version);
    if (file === undefined) throw new MalformedFile(`no manifest of version ${version}`);
    this.#manifest = file.bytes;
    const manifest = parseManifest(file.bytes);
    const fragments = manifest.fragments.filter(({ id }) => this.#only?.has(id) !== false);
    return new Map(fragments.map((each) => [each.id, this.#readFragment(manifest, each, before.get(each.id))]));
  }

  #readFragment(manifest: Manifest, fragment: StoredFragment, known: Tracked | undefined): Tracked {
    const { rows, deletionsId } = fragment;
    if (known !== undefined && known.deletionsId === deletionsId) return known;
    const offsets = readDeletedOffsets(manifest, dirname(this.#versionsFolder), fragment);
    return { rows, deleted: DeletionVector.of(rows, offsets), deletionsId };
  }

  /** False if its version was pruned, or another table is in its folder. */
  #isStillThere(): boolean {
    const file = readManifest(this.#versionsFolder, this.#version);
    return file !== undefined && this.isOf(file.bytes);
  }

  /** undefined if the commits in between do not say where the rows went. */
  #rewrittenSince(version: number): readonly RewriteGroup[] | undefined {
    if (this.#version === 0 || !this.#isStillThere()) return undefined;
    const all: RewriteGroup[] = [];
    for (const transaction of transactionsBetween(this.#versionsFolder, this.#version, version, mostVersionsFollowed)) {
      const groups = transaction && rewriteGroupsOf(transaction, this.#only);
      if (groups === undefined) return undefined;
      all.push(...groups);
    }
    return all;
  }
}

/** A fragment that was compacted. */
interface Source {
  /** So many rows of its group came before its own. */
  readonly start: number;
  readonly deleted: DeletionVector;
  readonly targets: readonly NewFragment[];
}

/** A fragment that a compaction wrote. */
interface NewFragment {
  readonly id: number;
  /** It has the rows of the group from here on, deleted ones not counted. */
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

  newAddressOf(address: RowAddress): RowAddress | undefined {
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

function targetsOf(compacted: readonly Known[]): readonly NewFragment[] {
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
