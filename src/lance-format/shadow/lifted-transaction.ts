/** The transaction that is recorded for a version made in a shadow. */

import { NotReplaceable } from '../manifest/replaceable.ts';
import { decode, edit, encode } from '../message-codec.ts';
import {
  addColumns,
  append,
  createIndex,
  deletion,
  fragment,
  overwrite,
  rewrite,
  rewriteGroup,
  transaction,
  update,
} from '../messages.ts';
import { type BaseChange, fragmentWith, indexWith } from './base-ids.ts';

export interface TransactionHead {
  readonly readVersion: number;
  /** A version-4 UUID. */
  readonly uuid: string;
}

/** The engine's own, of one step, as the engine would have written it for the original. */
export function liftedTransaction(head: TransactionHead, step: Uint8Array, change: BaseChange): Buffer {
  const known = decode(transaction, step);
  const fragments = (list: readonly Uint8Array[] | undefined) => list?.map((each) => fragmentWith(change, each));
  const indexes = (list: readonly Uint8Array[] | undefined) => list?.map((each) => indexWith(change, each));
  const group = (encoded: Uint8Array) => {
    const { before, after } = decode(rewriteGroup, encoded);
    return edit(rewriteGroup, encoded, { before: fragments(before), after: fragments(after) });
  };
  const inside = <Decoded>(encoded: Uint8Array | undefined, run: (encoded: Uint8Array) => Decoded) =>
    encoded === undefined ? undefined : run(encoded);
  return edit(transaction, step, {
    ...head,
    append: inside(known.append, (each) =>
      edit(append, each, { fragments: fragments(decode(append, each).fragments) }),
    ),
    delete: inside(known.delete, (each) =>
      edit(deletion, each, { updatedFragments: fragments(decode(deletion, each).updatedFragments) }),
    ),
    overwrite: inside(known.overwrite, (each) =>
      edit(overwrite, each, { fragments: fragments(decode(overwrite, each).fragments) }),
    ),
    createIndex: inside(known.createIndex, (each) => {
      const { newIndexes, removedIndexes } = decode(createIndex, each);
      return edit(createIndex, each, { newIndexes: indexes(newIndexes), removedIndexes: indexes(removedIndexes) });
    }),
    rewrite: inside(known.rewrite, (each) => edit(rewrite, each, { groups: decode(rewrite, each).groups?.map(group) })),
    merge: inside(known.merge, (each) =>
      edit(addColumns, each, { fragments: fragments(decode(addColumns, each).fragments) }),
    ),
    update: inside(known.update, (each) => {
      const { updatedFragments, newFragments } = decode(update, each);
      return edit(update, each, {
        updatedFragments: fragments(updatedFragments),
        newFragments: fragments(newFragments),
      });
    }),
  });
}

export interface FragmentChanges {
  readonly removed: readonly number[];
  readonly updated: readonly Uint8Array[];
  readonly added: readonly Uint8Array[];
}

/** Of several steps: an update that says what the result has other than the original. */
export function composedTransaction(
  head: TransactionHead,
  steps: readonly Uint8Array[],
  changes: FragmentChanges,
): Buffer {
  const updates = steps.map((step) => {
    const { update: own, append: rows, delete: removed } = decode(transaction, step);
    if (own === undefined && rows === undefined && removed === undefined)
      throw new NotReplaceable('several steps change more than rows');
    return own === undefined ? {} : decode(update, own);
  });
  if (updates.some(({ insertedRows }) => insertedRows !== undefined))
    throw new NotReplaceable('several steps insert keys');
  const fieldsModified = [...new Set(updates.flatMap((each) => each.fieldsModified?.flat() ?? []))];
  const operation = encode(update, {
    removedFragmentIds: changes.removed.length === 0 ? undefined : [changes.removed],
    updatedFragments: changes.updated,
    newFragments: changes.added.map((each) => edit(fragment, each, { id: undefined })),
    fieldsModified: fieldsModified.length === 0 ? undefined : [fieldsModified],
    mode: updates.some(({ mode }) => mode === 1) ? 1 : undefined,
  });
  return encode(transaction, { ...head, update: operation });
}
