/** A table with a column of every type that the service stores, and a whole number to merge by. */
import type { Field, Schema } from '#src/arrow/schema/schema.ts';
import { type Codec, encodeStream, field, type Rows, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { typeCases } from '#test/fixtures/streams.ts';

/** The corpus gives each column's dictionaries ids of their own; side by side they must not share them. */
const withDictionary = (of: Field, id: number): Field =>
  of.dictionary === undefined ? of : { ...of, dictionary: { ...of.dictionary, id: BigInt(id) } };

const columns = typeCases.map(({ field: of }, i) => ({
  ...withDictionary(of, i),
  name: `c${i}`,
  metadata: new Map([['of', `column ${i}`]]),
  children: of.children.map((child, k) => withDictionary(child, 1000 * (i + 1) + k)),
}));

export const wideSchema: Schema = schemaOf(
  [
    field('n', { kind: 'int', bitWidth: 32, signed: true }, { nullable: false, metadata: { of: 'the key' } }),
    ...columns,
  ],
  { origin: 'lancegate', empty: '' },
);

/** The row of each number in `numbers`; its values come from the corpus, `turn` places further on. */
export const wideRows = (numbers: readonly number[], turn = 0): Rows => ({
  n: numbers.map(BigInt),
  ...Object.fromEntries(
    typeCases.map(({ values }, i) => [`c${i}`, numbers.map((number) => values[(number + turn) % values.length])]),
  ),
});

export const wideStream = (batches: readonly Rows[], codec: Codec): Buffer => encodeStream(wideSchema, batches, codec);

export const numbersFrom = (first: number, end: number): number[] =>
  Array.from({ length: end - first }, (_, i) => first + i);
