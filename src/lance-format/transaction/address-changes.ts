/**
 * What a commit did to the places of rows, by its transaction (Lance's `protos/transaction.proto`).
 *
 * Most commits delete rows in fragments and bring new fragments, which two manifests tell. Compaction says in its
 * transaction what became of the old fragments: their rows that were not deleted, one fragment after the other, each in its
 * order, are the rows of the new ones (the format's "ordered compaction", which the engine's own mapping of addresses for
 * indexes relies on, too). All others, such as the return to an earlier version or new values for a column, leave nothing
 * known.
 */
import { decode } from '../message.ts';
import * as messages from '../messages.ts';
import { WireReader } from '../wire-reader.ts';

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

/** Fields of `Transaction`. */
const operation = {
  append: 100,
  delete: 101,
  createIndex: 103,
  rewrite: 104,
  reserveFragments: 107,
  update: 108,
  updateConfig: 110,
} as const;
const firstOperation = 100;
const telling: ReadonlySet<number> = new Set(Object.values(operation));

/** Fields of `Update`. */
const update = { fieldsModified: 4, mode: 7 } as const;

/** Fields of `Rewrite`. */
const groups = 3;

/** The groups of a compaction, none for others; undefined where the places of rows are not known afterwards. */
export function rewriteGroupsOf(transaction: Uint8Array): readonly RewriteGroup[] | undefined {
  const reader = new WireReader(transaction);
  const found: RewriteGroup[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field >= firstOperation && !telling.has(field)) return undefined;
    if (field === operation.rewrite) found.push(...readGroups(reader.message()));
    else if (field !== operation.update) reader.skip();
    else if (changesInPlace(reader.message())) return undefined;
  }
  return found;
}

/** Whether rows that stay where they are keep their values in a column, by its field id. False if that is not known. */
export function keepsColumn(transaction: Uint8Array, fieldId: number): boolean {
  const { update: changed, ...others } = decode(messages.transaction, transaction);
  const isKnown = messages.keepingOperations.some((name) => others[name] !== undefined);
  if (changed === undefined) return isKnown;
  return decode(messages.update, changed, ['fieldsModified']).fieldsModified?.flat().includes(fieldId) !== true;
}

/** Columns are written anew for rows that stay where they are. */
function changesInPlace(reader: WireReader): boolean {
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === update.fieldsModified) {
      if (reader.numbers().length > 0) return true;
    } else if (field === update.mode) {
      if (reader.number() !== 0) return true;
    } else reader.skip();
  }
  return false;
}

function readGroups(reader: WireReader): readonly RewriteGroup[] {
  const found: RewriteGroup[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === groups) found.push(readGroup(reader.message()));
    else reader.skip();
  }
  return found;
}

function readGroup(reader: WireReader): RewriteGroup {
  const before: RewrittenFragment[] = [];
  const after: RewrittenFragment[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) before.push(readFragment(reader.message()));
    else if (field === 2) after.push(readFragment(reader.message()));
    else reader.skip();
  }
  return { before, after };
}

function readFragment(reader: WireReader): RewrittenFragment {
  let id = 0;
  let rows = 0;
  let deletionsId: bigint | undefined;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 1) id = reader.number();
    else if (field === 4) rows = reader.number();
    else if (field === 3) deletionsId = readDeletionsId(reader.message());
    else reader.skip();
  }
  return { id, rows, deletionsId };
}

function readDeletionsId(reader: WireReader): bigint {
  let id = 0n;
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field === 3) id = reader.uint64();
    else reader.skip();
  }
  return id;
}
