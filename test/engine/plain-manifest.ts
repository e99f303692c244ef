/** A manifest as plain values, without what differs between two commits that do the same: identifiers, times, sizes, order. */
import { sectionsOf } from '#src/lance-format/manifest/parse-manifest.ts';
import * as messages from '#src/lance-format/messages.ts';
import { fieldsIn, WireReader } from '#src/lance-format/protobuf.ts';

interface Shape {
  readonly ignored?: readonly number[];
  /** Lists whose order has no meaning. */
  readonly sorted?: readonly number[];
  readonly nested?: Readonly<Record<number, Shape>>;
}

const numbers = <Name extends string>(
  { fields }: { readonly fields: Readonly<Record<Name, { readonly number: number }>> },
  ...names: readonly Name[]
): number[] => names.map((name) => fields[name].number);

const dataFile: Shape = { ignored: numbers(messages.dataFile, 'path', 'sizeBytes') };
const deletionFile: Shape = { ignored: numbers(messages.deletionFile, 'id') };
const fragment: Shape = { nested: { 2: dataFile, 3: deletionFile } };
/** Maps are in the order of a hash table. */
const map: Shape = { nested: {} };
const field: Shape = { nested: { 10: map } };
const index: Shape = { ignored: numbers(messages.index, 'uuid', 'files', 'createdAt') };
const update: Shape = {
  sorted: numbers(messages.update, 'removedFragmentIds', 'fieldsModified'),
  nested: { 2: fragment, 3: fragment },
  ignored: [10], // bitmaps by fragment, in the order of a hash table
};
const transaction: Shape = {
  ignored: numbers(messages.transaction, 'uuid'),
  nested: {
    100: { nested: { 1: fragment } },
    101: { sorted: numbers(messages.deletion, 'removedFragmentIds'), nested: { 1: fragment } },
    102: { nested: { 1: fragment, 2: field } },
    103: { nested: { 1: index, 2: index } },
    104: { nested: { 3: { nested: { 1: fragment, 2: fragment } } } },
    105: { nested: { 1: fragment, 2: field } },
    108: update,
    109: { nested: { 1: field } },
    110: { nested: { 6: map, 7: map, 8: map, 9: { nested: { 2: map } } } },
  },
};
const manifest: Shape = {
  ignored: numbers(messages.manifest, 'timestamp', 'transactionFile', 'indexSection', 'transactionSection'),
  nested: { 1: field, 2: fragment },
};
const indexSection: Shape = { nested: { 1: index } };

/** Each field with its number. */
function plain(encoded: Uint8Array, { ignored = [], sorted = [], nested = {} }: Shape): string[] {
  const fields = fieldsIn(encoded).filter(({ number }) => !ignored.includes(number));
  return fields
    .map(({ number, raw }) => `${number}: ${JSON.stringify(plainField(number, raw, sorted, nested))}`)
    .sort();
}

function plainField(
  number: number,
  raw: Uint8Array,
  sorted: readonly number[],
  nested: Readonly<Record<number, Shape>>,
) {
  const reader = new WireReader(raw);
  reader.next();
  const shape = nested[number];
  if (shape !== undefined) return plain(reader.bytes(), shape);
  return sorted.includes(number) ? reader.packed().toSorted((a, b) => a - b) : Buffer.from(raw).toString('hex');
}

export function plainManifest(file: Buffer) {
  const { message, indexes, transaction: recorded } = sectionsOf(file);
  return {
    manifest: plain(message, manifest),
    indexes: indexes && plain(indexes, indexSection),
    transaction: recorded && plain(recorded, transaction),
  };
}
