import { quoteSegment } from '../../../arrow/schema/field-path.ts';
import { readSchemaOfIpcFile } from '../../../arrow/schema/read-schema.ts';
import type { Field } from '../../../arrow/schema/schema.ts';
import { LancegateError } from '../../../kernel/errors.ts';
import type { CompactionResult, CompactionSpec } from '../../port/reader-work.ts';
import { type NativeTable, queryOf, resultsOf } from './native.ts';

/** The engine removes versions from before this time: none. It takes 0 as none given. */
const beforeAllMs = 1;

/** See `Upkeep.compact`. */
export async function compactNative(table: NativeTable, { isToRead }: CompactionSpec): Promise<CompactionResult> {
  const { compaction } = await table.optimize(beforeAllMs, false);
  return {
    removedFragments: compaction.fragmentsRemoved - compaction.fragmentsAdded,
    isReadable: !isToRead || (await hasReadableDictionaries(table)),
  };
}

/**
 * The engine joins the dictionaries of what it compacts, and where the indexes have too few bits for all values it writes what it
 * cannot read.
 */
async function hasReadableDictionaries(table: NativeTable): Promise<boolean> {
  const { fields } = readSchemaOfIpcFile(await table.schema());
  const columns = fields.filter(hasShortIndexes).map(({ name }) => ({ name, expression: quoteSegment(name) }));
  if (columns.length === 0) return true;
  try {
    for await (const _ of resultsOf(async () => queryOf(table, undefined), columns));
    return true;
  } catch (error) {
    if (error instanceof LancegateError) return false;
    throw error;
  }
}

const hasShortIndexes = ({ dictionary, children }: Field): boolean =>
  (dictionary !== undefined && dictionary.index.bitWidth < 32) || children.some(hasShortIndexes);
