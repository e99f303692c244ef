import { dirname } from 'node:path';
import type { RowMoves, RowPlace, TrackedRows } from '../port.ts';
import { DeletedRows } from './deleted-rows.ts';
import { readDeletedOffsets } from './deletion-files.ts';
import { type Manifest, parseManifest, type StoredFragment } from './manifest.ts';
import { readManifest } from './manifest-files.ts';
import { type RewriteGroup, type RewrittenFragment, rewriteGroupsOf } from './place-changes.ts';
import { transactionsBetween } from './row-change.ts';
import { MalformedFile } from './wire-reader.ts';

interface Tracked {
  readonly rows: number;
  readonly deleted: DeletedRows;
  /** Tells one list of deleted rows from another; undefined for none. */
  readonly deletionsId: bigint | undefined;
}

/**
 * The fragments of one version of a branch and which of their rows are deleted, held in memory: so that rows can be replaced
 * by their places, and so that whoever remembers places knows which of them are still rows. A bit for each row at the most.
 *
 * It follows the branch from manifest to manifest. What is not known of the way between two versions is not guessed: the
 * fragments count as new then. Throws the errors of `node:fs`, and `MalformedFile`; it stands where it stood then.
 */
export class FragmentRows implements TrackedRows {
  readonly #versionsFolder: string;
  #version = 0;
  #fragments: ReadonlyMap<number, Tracked> = new Map();

  constructor(versionsFolder: string) {
    this.#versionsFolder = versionsFolder;
  }

  get version(): number {
    return this.#version;
  }

  get bytes(): number {
    return this.#fragments.values().reduce((sum, { deleted }) => sum + deleted.bytes, 0);
  }

  has({ fragment, offset }: RowPlace): boolean {
    const tracked = this.#fragments.get(fragment);
    return tracked !== undefined && offset < tracked.rows && !tracked.deleted.has(offset);
  }

  hasFragment(id: number): boolean {
    return this.#fragments.has(id);
  }

  *rowsOf(fragment: number): Iterable<RowPlace> {
    const tracked = this.#fragments.get(fragment);
    for (let offset = 0; offset < (tracked?.rows ?? 0); offset++) {
      if (tracked?.deleted.has(offset) === false) yield { fragment, offset };
    }
  }

  advance(version: number): RowMoves {
    const moves = this.#movesTo(version);
    const before = moves === undefined ? new Map<number, Tracked>() : this.#fragments;
    const after = this.#read(version, before);
    const added = [...after]
      .filter(([id]) => !before.has(id) && moves?.isTarget(id) !== true)
      .map(([id, { rows, deleted }]) => ({ id, rows: rows - deleted.count }));
    this.#fragments = after;
    this.#version = version;
    if (moves === undefined) return { added, isKnown: false, moved: undefined };
    const settled = (place: RowPlace): RowPlace | undefined => {
      const now = moves.of(place);
      return now !== undefined && this.has(now) ? now : undefined;
    };
    return { added, isKnown: true, moved: moves.isEmpty ? undefined : settled };
  }

  /** Where no commit since has changed or moved a row. */
  skipTo(version: number): void {
    this.#version = version;
  }

  /** False where it was deleted before. */
  markDeleted({ fragment, offset }: RowPlace): boolean {
    return this.#fragments.get(fragment)?.deleted.add(offset) ?? false;
  }

  /** `undefined` for a fragment none of whose rows is left. */
  deletionsOf(fragment: number): DeletedRows | undefined {
    const { rows, deleted } = this.#tracked(fragment);
    return deleted.count === rows ? undefined : deleted;
  }

  /** After a commit of `version` with the deletions that were marked. */
  committed(
    version: number,
    deletions: ReadonlyMap<number, bigint | undefined>,
    added: readonly { readonly id: number; readonly rows: number }[],
  ): void {
    const fragments = new Map(this.#fragments);
    for (const [id, deletionsId] of deletions) {
      if (deletionsId === undefined) fragments.delete(id);
      else fragments.set(id, { ...this.#tracked(id), deletionsId });
    }
    for (const { id, rows } of added) {
      fragments.set(id, { rows, deleted: new DeletedRows(rows), deletionsId: undefined });
    }
    this.#fragments = fragments;
    this.#version = version;
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
    const manifest = parseManifest(file.bytes);
    return new Map(
      manifest.fragments.map((fragment) => [
        fragment.id,
        this.#readFragment(manifest, fragment, before.get(fragment.id)),
      ]),
    );
  }

  #readFragment(manifest: Manifest, fragment: StoredFragment, known: Tracked | undefined): Tracked {
    if (fragment.hasRowIds) throw new MalformedFile('rows have identifiers of their own');
    const { rows, deletionsId } = fragment;
    if (known !== undefined && known.deletionsId === deletionsId) return known;
    const offsets = readDeletedOffsets(manifest, dirname(this.#versionsFolder), fragment);
    return { rows, deleted: DeletedRows.of(rows, offsets), deletionsId };
  }

  /** undefined where the commits in between do not tell. */
  #movesTo(version: number): Moves | undefined {
    if (this.#version === 0) return undefined;
    const moves = new Moves();
    for (const transaction of transactionsBetween(this.#versionsFolder, this.#version, version)) {
      const groups = transaction && rewriteGroupsOf(transaction);
      if (groups === undefined) return undefined;
      for (const group of groups) moves.add(group, (fragment) => this.#asRewritten(fragment));
    }
    return moves;
  }

  /** Its deletions, if those that are known are those that compaction left out. */
  #asRewritten({ id, deletionsId }: RewrittenFragment): Tracked | undefined {
    const known = this.#fragments.get(id);
    return known?.deletionsId === deletionsId ? known : undefined;
  }
}

/** The rows of one group of a compaction, old and new. */
interface Moved {
  /** How many rows of the group came before this fragment's. */
  readonly start: number;
  readonly deleted: DeletedRows;
  readonly targets: readonly { readonly id: number; readonly start: number; readonly end: number }[];
}

class Moves {
  readonly #sources = new Map<number, Moved>();
  readonly #targets = new Set<number>();

  get isEmpty(): boolean {
    return this.#sources.size === 0;
  }

  isTarget(fragment: number): boolean {
    return this.#targets.has(fragment);
  }

  /** Ignored unless it is known, and adds up, to the last row. */
  add({ before, after }: RewriteGroup, trackedOf: (fragment: RewrittenFragment) => Tracked | undefined): void {
    const sources = before.map((fragment) => ({ id: fragment.id, tracked: trackedOf(fragment) }));
    const targets: { id: number; start: number; end: number }[] = [];
    let end = 0;
    for (const { id, rows } of after) {
      targets.push({ id, start: end, end: end + rows });
      end += rows;
    }
    let start = 0;
    const moved = new Map<number, Moved>();
    for (const { id, tracked } of sources) {
      if (tracked === undefined) return;
      moved.set(id, { start, deleted: tracked.deleted, targets });
      start += tracked.rows - tracked.deleted.count;
    }
    if (start !== end) return;
    for (const [id, each] of moved) this.#sources.set(id, each);
    for (const { id } of targets) this.#targets.add(id);
  }

  of(place: RowPlace): RowPlace | undefined {
    const moved = this.#sources.get(place.fragment);
    if (moved === undefined) return place;
    if (moved.deleted.has(place.offset)) return undefined;
    const position = moved.start + moved.deleted.livingBefore(place.offset);
    const target = moved.targets.find(({ end }) => position < end);
    return target && { fragment: target.id, offset: position - target.start };
  }
}
