/**
 * Tags are names for versions that pruning then leaves there. What changes them holds the table's lock shared, so that no
 * branch comes or goes, and the lock of its tags, which pruning holds too: a version that was seen under it is there when the
 * tag is.
 */
import Type from 'typebox';
import type { BranchHead, History, Snapshot } from '../../engine/port/dataset.ts';
import type { StoredTag, Tagged } from '../../engine/port/stored-tags.ts';
import type { Clock } from '../../kernel/clock.ts';
import { LancegateError } from '../../kernel/errors.ts';
import { type BranchName, showTable, type TableId, type TableRef } from '../../kernel/ids.ts';
import type { RequestScope } from '../../kernel/request-scope.ts';
import type { RecoveryMarks } from '../../table/recovery-marks.ts';
import type { TableAccess } from '../../table/table-access.ts';
import type { TableLocks } from '../../table/table-locks.ts';
import { Version } from '../../wire/json-body.ts';
import type { Visible } from '../visible-page.ts';

export interface ReadingDeps {
  readonly access: TableAccess;
}

export interface WritingDeps extends ReadingDeps {
  readonly locks: TableLocks;
  readonly recoveryMarks: RecoveryMarks;
  readonly clock: Clock;
}

/** A tag on a branch that is not visible is answered like one that does not exist. */
export interface TagCommand {
  readonly table: TableRef;
  readonly tag: string;
  /** The tag must be on it, where the client names one. */
  readonly branch: BranchName | undefined;
  readonly visible: Visible<BranchName | undefined>;
}

export interface CreateTagCommand extends Pick<TagCommand, 'table' | 'tag' | 'branch'> {
  readonly version: number;
}

export interface UpdateTagCommand extends CreateTagCommand {
  readonly visible: TagCommand['visible'];
  /** Throws unless the principal may move a tag away from that branch. */
  readonly requireOn: (branch: BranchName | undefined) => void;
}

export function pick(tags: readonly StoredTag[], { table, tag: name, branch, visible }: TagCommand): StoredTag {
  const found = tags.find((tag) => tag.name === name);
  const isMeant = found !== undefined && (branch === undefined || found.branch === branch) && visible(found.branch);
  if (isMeant) return found;
  throw new LancegateError('TableTagNotFound', `table '${showTable(table)}' has no tag '${name}'`);
}

export async function whileTagsStand(
  { access, locks }: WritingDeps,
  table: TableRef,
  { signal }: RequestScope,
  work: (main: Tagged, tableId: TableId) => Promise<void>,
): Promise<void> {
  await access.findCreated(table);
  await locks.whileTagsStand(table, signal, async () => {
    const record = await access.findCreated(table);
    await access.onFilesOf(record, async () => work(await access.latest(record, undefined), record.id));
  });
}

/**
 * Returns the size of the version's manifest. The version is durable by then, as the tag will be: also one that is being
 * acknowledged, or that another program made. `TableBranchNotFound`, `TableVersionNotFound`; `InvalidTableState` for a branch that has
 * gone back.
 */
export async function keepVersion(
  { access, locks, recoveryMarks }: WritingDeps,
  tableId: TableId,
  { table, branch, version }: CreateTagCommand,
  { signal }: RequestScope,
): Promise<number> {
  const record = await access.findCreated(table);
  const release = await locks.lockBranch(table, branch, signal);
  try {
    const dataset: Snapshot & BranchHead & History = await access.latest(record, branch);
    const [found] = await dataset.versionPage({ after: version - 1, limit: 1, order: 'ascending' });
    if (found?.version !== version || !(await dataset.isWhole(version)))
      throw new LancegateError('TableVersionNotFound', `table '${showTable(table)}' has no version ${version}`);
    await recoveryMarks.requireNotBehind({ id: tableId, ref: table }, branch, dataset);
    await recoveryMarks.acknowledge(tableId, branch, dataset);
    return found.manifestBytes ?? 0;
  } finally {
    release();
  }
}

export const NameBody = Type.Object({ tag: Type.String() });

export const VersionBody = Type.Object({ tag: Type.String(), version: Version });
