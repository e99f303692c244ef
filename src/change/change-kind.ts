/** How changes get into a branch: each is committed alone, its steps computed by the engine in a shadow. */
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
    return { numRows: 0, on: [], commit: (head) => commit(request, head), discard: () => undefined };
  }
}

async function commit(request: ChangeRequest, head: Head): Promise<Committed | 'overtaken'> {
  const shadow = await head.dataset.shadow();
  try {
    // A reader may have refreshed the dataset since the head was read.
    if (shadow.baseVersion !== head.version) return 'overtaken';
    const each: MergeTotals[] = [];
    for (const step of request.steps) each.push(await run(shadow, step, request));
    if (request.steps.every(({ step }, index) => changesRowsOnly(step) && isNothing(each[index]!))) {
      return unchanged([request], head);
    }
    const made = await shadow.commit(() => requireTime([request]));
    if (made === 'overtaken') return 'overtaken';
    return {
      version: made.version,
      count: async () => ({ each: [sumOf(each)], by: undefined }),
      mostFragments: Number.POSITIVE_INFINITY,
      gainsByIndex: false,
      surplusRows: 0,
    };
  } finally {
    shadow.discard();
  }
}

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
