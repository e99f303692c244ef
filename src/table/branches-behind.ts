import type { AcknowledgedBranch, OpenBranchCatalog } from '../catalog/port.ts';
import type { BranchHead, Snapshot } from '../engine/port/dataset.ts';
import type { BranchRecovery } from '../engine/port/engine.ts';
import { LancegateError } from '../kernel/errors.ts';
import { showTable, type TableId } from '../kernel/ids.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';

type KnownBranch = Pick<AcknowledgedBranch, 'tableId' | 'ref' | 'branch'>;

interface Parts {
  readonly catalog: Pick<OpenBranchCatalog, 'acknowledgedVersion' | 'acknowledgedBranches' | 'recoveryMarks'>;
  readonly engine: Pick<BranchRecovery, 'newestVersion'>;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'watchBranchesBehind'>;
}

/**
 * The branches whose newest version on storage is older than one that was acknowledged: their files were put back from an older
 * backup than the catalog, or a manifest vanished. What came after is lost, and its numbers would be given out again, so nothing is
 * written to such a branch until an operator brings the files back, or registers the table anew.
 */
export class BranchesBehind {
  readonly #parts: Parts;
  readonly #known = new Map<string, KnownBranch>();

  constructor(parts: Parts) {
    this.#parts = parts;
    parts.metrics.watchBranchesBehind(() => this.#known.size);
  }

  get count(): number {
    return this.#known.size;
  }

  /** To be called before a commit. `opened`: what this process has made durable; without it the catalog is asked. */
  async requireNot(
    of: KnownBranch,
    opened: { readonly durableVersion: number } | undefined,
    dataset: Snapshot & BranchHead,
  ): Promise<void> {
    const version = await dataset.version();
    if (this.#known.size === 0 && opened !== undefined && version >= opened.durableVersion) return;
    const inCatalog = await this.#parts.catalog.acknowledgedVersion(of.tableId, of.branch);
    const acknowledged = Math.max(inCatalog, opened?.durableVersion ?? 0);
    if (version < acknowledged) await dataset.refresh('to read');
    const newest = await dataset.version();
    if (newest >= acknowledged) {
      this.#known.delete(keyOf(of));
      return;
    }
    this.#note(of, newest, acknowledged);
    throw new LancegateError(
      'InvalidTableState',
      `the newest version on storage is ${newest}, and version ${acknowledged} was acknowledged: the files are older than the catalog, or a version vanished; nothing was written. Bring the files back, or register the table's location again with mode overwrite to go on from what is there`,
    );
  }

  /** At start: says which are, before anybody writes to them. Branches that cannot be looked at are passed over. */
  async lookAtAll(): Promise<void> {
    const { catalog, engine } = this.#parts;
    for (const branch of [...(await catalog.acknowledgedBranches()), ...(await catalog.recoveryMarks())]) {
      const newest = await engine.newestVersion(branch).catch(() => undefined);
      const { acknowledgedVersion: acknowledged } = branch;
      if (newest !== undefined && newest < acknowledged) this.#note(branch, newest, acknowledged);
    }
  }

  /** The table is gone from this process, or replaced. */
  forget(id: TableId): void {
    for (const [key, { tableId }] of this.#known) if (tableId === id) this.#known.delete(key);
  }

  #note(of: KnownBranch, newestVersion: number, acknowledgedVersion: number): void {
    if (this.#known.has(keyOf(of))) return;
    this.#known.set(keyOf(of), of);
    const fields = { table: showTable(of.ref), branch: of.branch ?? 'main', newestVersion, acknowledgedVersion };
    this.#parts.logger.error(
      fields,
      'a table went back to an older version than was acknowledged; nothing is written to it',
    );
  }
}

const keyOf = ({ tableId, branch }: KnownBranch): string => JSON.stringify([tableId, branch ?? '']);
