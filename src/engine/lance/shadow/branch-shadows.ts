import type { IpcFile } from '../../../arrow/format/ipc-file.ts';
import { parseFieldPath } from '../../../arrow/schema/field-path.ts';
import { readSchemaOfIpcFile } from '../../../arrow/schema/read-schema.ts';
import { type CheckedSql, ownSql } from '../../../kernel/checked-sql.ts';
import { LancegateError, storageFull } from '../../../kernel/errors.ts';
import type { Properties } from '../../../kernel/ids.ts';
import { fragmentsWithout } from '../../../lance-format/manifest/column-files.ts';
import { readManifest } from '../../../lance-format/manifest/manifest-files.ts';
import { nextFragmentId, settingsOf } from '../../../lance-format/manifest/next-manifest.ts';
import { ifNotReplaceable, NotReplaceable } from '../../../lance-format/manifest/replaceable.ts';
import { identitiesIn, type RowIdentity } from '../../../lance-format/manifest/row-identity.ts';
import { liftedVersion } from '../../../lance-format/shadow/lifted-version.ts';
import { takesAwayProperty } from '../../../lance-format/transaction/transaction.ts';
import { type ChangeStep, changesRowsOnly, type UpdateStep } from '../../port/change.ts';
import { type ChangeLimits, noLimits } from '../../port/change-limits.ts';
import type { ColumnView, TableColumns } from '../../port/column-view.ts';
import type { MergeCounts, Projection } from '../../port/merge-spec.ts';
import type { ReaderChange } from '../../port/reader-work.ts';
import { isMade } from '../../port/refusal.ts';
import { addressesFrom, addressesIn, placeOf, type RowAddressSql } from '../../port/row-address.ts';
import type { MergeTotals, Shadow } from '../../port/shadow.ts';
import { type BuiltVersion, liftedFrom } from '../commit/branch-commits.ts';
import type { Build, CommitLoop, HeadManifest } from '../commit/commit-loop.ts';
import type { ColumnsAfter } from '../head/dataset-head.ts';
import { runStep, stepCall } from '../native/changes.ts';
import { engineCall } from '../native/translate-errors.ts';
import type { ColumnViews } from './column-views.ts';
import type { Original, ShadowFolder, ShadowFolders } from './shadow-folders.ts';

export interface BranchShadowsParts {
  readonly branchFolder: string;
  readonly versionsFolder: string;
  readonly folders: ShadowFolders;
  /** See `BranchCommits`. */
  readonly uri: string;
  readonly loop: CommitLoop;
  /** Runs a change in the shadow of this name. A reader has none: it runs the step itself. */
  readonly changeInReader: ((shadow: string, change: ShadowChange) => Promise<MergeCounts>) | undefined;
  readonly views: ColumnViews;
}

/** Makes the shadows of one branch. */
export class BranchShadows {
  readonly #parts: BranchShadowsParts;

  constructor(parts: BranchShadowsParts) {
    this.#parts = parts;
  }

  /** undefined where there can be none: the version is gone, or the table is one for the engine alone. */
  begin(version: number, chosen: LocalShadowParts['chosen']): LocalShadow | undefined {
    const { branchFolder, versionsFolder, folders, uri, loop, changeInReader, views } = this.#parts;
    const found = readManifest(versionsFolder, version);
    if (found === undefined) return undefined;
    const folder = folders.take(branchFolder, uri);
    const original = { version, ...found };
    try {
      const shadowVersion = folder.begin(original);
      return new LocalShadow({
        ...{ folder, original, shadowVersion, chosen, views, loop },
        changeInReader: changeInReader && ((change) => changeInReader(folder.name, change)),
        release: (made) => folders.release(branchFolder, folder, made),
      });
    } catch (error) {
      void folder.remove();
      return ifNotReplaceable(error, undefined);
    }
  }

  /** See `History.view`. */
  view(version: number, columns: readonly string[], limits: ChangeLimits): ColumnView | undefined {
    const { versionsFolder, uri, views } = this.#parts;
    const found = readManifest(versionsFolder, version);
    if (found === undefined) return undefined;
    try {
      return views.make({ version, bytes: found.bytes }, uri, columns, limits);
    } catch (error) {
      return ifNotReplaceable(error, undefined);
    }
  }
}

interface LocalShadowParts {
  readonly folder: ShadowFolder;
  /** The newest version of the branch. */
  readonly original: HeadManifest;
  /** `ShadowFolder.begin` of it. */
  readonly shadowVersion: number;
  /** The step as it is to be made of the version. */
  readonly chosen: (step: ChangeStep, version: number, file: IpcFile | undefined) => ChangeStep;
  /** Runs a step in a reader process; without it all run here. */
  readonly changeInReader: ((change: ShadowChange) => Promise<MergeCounts>) | undefined;
  readonly views: ColumnViews;
  readonly loop: CommitLoop;
  /** Nothing uses the folder any more. `made` is the version that was committed. */
  readonly release: (made: Original | undefined) => void;
}

type DropColumnsStep = Extract<ChangeStep, { kind: 'drop columns' }>;
type ShadowChange = Omit<ReaderChange, 'store' | 'location' | 'branch'>;

/**
 * A shadow of a branch. It lies in the staging folder of the branch, so its files get into the table by renaming, and recovery
 * removes what a crash leaves of it; or in that of the branch's mirror, wherefrom they are uploaded.
 */
class LocalShadow implements Shadow {
  readonly isPrivate = true;
  readonly #parts: LocalShadowParts;
  readonly #folder: ShadowFolder;
  /** A step failed, or is under way. */
  #isSpoiled = false;
  #isEnded = false;
  #columns: ColumnsAfter = 'same columns';
  #made: Original | undefined;
  /** As those of `liftedVersion`. */
  readonly #identities = new Map<number, RowIdentity>();

  constructor(parts: LocalShadowParts) {
    this.#parts = parts;
    this.#folder = parts.folder;
  }

  get baseVersion(): number {
    return this.#parts.original.version;
  }

  settings(): Properties {
    return settingsOf(this.#parts.original.bytes);
  }

  change(step: ChangeStep, file: IpcFile | undefined, limits: ChangeLimits): Promise<MergeTotals> {
    if (step.kind === 'append' && step.updated !== undefined) {
      this.#noteIdentities(step.updated);
      return this.#change({ ...step, updated: undefined }, file, limits);
    }
    if (step.kind === 'drop columns') return this.#dropColumns(step, limits);
    if (step.kind === 'update' && step.laterRounds !== undefined) {
      return this.#updateInRounds(step, step.laterRounds, limits);
    }
    return this.#change(this.#parts.chosen(step, this.baseVersion, file), file, limits);
  }

  /** The engine gives the rows that are appended new ids, in their order. */
  #noteIdentities(updated: readonly (RowAddressSql | undefined)[]): void {
    const known = identitiesIn(this.#folder.manifestsSince(this.#parts.shadowVersion));
    if (known === undefined) return;
    for (const [index, address] of updated.entries()) {
      if (address === undefined) continue;
      const { id, createdAt } = known.rows.at(placeOf(address));
      const identity = { id, createdAt: Math.min(createdAt, this.baseVersion + 1) };
      this.#identities.set(known.nextRowId + index, this.#identities.get(id) ?? identity);
    }
  }

  /** Rows that have no other columns in their files are written anew before, with NULL in those that stay. */
  async #dropColumns(step: DropColumnsStep, limits: ChangeLimits): Promise<MergeTotals> {
    const gone = step.columns.map((path) => parseFieldPath(path).segments);
    const rows = fragmentsWithout(this.#folder.changesSince(this.#parts.shadowVersion).result, gone);
    if (rows.length > 0) {
      const { fields } = (await this.columns()).schema;
      const left = fields.filter(({ name }) => !gone.some(([first, ...inner]) => first === name && inner.length === 0));
      const any = left.find(({ children }) => children.length === 0) ?? left[0];
      if (any === undefined) throw new LancegateError('Internal', 'no column is left of a table');
      const set = [{ column: any.name, value: ownSql(`\`${any.name}\``) }];
      await this.#change({ kind: 'update', where: addressesIn(rows), set }, undefined, limits);
    }
    return this.#change(step, undefined, limits);
  }

  /** An update writes its rows into new fragments: by those the next round finds them. */
  async #updateInRounds(
    { where, set }: UpdateStep,
    laterRounds: NonNullable<UpdateStep['laterRounds']>,
    { timeoutMs, principal }: ChangeLimits,
  ): Promise<MergeTotals> {
    const endMs = performance.now() + (timeoutMs ?? 0);
    const limits = () => ({ principal, timeoutMs: timeoutMs && Math.max(1, endMs - performance.now()) });
    const updated = addressesFrom(nextFragmentId(this.#folder.changesSince(this.#parts.shadowVersion).result));
    const totals = await this.#change({ kind: 'update', where, set }, undefined, limits());
    if (totals.numUpdatedRows === 0) return totals;
    for (const round of laterRounds) {
      const { numUpdatedRows } = await this.#change(
        { kind: 'update', where: updated, set: round },
        undefined,
        limits(),
      );
      if (numUpdatedRows === totals.numUpdatedRows) continue;
      this.#isSpoiled = true;
      throw new LancegateError('Internal', 'a round of an update found other rows than the first; nothing was written');
    }
    return totals;
  }

  async #change(step: ChangeStep, file: IpcFile | undefined, limits: ChangeLimits): Promise<MergeTotals> {
    const { changeInReader } = this.#parts;
    const { lineage, newestVersion: version } = this.#folder;
    const run = async (): Promise<MergeCounts> => {
      if (changeInReader === undefined) return runStep(await this.#folder.table(), step, file, limits.timeoutMs);
      const counts = await changeInReader({ lineage, version, step, file, ...limits });
      this.#folder.committedPastHandle(counts.version);
      return counts;
    };
    if (!changesRowsOnly[step.kind]) this.#columns = 'other columns';
    this.#isSpoiled = true;
    const totals = await stepCall(step, run).catch((error: unknown) => {
      throw isShortRead(error) && this.#folder.isFull
        ? storageFull(error, { fault: 'the engine cut a file short' })
        : error;
    });
    this.#folder.requireWholeDeletions();
    this.#isSpoiled = false;
    return totals;
  }

  columns(): Promise<TableColumns> {
    return engineCall('open', async () => {
      const file = await (await this.#folder.table()).schema();
      return { schema: readSchemaOfIpcFile(file), file };
    });
  }

  async deleteWhere(where: CheckedSql, limits: ChangeLimits = noLimits): Promise<number> {
    return (await this.change({ kind: 'delete', where }, undefined, limits)).numDeletedRows;
  }

  select(columns: readonly Projection[], where: CheckedSql | undefined, limits = noLimits): AsyncIterable<IpcFile> {
    return this.#parts.views.read(this.#folder.name, { columns, where, rows: undefined, ...limits });
  }

  view(columns: readonly string[], limits: ChangeLimits): Promise<ColumnView> {
    return engineCall('open', async () => {
      const { result: bytes, version } = this.#folder.changesSince(this.#parts.shadowVersion);
      return this.#parts.views.make({ bytes, version }, this.#folder.path, columns, limits);
    });
  }

  async commit(
    requireTime?: () => void,
    noted?: Properties,
    takesAway?: boolean,
    settings?: Properties,
  ): Promise<{ readonly version: number } | 'overtaken'> {
    const { original, shadowVersion, loop } = this.#parts;
    try {
      const { result, steps } = this.#folder.changesSince(shadowVersion);
      if (this.#isSpoiled || steps.length === 0) {
        throw new LancegateError('Internal', 'a shadow that has nothing to commit');
      }
      requireTime?.();
      this.#isSpoiled = true;
      const build: Build<BuiltVersion> = ({ bytes }, identity) => {
        const lifted = liftedVersion({ original: bytes, result, steps, identities: this.#identities, ...identity });
        return { ...lifted, files: lifted.files.map((file) => liftedFrom(this.#folder.path, file)) };
      };
      const properties = takesAway === undefined ? noted : { ...noted, [takesAwayProperty]: String(takesAway) };
      const options = { head: original, columns: this.#columns, attempts: 1, properties, settings };
      const made = await engineCall('replace', () => loop.commit(build, options));
      if (made === 'overtaken') return made;
      if (!isMade(made)) throw new NotReplaceable(made.refused);
      this.#isSpoiled = false;
      this.#made = made;
      return { version: made.version };
    } finally {
      this.discard();
    }
  }

  discard(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (this.#isSpoiled) void this.#folder.remove();
    else this.#parts.release(this.#made);
  }
}

/** The engine reads back what it has written itself. */
const isShortRead = (error: unknown): boolean =>
  error instanceof LancegateError &&
  error.kind === 'Internal' &&
  /failed to fill whole buffer/.test(String(error.cause));
