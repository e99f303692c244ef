/**
 * What a commit did to the places of rows, by its transaction (Lance's `protos/transaction.proto`).
 *
 * Most commits delete rows in fragments and bring new fragments, which two manifests tell. Compaction says in its
 * transaction what became of the old fragments: their rows that were not deleted, one fragment after the other, each in its
 * order, are the rows of the new ones (the format's "ordered compaction", which the engine's own mapping of addresses for
 * indexes relies on, too). All others, such as the return to an earlier version or new values for a column, leave nothing
 * known.
 */
import { decode } from '../message-codec.ts';
import { deletionFile, fragment, rewrite, rewriteGroup, transaction, update } from '../messages.ts';
import { type Operation, operationOf } from './operation.ts';

export interface RewrittenFragment {
  readonly id: number;
  /** Deleted ones included. */
  readonly rows: number;
  /** Tells one list of its deleted rows from another; undefined for none. */
  readonly deletionsId: bigint | undefined;
}

export interface RewriteGroup {
  readonly before: readonly RewrittenFragment[];
  readonly after: readonly RewrittenFragment[];
}

/** Operations that write no column anew, so it is known where each row is. An update may write columns anew. */
const keeping: ReadonlySet<Operation> = new Set([
  'append',
  'delete',
  'createIndex',
  'rewrite',
  'reserveFragments',
  'updateConfig',
]);

/** The groups of a compaction, none for others; undefined where the addresses of rows are not known afterwards. */
export function rewriteGroupsOf(encoded: Uint8Array): readonly RewriteGroup[] | undefined {
  const known = decode(transaction, encoded);
  const operation = operationOf(encoded);
  if (operation === 'unknown') return undefined;
  if (known.update !== undefined) return changesInPlace(known.update) ? undefined : [];
  if (operation !== undefined && !keeping.has(operation)) return undefined;
  return known.rewrite === undefined ? [] : (decode(rewrite, known.rewrite).groups ?? []).map(readGroup);
}

/** Whether rows that stay where they are keep their values in a column, by its field id. False if that is not known. */
export function keepsColumn(encoded: Uint8Array, fieldId: number): boolean {
  const operation = operationOf(encoded);
  if (operation !== 'update') return operation !== undefined && operation !== 'unknown' && keeping.has(operation);
  const { update: changed = Buffer.of() } = decode(transaction, encoded);
  return decode(update, changed, ['fieldsModified']).fieldsModified?.flat().includes(fieldId) !== true;
}

/** Columns are written anew for rows that stay where they are. */
function changesInPlace(encoded: Uint8Array): boolean {
  const { fieldsModified = [], mode = 0 } = decode(update, encoded);
  return fieldsModified.flat().length > 0 || mode !== 0;
}

function readGroup(encoded: Uint8Array): RewriteGroup {
  const { before = [], after = [] } = decode(rewriteGroup, encoded);
  return { before: before.map(readFragment), after: after.map(readFragment) };
}

function readFragment(encoded: Uint8Array): RewrittenFragment {
  const { id = 0, physicalRows = 0, deletionFile: deletions } = decode(fragment, encoded);
  return { id, rows: physicalRows, deletionsId: deletions && (decode(deletionFile, deletions).id ?? 0n) };
}
