/** How changes get into a branch: each is committed alone, its steps computed by the engine in a shadow. */

import { changesRowsOnly, type ManifestChange } from '../engine/port/change.ts';
import type { ChangeLimits } from '../engine/port/change-limits.ts';
import type { Shadow } from '../engine/port/shadow.ts';
import { LancegateError } from '../kernel/errors.ts';
import { paired } from '../kernel/paired.ts';
import { principalKey } from '../kernel/request-scope.ts';
import { requireRowEnds, rowEndsOf } from '../table/row-ends.ts';
import {
  type Committed,
  type Head,
  isAtHead,
  notCommitted,
  requireBoundable,
  requireTime,
  unchanged,
  type WriteBatch,
  type WriteKind,
  type WriteTotals,
} from '../write/write.ts';
import type { ChangeRequest, ComputedStep, StepTotals, StepWithFile } from './change-request.ts';

export const changeKind: WriteKind<ChangeRequest> = {
  batch([request]: readonly [ChangeRequest]): WriteBatch {
    const { steps, manifest } = request;
    return {
      numRows: 0,
      on: [],
      commit: (head) =>
        steps === undefined ? commitManifest(request, manifest, head) : commitSteps(request, steps, head),
      discard: () => undefined,
    };
  },
};

async function commitManifest(
  request: ChangeRequest,
  change: ManifestChange,
  head: Head,
): Promise<Committed | 'overtaken'> {
  requireTime([request]);
  if (!(await isAtHead(head))) return 'overtaken';
  const made = await head.dataset.commitManifest(change, limitsOf(request), head.note?.([sumOf([])]));
  return made === 'overtaken' ? made : committed(made.version, []);
}

async function commitSteps(
  request: ChangeRequest,
  steps: readonly AnyStep[],
  head: Head,
): Promise<Committed | 'overtaken'> {
  const shadow = await head.dataset.shadow();
  try {
    // A reader may have refreshed the dataset since the head was read.
    if (shadow.baseVersion !== head.version) return 'overtaken';
    if (steps.length > 1 && !shadow.isPrivate) throw hasNoShadow();
    requireBoundable(head, shadow);
    const each: StepTotals[] = [];
    for (const step of steps) each.push(await run(shadow, step, request));
    if (paired(steps, each).every(([step, totals]) => isOfRows(step) && isNothing(totals))) {
      return unchanged([request], head);
    }
    await requireItsEnds(request, steps, shadow);
    const totals = sumOf(each);
    if (head.mayCommit?.(totals) === false) return notCommitted([totals], head);
    const takesAway = request.takesAway ?? (totals.numDeletedRows > 0 || undefined);
    const made = await shadow.commit(() => requireTime([request]), head.note?.([totals]), takesAway);
    return made === 'overtaken' ? made : committed(made.version, each);
  } finally {
    shadow.discard();
  }
}

const committed = (version: number, each: readonly StepTotals[]): Committed => ({
  version,
  count: async () => ({ each: [sumOf(each)], by: undefined }),
  surplusRows: each.reduce((sum, { surplusRows = 0 }) => sum + surplusRows, 0),
});

type AnyStep = StepWithFile | ComputedStep;

function run(shadow: Shadow, step: AnyStep, request: ChangeRequest): Promise<StepTotals> {
  requireTime([request]);
  const limits = limitsOf(request);
  return 'run' in step ? step.run(shadow, limits) : shadow.change(step.step, step.file, limits);
}

const limitsOf = ({ scope }: ChangeRequest): ChangeLimits => ({
  timeoutMs: scope.remainingMs(),
  principal: principalKey(scope.principal),
});

/** A change that would take the column away by which rows end, or make another type of it, is refused before it is committed. */
async function requireItsEnds({ table }: ChangeRequest, steps: readonly AnyStep[], shadow: Shadow): Promise<void> {
  const mayChangeColumns = steps.some((step) => 'run' in step || !isOfRows(step));
  if (!mayChangeColumns || !shadow.isPrivate || rowEndsOf(table.properties) === undefined) return;
  requireRowEnds(table.properties, (await shadow.columns()).schema);
}

const isOfRows = (step: AnyStep): boolean => ('run' in step ? step.changesRowsOnly : changesRowsOnly[step.step.kind]);

const isNothing = (totals: StepTotals): boolean =>
  totals.numInsertedRows + totals.numUpdatedRows + totals.numDeletedRows === 0;

/** Of one step alone it is all that the step says. */
const sumOf = (each: readonly StepTotals[]): WriteTotals => ({
  ...(each.length === 1 && each[0]),
  numInsertedRows: each.reduce((sum, totals) => sum + totals.numInsertedRows, 0),
  numUpdatedRows: each.reduce((sum, totals) => sum + totals.numUpdatedRows, 0),
  numDeletedRows: each.reduce((sum, totals) => sum + totals.numDeletedRows, 0),
  each,
});

/** Each step would be a commit of its own there, and what fails in the middle would stay half done (P1). */
const hasNoShadow = (): LancegateError =>
  new LancegateError(
    'Unsupported',
    'the engine alone can commit to this table, one operation at a time, so several are not one commit; send them one by one',
  );
