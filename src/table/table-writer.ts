import type { FieldPath } from '../arrow/field-path.ts';
import type { Keys } from '../arrow/key-columns.ts';
import type { IpcPiece } from '../arrow/source.ts';
import type { Dataset, Engine, MergeCounts, MergeSpec } from '../engine/port.ts';
import type { BranchName, Location, TableRef } from '../kernel/ids.ts';
import type { RequestScope } from '../kernel/request-scope.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Release, TableGates } from './gates.ts';
import { dropLeftoverColumn, mergeNested } from './nested-merge.ts';
import type { OpenDatasets } from './open-datasets.ts';

export interface MergeRequest {
  readonly table: TableRef;
  readonly branch: BranchName | undefined;
  readonly on: readonly FieldPath[];
  readonly spec: Omit<MergeSpec, 'on'>;
  readonly piece: IpcPiece;
  readonly keys: Keys;
}

/**
 * The one way rows get into an existing table. From matching to commit a merge has the table branch to itself (P2): the
 * engine matches against the version it has open and lets two concurrent merges insert one key twice.
 */
export class TableWriter {
  readonly #engine: Engine;
  readonly #datasets: OpenDatasets;
  readonly #gates: TableGates;
  readonly #metrics: Metrics;

  constructor(parts: { engine: Engine; datasets: OpenDatasets; gates: TableGates; metrics: Metrics }) {
    this.#engine = parts.engine;
    this.#datasets = parts.datasets;
    this.#gates = parts.gates;
    this.#metrics = parts.metrics;
  }

  /**
   * Merges under the branch's turn. `locate` runs once the turn has come and says where the table is now: it may have been
   * replaced or dropped while this request waited. Throws what `locate` throws, `SlowDown`, `TimedOut`, and what
   * `Dataset.merge` throws; whatever it throws, nothing was written.
   */
  async merge(request: MergeRequest, locate: () => Promise<Location>, scope: RequestScope): Promise<MergeCounts> {
    const leave = await this.#turn(request, scope.signal);
    try {
      const location = await locate();
      const dataset = await this.#datasets.latest(location, request.branch);
      await dropLeftoverColumn(dataset);
      scope.signal.throwIfAborted();
      const merge = () => this.#mergeInto(dataset, request, scope.remainingMs());
      const counts = await this.#metrics.mergeStage('engine', merge);
      this.#metrics.commitFinished(1);
      return counts;
    } finally {
      leave();
    }
  }

  async #turn({ table, branch }: MergeRequest, signal: AbortSignal): Promise<Release> {
    const leaveQueue = this.#metrics.mergeQueued();
    try {
      return await this.#metrics.mergeStage('wait', () => this.#gates.enterBranch(table, branch, signal));
    } finally {
      leaveQueue();
    }
  }

  async #mergeInto(dataset: Dataset, request: MergeRequest, timeoutMs: number | undefined): Promise<MergeCounts> {
    const { on, spec, piece, keys } = request;
    const isNested = on.some((path) => path.segments.length > 1);
    if (isNested) return mergeNested(this.#engine, dataset, { on, spec, piece, keys, timeoutMs });
    const useIndex = spec.useIndex && (await isIndexSafe(dataset, request));
    return dataset.merge({ ...spec, useIndex, on: on.map((path) => path.segments[0] ?? '') }, piece.file, timeoutMs);
  }
}

/**
 * Through an index the engine loses source rows whose key is NULL (neither inserted nor refused), panics on a filtered
 * update of some of the columns, and on a branch of a branch looks for main's index where it is not. Without the index it
 * reads the key column of the whole table instead.
 */
async function isIndexSafe(dataset: Dataset, { branch, spec, piece, keys }: MergeRequest): Promise<boolean> {
  if (branch !== undefined || keys.hasNull) return false;
  if (typeof spec.whenMatchedUpdateAll === 'boolean') return true;
  return piece.schema.fields.length === (await dataset.schema()).fields.length;
}
