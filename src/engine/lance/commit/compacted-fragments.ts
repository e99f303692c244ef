/**
 * Puts fragments together beside the writers: the engine compacts a clone of them (`clone-manifest.ts`), however long that
 * takes, and then its new fragments take the place of the old ones in one commit. The engine's own call keeps writers out
 * meanwhile, 0.1 s for a million narrow rows and seconds for vectors, since every row that changes before its commit is a
 * conflict. Here what was deleted meanwhile is deleted in the new fragments, too: which row is which is known, as compaction
 * keeps their order.
 *
 * The commit is to be made under the branch's turn and takes milliseconds: as many as there are fragments to read the
 * deletions of. Indexes do not cover the moved rows until they are renewed. If it fails, or is never made, nothing is changed.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { deletionsFile } from '../../../lance-format/deletion/deletion-files.ts';
import { DeletionVector } from '../../../lance-format/deletion/deletion-vector.ts';
import { cloneManifest } from '../../../lance-format/manifest/clone-manifest.ts';
import { NotReplaceable } from '../../../lance-format/manifest/manifest-draft.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import {
  type DeletionFile,
  type MovedGroup,
  type NextManifest,
  nextManifest,
} from '../../../lance-format/manifest/next-manifest.ts';
import type { RewriteGroup, RewrittenFragment } from '../../../lance-format/transaction/address-changes.ts';
import { MalformedFile } from '../../../lance-format/wire-reader.ts';
import type { RowAddress } from '../../port/row-address.ts';
import { LiveRowMap } from '../live-rows/live-rows.ts';
import { CompactionRemap, type Tracked } from '../live-rows/remap.ts';
import { CommitLink, committedAtMs, type Fresh, randomId } from './commit-link.ts';
import { writeFiles } from './new-files.ts';
import type { StagedFragments, Staging } from './staging.ts';

export interface FragmentMoveParts {
  /** Of the dataset, or of the branch in it; absolute. */
  readonly folder: string;
  readonly staging: Staging;
  readonly fresh: Fresh;
}

export interface MovedFragments {
  readonly version: number;
  readonly removedFragments: number;
}

export class CompactedFragments {
  readonly #parts: FragmentMoveParts;
  readonly #staged: StagedFragments;
  /** As they were staged. */
  readonly #then: LiveRowMap;
  readonly #now: LiveRowMap;

  private constructor(parts: FragmentMoveParts, staged: StagedFragments, version: number) {
    const versions = join(parts.folder, '_versions');
    this.#parts = parts;
    this.#staged = staged;
    const ids = new Set(staged.groups.flatMap(({ before }) => before).map(({ id }) => id));
    this.#then = new LiveRowMap(versions, ids);
    this.#then.advance(version);
    this.#now = this.#then.copy();
  }

  /** undefined where the engine sees nothing to put together. Throws `NotReplaceable` for a table that is its alone. */
  static async prepare(
    parts: FragmentMoveParts,
    version: number,
    ids: readonly number[],
  ): Promise<CompactedFragments | undefined> {
    const current = readManifest(join(parts.folder, '_versions'), version);
    if (current === undefined) return undefined;
    const staged = await parts.staging.compact(cloneManifest(current.bytes, new Set(ids), parts.folder));
    if (staged.groups.length > 0) return new CompactedFragments(parts, staged, version);
    staged.discard();
    return undefined;
  }

  /** Of `version`, under the turn. undefined, with nothing changed, where somebody else was there before. */
  commit(version: number): MovedFragments | undefined {
    try {
      return this.#commit(version);
    } catch (error) {
      // Somebody has made the table one that is for the engine alone.
      if (error instanceof NotReplaceable) return undefined;
      throw error;
    }
  }

  discard(): void {
    this.#staged.discard();
  }

  #commit(version: number): MovedFragments | undefined {
    const current = readManifest(this.#versionsFolder, version);
    if (current === undefined || !this.#now.advance(version).isKnown) return undefined;
    const deleted = this.#deletedMeanwhile();
    const groups = this.#staged.groups.map((group) => this.#movedGroup(group, deleted));
    if (groups.every(({ before }) => before.length === 0)) return undefined;
    const next = nextManifest(current.bytes, {
      deletions: new Map(groups.flatMap(({ before }) => before.map((id) => [id, 'all rows'] as const))),
      staged: this.#staged.manifest,
      groups,
      transactionId: this.#parts.fresh.uuid(),
      committedAtMs: committedAtMs(this.#parts.fresh),
    });
    if (!this.#write(next, groups, deleted, current.path)) return undefined;
    const removed = groups.reduce((sum, { before, after }) => sum + before.length - after.length, 0);
    return { version: next.version, removedFragments: removed };
  }

  get #versionsFolder(): string {
    return join(this.#parts.folder, '_versions');
  }

  /** In the new fragments, by their staged ids. A fragment that is gone has lost all its rows, wherever they are now. */
  #deletedMeanwhile(): ReadonlyMap<number, DeletionVector> {
    const deleted = new Map(this.#targets().map(({ id, rows }) => [id, new DeletionVector(rows)]));
    const moves = this.#moves();
    const mark = (place: RowAddress): void => {
      const now = moves.placeOf(place);
      if (now !== undefined) deleted.get(now.fragment)?.add(now.offset);
    };
    for (const { id: fragment } of this.#staged.groups.flatMap(({ before }) => before)) {
      const then = this.#then.deletedIn(fragment);
      const now = this.#now.deletedIn(fragment);
      if (then === undefined) throw new MalformedFile(`no fragment ${fragment}`);
      if (now === undefined) for (const place of this.#then.rowsOf(fragment)) mark(place);
      else for (const offset of now.addedSince(then)) mark({ fragment, offset });
    }
    return deleted;
  }

  #targets(): readonly RewrittenFragment[] {
    return this.#staged.groups.flatMap(({ after }) => after);
  }

  #moves(): CompactionRemap {
    const targets = this.#targets().map(({ id, rows }) => [id, asTracked(rows)] as const);
    const moves = new CompactionRemap(this.#then.fragments, new Map(targets), this.#staged.groups);
    if (this.#targets().some(({ id }) => !moves.isTarget(id))) throw new MalformedFile('rows that do not add up');
    return moves;
  }

  #movedGroup({ before, after }: RewriteGroup, deleted: ReadonlyMap<number, DeletionVector>): MovedGroup {
    return {
      before: before.map(({ id }) => id).filter((id) => this.#now.hasFragment(id)),
      after: after.flatMap(({ id, rows }) => {
        const count = deleted.get(id)?.count ?? 0;
        if (count === rows) return [];
        return [{ id, deletions: count === 0 ? undefined : this.#listed(count) }];
      }),
    };
  }

  #listed(deletedRows: number): DeletionFile {
    return { readVersion: this.#now.version, id: randomId(this.#parts.fresh), deletedRows };
  }

  /** Files have the ids that the commit gives their fragments, so there is no second attempt. */
  #write(
    next: NextManifest,
    groups: readonly MovedGroup[],
    deleted: ReadonlyMap<number, DeletionVector>,
    after: string,
  ): boolean {
    const { folder, fresh } = this.#parts;
    const written: string[] = [];
    try {
      for (const [index, { id, deletions }] of groups.flatMap((group) => group.after).entries()) {
        const fragment = next.fragments[index]?.id;
        const bitmap = deleted.get(id)?.toBitmap();
        if (deletions === undefined || fragment === undefined || bitmap === undefined) continue;
        const file = deletionsFile(folder, fragment, deletions, bitmap);
        writeFiles([file]);
        written.push(file.path);
      }
      written.push(...this.#staged.moveTo(folder));
      const isMade = new CommitLink(folder, fresh).commit(next, after);
      if (isMade) written.length = 0;
      return isMade;
    } finally {
      for (const path of written) rmSync(path, { force: true });
    }
  }
}

const asTracked = (rows: number): Tracked => ({ rows, deleted: new DeletionVector(rows), deletionsId: undefined });
