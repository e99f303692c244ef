import type { OpenBranchCatalog, OpenBranchRecord } from '../catalog/port.ts';
import type { BranchHead, HeadCommits, Snapshot } from '../engine/port/dataset.ts';
import type { BranchRecovery, Datasets, Recovery } from '../engine/port/engine.ts';
import type { NewId } from '../kernel/clock.ts';
import { isStorageFull, LancegateError } from '../kernel/errors.ts';
import { showTable, type TableRef } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';

interface Deps {
  readonly catalog: OpenBranchCatalog;
  readonly engine: BranchRecovery;
  readonly logger: Logger;
}

/**
 * At start, before requests are taken: every branch that a process was writing to when it ended without closing it goes back
 * to what was acknowledged (P1, P3). A branch that cannot be brought back is left as it is, said so, and looked at again at
 * the next start; it does not keep the other tables from being served.
 */
export async function recoverTables({ catalog, engine, logger }: Deps): Promise<void> {
  for (const open of await catalog.recoveryMarks()) {
    const log = logger.child({ table: showTable(open.ref), branch: open.branch ?? 'main' });
    const recovered = await recover(engine, open, log, 'start');
    if (recovered) await catalog.closeBranch(open.tableId, open.branch).catch((error) => staysListed(error, log));
  }
}

/** The next start checks the branch again. This one must succeed on a full disk, because the service then frees space. */
function staysListed(error: unknown, log: Logger): void {
  if (!isStorageFull(error)) throw error;
  log.warn({ error }, 'an intact branch could not be marked as closed; the next start checks it again');
}

/**
 * Does what `recoverTables` does for one table, whose last owner may still run without knowing that it is replaced. Each of its
 * branches gets a version that changes nothing, a fence: a commit of the last owner follows a version from before this process
 * claimed the table, so from now on it fails, and what is there is all that there will be (docs/design/ownership.md). Throws
 * where a fence may be possible later: without one, a write intent would be called not made whose commit is still on its way.
 */
export async function takeOverBranches(
  { catalog, engine, logger, newId }: Deps & { readonly engine: Datasets; readonly newId: NewId },
  table: TableRef,
): Promise<void> {
  for (const open of await catalog.recoveryMarks(table)) {
    const log = logger.child({ table: showTable(open.ref), branch: open.branch ?? 'main' });
    if (!(await recover(engine, open, log, 'take over'))) continue;
    if (open.acknowledgedVersion > 0)
      await fence(await engine.open({ location: open.location, branch: open.branch }), newId, log);
    await catalog.closeBranch(open.tableId, open.branch);
  }
}

/** The fence and all before it are durable when this resolves. Closes the dataset. */
async function fence(dataset: Snapshot & BranchHead & HeadCommits, newId: NewId, log: Logger): Promise<void> {
  try {
    // A last owner that has lost its lease is not expected to commit even once.
    for (let attempt = 1; attempt <= 100; attempt++) {
      const made = await takeNextVersion(dataset, newId);
      if (made !== 'overtaken') {
        await dataset.sync();
        log.info({ version: made.version }, 'took over a branch whose last writer is gone');
        return;
      }
      await dataset.refresh();
    }
  } finally {
    dataset.close();
  }
  throw new LancegateError('ConcurrentModification', 'the last writer of the table goes on; nothing was written', {
    retryAfterSeconds: 1,
  });
}

/** Where only the engine can change a table, the engine can restore the newest version, with which all other commits conflict. */
async function takeNextVersion(dataset: Snapshot & HeadCommits, newId: NewId) {
  try {
    return await dataset.commitManifest({ kind: 'fence', transactionId: newId(), properties: {} });
  } catch (error) {
    if (!(error instanceof LancegateError) || error.kind !== 'Unsupported') throw error;
    return dataset.commitManifest({ kind: 'restore', version: await dataset.version() });
  }
}

async function recover(
  engine: BranchRecovery,
  open: OpenBranchRecord,
  log: Logger,
  when: 'start' | 'take over',
): Promise<boolean> {
  try {
    const recovery = await engine.recover(open);
    report(recovery, open, log);
    return recovery.damage === undefined;
  } catch (error) {
    const isPassing = error instanceof LancegateError && error.entry.retry === 'later';
    if (when === 'take over' && isPassing) {
      log.warn(
        { error },
        'a branch cannot be examined now, so no replica writes to its table; the next claim tries again',
      );
      throw error;
    }
    log.error({ error }, 'a table could not be examined after a crash; it is left as it is');
    return false;
  }
}

function report(recovery: Recovery, { acknowledgedVersion }: OpenBranchRecord, log: Logger): void {
  const { version, kept, removed, removedFiles, damage } = recovery;
  if (damage !== undefined) {
    log.error({ acknowledgedVersion, damage }, 'the disk lost acknowledged rows; the table is left as it is');
    return;
  }
  for (const { version: undone, reason } of removed) {
    log.warn(
      { version: undone, reason, acknowledgedVersion },
      'undid a commit that was cut short and not acknowledged',
    );
  }
  if (kept.length > 0) log.warn({ versions: kept }, 'kept commits that were not acknowledged: they are intact');
  if (removedFiles > 0) log.warn({ removedFiles }, 'removed files of commits that were cut short');
  log.info({ version }, 'a branch that was open for writing is in order');
}
