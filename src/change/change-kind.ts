/** How changes get into a branch: each is committed alone, its steps computed by the engine in a shadow. */
import type { ManifestChange } from '../engine/port/change.ts';
import type { MergeTotals, Shadow } from '../engine/port/shadow.ts';
import { principalKey } from '../kernel/request-scope.ts';
import {
  type Committed,
  type Head,
  requireTime,
  unchanged,
  type WriteBatch,
  type WriteKind,
  type WriteTotals,
} from '../write/write.ts';
import type { ChangeRequest, FiledStep } from './change-request.ts';

export class ChangeKind implements WriteKind<ChangeRequest> {
  /** Nothing is kept. */
  forget(): void {}

  batch([request]: readonly [ChangeRequest]): WriteBatch {
    const { steps, manifest } = request;
    const commit = (head: Head) =>
      steps === undefined ? commitManifest(request, manifest, head) : commitSteps(request, steps, head);
    return { numRows: 0, on: [], commit, discard: () => undefined };
  }
}

async function commitManifest(
  request: ChangeRequest,
  change: ManifestChange,
  { dataset }: Head,
): Promise<Committed | 'overtaken'> {
  requireTime([request]);
  const made = await dataset.commitManifest(change);
  return made === 'overtaken' ? made : committed(made.version, []);
}

async function commitSteps(
  request: ChangeRequest,
  steps: readonly FiledStep[],
  head: Head,
): Promise<Committed | 'overtaken'> {
  const shadow = await head.dataset.shadow();
  try {
    // A reader may have refreshed the dataset since the head was read.
    if (shadow.baseVersion !== head.version) return 'overtaken';
    const each: MergeTotals[] = [];
    for (const step of steps) each.push(await run(shadow, step, request));
    if (steps.every(({ step }, index) => changesRowsOnly(step) && isNothing(each[index]!))) {
      return unchanged([request], head);
    }
    const made = await shadow.commit(() => requireTime([request]));
    return made === 'overtaken' ? made : committed(made.version, each);
  } finally {
    shadow.discard();
  }
}

const committed = (version: number, each: readonly MergeTotals[]): Committed => ({
  version,
  count: async () => ({ each: [sumOf(each)], by: undefined }),
  mostFragments: Number.POSITIVE_INFINITY,
  gainsByIndex: false,
  surplusRows: 0,
});

function run(shadow: Shadow, { step, file }: FiledStep, request: ChangeRequest): Promise<MergeTotals> {
  requireTime([request]);
  const { scope } = request;
  return shadow.change(step, file, { timeoutMs: scope.remainingMs(), principal: principalKey(scope.principal) });
}

/** What such a step does shows in its totals. An overwrite may remove all rows. */
const changesRowsOnly = ({ kind }: FiledStep['step']): boolean =>
  kind === 'update' || kind === 'delete' || kind === 'merge' || kind === 'append';

const isNothing = (totals: MergeTotals): boolean =>
  totals.numInsertedRows + totals.numUpdatedRows + totals.numDeletedRows === 0;

const sumOf = (each: readonly MergeTotals[]): WriteTotals => ({
  numInsertedRows: each.reduce((sum, totals) => sum + totals.numInsertedRows, 0),
  numUpdatedRows: each.reduce((sum, totals) => sum + totals.numUpdatedRows, 0),
  numDeletedRows: each.reduce((sum, totals) => sum + totals.numDeletedRows, 0),
  each,
});
