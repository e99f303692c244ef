/**
 * Makes what a lifted version records as its transaction. Other programs that began at the version before resolve their conflicts by
 * it: a record that says too little would let one of them commit on top of what it has not seen (docs/design/shadows-and-workers.md).
 */

import { fragmentId, identifierOf } from '../manifest/parse-manifest.ts';
import { NotReplaceable } from '../manifest/replaceable.ts';
import {
  addColumns,
  append,
  createIndex,
  dataFile,
  deletion,
  deletionFile,
  field,
  fragment,
  overwrite,
  rewrite,
  rewriteGroup,
  transaction,
  update,
} from '../messages.ts';
import { type Decoded, decode, edit, editEach, encode } from '../protobuf.ts';
import { type LanceOperation, operationOf } from '../transaction/transaction.ts';
import { type BaseChange, fragmentWith, indexWith } from './shadow-manifest.ts';

type TransactionIdentity = Required<Pick<Decoded<typeof transaction>, 'readVersion' | 'uuid'>>;

/** The encoded parts of a version. */
interface StoredParts {
  readonly fragments: readonly Uint8Array[];
  readonly indexes: readonly Uint8Array[];
  readonly fields: readonly Uint8Array[];
}

/** The version as the original will have it. */
interface LiftedParts extends StoredParts {
  readonly schemaMetadata: readonly Uint8Array[];
}

/** Gives the transaction of the engine's own where there was one step. */
export function liftedTransaction(
  identity: TransactionIdentity,
  step: Uint8Array | undefined,
  change: BaseChange,
): Buffer {
  if (step === undefined) throw new NotReplaceable('nothing was done');
  requireLiftable(operationOf(step));
  const fragments = (each: Uint8Array) => fragmentWith(change, each);
  const indexes = (each: Uint8Array) => indexWith(change, each);
  const groups = (each: Uint8Array) => editEach(rewriteGroup, each, { before: fragments, after: fragments });
  return editEach(transaction, edit(transaction, step, identity), {
    append: (each) => editEach(append, each, { fragments }),
    delete: (each) => editEach(deletion, each, { updatedFragments: fragments }),
    overwrite: (each) => editEach(overwrite, each, { fragments }),
    createIndex: (each) => editEach(createIndex, each, { newIndexes: indexes, removedIndexes: indexes }),
    rewrite: (each) => editEach(rewrite, each, { groups }),
    merge: (each) => editEach(addColumns, each, { fragments }),
    update: (each) => editEach(update, each, { updatedFragments: fragments, newFragments: fragments }),
  });
}

/** These operations of the engine change rows, and nothing else. */
const ofRows: ReadonlySet<LanceOperation> = new Set(['append', 'delete', 'update']);
/** These operations of columns and metadata leave all rows as they are. */
const ofColumns: ReadonlySet<LanceOperation> = new Set(['merge', 'project', 'updateConfig']);

/** Restoring is of versions, which are others in a shadow; what is not known here may be anything. */
function requireLiftable(operation: LanceOperation | undefined): void {
  if (operation === undefined || operation === 'unknown' || operation === 'restore')
    throw new NotReplaceable(`a step in a shadow is ${operation ?? 'no operation'}`);
}

/**
 * Several steps become the operation with which every change of another program conflicts that could be wrong on top of the result:
 *
 * - rows only: Update, as one step of the engine would. It can list the keys that one step inserted, so not where several did;
 * - indexes only: CreateIndex;
 * - columns and metadata, with all columns still there: Merge, which has all fragments and columns. Another program
 *   that changes rows or columns begins anew;
 * - anything else: Overwrite, with which all changes of rows, columns and indexes conflict. After a Merge, the engine would allow
 *   a second index of one name, an index of a column that is gone or whose values have changed in place, and new values of a
 *   column in fragments whose rows have moved.
 */
export function composedTransaction(
  identity: TransactionIdentity,
  steps: readonly Uint8Array[],
  before: StoredParts,
  result: LiftedParts,
): Buffer {
  const operations = new Set(steps.map(operationOf));
  for (const operation of operations) {
    requireLiftable(operation);
    if (operation === 'rewrite' || operation === 'reserveFragments')
      throw new NotReplaceable('a compaction is one of several steps');
  }
  const are = (set: ReadonlySet<LanceOperation | undefined>): boolean => operations.isSubsetOf(set);
  const updates = steps.map((step) => decode(update, decode(transaction, step, ['update']).update ?? Buffer.of()));
  const insertKeys = updates.filter(({ insertedRows }) => insertedRows !== undefined).length;
  if (are(ofRows) && insertKeys <= 1)
    return composedUpdate(identity, updates, changesBetween(before.fragments, result.fragments));
  if (are(new Set(['createIndex'])))
    return encode(transaction, { ...identity, createIndex: indexChange(before, result) });
  const { fragments, fields, schemaMetadata } = result;
  if (are(ofColumns) && keepsColumns(before, result)) {
    return encode(transaction, { ...identity, merge: encode(addColumns, { fragments, fields, schemaMetadata }) });
  }
  const added = fragments.map((each) => edit(fragment, each, { id: undefined }));
  const replaced = encode(overwrite, { fragments: added, fields, schemaMetadata });
  return encode(transaction, { ...identity, overwrite: replaced });
}

/** A column of another type has another id. */
function keepsColumns({ fields: before }: StoredParts, { fields: after }: StoredParts): boolean {
  const left = new Set(after.map(fieldId));
  return before.every((each) => left.has(fieldId(each)));
}

const fieldId = (encoded: Uint8Array): number => decode(field, encoded, ['id']).id ?? 0;

function indexChange({ indexes: before }: StoredParts, { indexes: after }: StoredParts): Buffer {
  const old = new Set(before.map(identifierOf));
  const left = new Set(after.map(identifierOf));
  return encode(createIndex, {
    newIndexes: after.filter((each) => !old.has(identifierOf(each))),
    removedIndexes: before.filter((each) => !left.has(identifierOf(each))),
  });
}

interface FragmentChanges {
  readonly removed: readonly number[];
  readonly updated: readonly Uint8Array[];
  readonly added: readonly Uint8Array[];
}

function changesBetween(before: readonly Uint8Array[], after: readonly Uint8Array[]): FragmentChanges {
  const old = new Map(before.map((each) => [fragmentId(each), contentOf(each)]));
  const ids = new Set(after.map(fragmentId));
  return {
    removed: [...old.keys()].filter((id) => !ids.has(id)),
    updated: after.filter((each) => old.has(fragmentId(each)) && old.get(fragmentId(each)) !== contentOf(each)),
    added: after.filter((each) => !old.has(fragmentId(each))),
  };
}

/** Another writer's encoding of the same fragment may differ; its files do not. */
function contentOf(encoded: Uint8Array): string {
  const { files = [], deletionFile: deletions } = decode(fragment, encoded);
  const paths = files.map((file) => decode(dataFile, file, ['path']).path);
  return JSON.stringify([paths, deletions && String(decode(deletionFile, deletions).id ?? 0n)]);
}

/** The update says what the result has other than the original. */
function composedUpdate(
  identity: TransactionIdentity,
  updates: readonly Decoded<typeof update>[],
  { removed, updated, added }: FragmentChanges,
): Buffer {
  const [insertedRows] = updates.flatMap((each) => each.insertedRows ?? []);
  const fieldsModified = [...new Set(updates.flatMap((each) => each.fieldsModified?.flat() ?? []))];
  const operation = encode(update, {
    removedFragmentIds: removed.length === 0 ? undefined : [removed],
    updatedFragments: updated,
    newFragments: added.map((each) => edit(fragment, each, { id: undefined })),
    fieldsModified: fieldsModified.length === 0 ? undefined : [fieldsModified],
    mode: updates.some(({ mode }) => mode === 1) ? 1 : undefined,
    insertedRows,
  });
  return encode(transaction, { ...identity, update: operation });
}
