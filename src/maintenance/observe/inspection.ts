import type { Schema } from '../../arrow/schema/schema.ts';
import type { Dataset, Layout } from '../../engine/port/engine.ts';
import { columnsToIndex, type UpkeepLimits } from '../decide/policy.ts';
import type { BranchRef } from '../job.ts';
import type { BranchHistory } from './branch-history.ts';

/** What a look at a branch shows. */
export interface Inspection {
  readonly layout: Layout;
  readonly schema: Schema;
}

export const inspection = async (dataset: Dataset): Promise<Inspection> => ({
  layout: await dataset.layout(),
  schema: await dataset.schema(),
});

/** The key columns that merges seen here ask an index for. */
export function columnsToIndexNow(
  { branch }: BranchRef,
  history: BranchHistory | undefined,
  { layout, schema }: Inspection,
  limits: UpkeepLimits,
): readonly string[] {
  if (branch !== undefined || history === undefined) return [];
  return columnsToIndex(history.mergesOn, layout, schema, limits);
}
