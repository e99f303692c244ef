/**
 * An index that the engine builds in a shadow, concurrently with writers. Its commit changes nothing but the list of indexes, so
 * it may follow any version: what was committed since is not covered by the index, and rows deleted since are not found.
 */
import { join } from 'node:path';
import { listVersions, readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { parseManifest } from '../../../lance-format/manifest/parse-manifest.ts';
import { indexVersion } from '../../../lance-format/shadow/index-version.ts';
import { type LiftedVersion, shadowManifest } from '../../../lance-format/shadow/shadow-manifest.ts';
import { keepsColumn, transactionsBetween } from '../../../lance-format/transaction/transaction.ts';
import { committedAtMs, type Fresh } from './commit-link.ts';
import type { HeadManifest, LiftedCommit } from './lifted-commit.ts';
import type { StagedIndex, Staging } from './staging.ts';

export interface ShadowCommitDeps {
  /** Of the dataset, or of the branch in it; absolute. */
  readonly folder: string;
  readonly staging: Staging;
  readonly commit: LiftedCommit;
  readonly fresh: Fresh;
}

export class IndexBuild {
  readonly #deps: ShadowCommitDeps;
  readonly #staged: StagedIndex;
  readonly #builtFrom: number;
  readonly #fieldId: number;
  /** No commit up to this version changed the column where it is. */
  #checkedThrough: number;

  private constructor(deps: ShadowCommitDeps, staged: StagedIndex, builtFrom: number, fieldId: number) {
    this.#deps = deps;
    this.#staged = staged;
    this.#builtFrom = builtFrom;
    this.#fieldId = fieldId;
    this.#checkedThrough = builtFrom;
  }

  /** undefined if the version or the column is not there. Throws `NotReplaceable` for a table that is the engine's alone. */
  static async prepare(deps: ShadowCommitDeps, version: number, column: string): Promise<IndexBuild | undefined> {
    const versions = join(deps.folder, '_versions');
    const current = readManifest(versions, version);
    if (current === undefined) return undefined;
    const { fragments, fieldIds } = parseManifest(current.bytes);
    const fieldId = fieldIds.get(column);
    if (fieldId === undefined) return undefined;
    const only = new Set(fragments.map(({ id }) => id));
    const shadow = shadowManifest(current.bytes, { folder: deps.folder, version: 1, only });
    const staged = await deps.staging.index(shadow, column);
    const build = new IndexBuild(deps, staged, version, fieldId);
    build.#keepsColumnThrough(listVersions(versions).at(-1) ?? version); // so that little is left to read for the commit
    return build;
  }

  /** Returns undefined if another program has changed the column. `version`: the newest one that is known. */
  async commit(version: number): Promise<{ readonly version: number; readonly removedFragments: 0 } | undefined> {
    const { commit } = this.#deps;
    const made = await commit.commitOnHead(version, this.#staged.folder, (head) => this.#versionAfter(head));
    return made === undefined ? undefined : { version: made, removedFragments: 0 };
  }

  discard(): void {
    this.#staged.discard();
  }

  #versionAfter({ version, bytes }: HeadManifest): LiftedVersion | undefined {
    if (!this.#keepsColumnThrough(version)) return undefined;
    const { manifest: shadow, name } = this.#staged;
    const { fresh } = this.#deps;
    return indexVersion(
      bytes,
      { shadow, name, builtFrom: this.#builtFrom },
      { transactionId: fresh.uuid(), committedAtMs: committedAtMs(fresh) },
    );
  }

  #keepsColumnThrough(version: number): boolean {
    const after = this.#checkedThrough;
    const transactions = transactionsBetween(join(this.#deps.folder, '_versions'), after, version, version - after);
    if (!transactions.every((each) => each !== undefined && keepsColumn(each, this.#fieldId))) return false;
    this.#checkedThrough = Math.max(after, version);
    return true;
  }
}
