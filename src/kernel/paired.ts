/** Pairs each of some with all that stand at its place in several lists of as many others. */
export const pairedInEach = <Some, Other>(
  some: readonly Some[],
  lists: readonly (readonly Other[])[],
): readonly (readonly [Some, readonly Other[]])[] =>
  some.map((each, place) => [each, lists.map((others) => others[place]!)]);

/** Pairs each of some with the one at its place among as many others. */
export const paired = <Some, Other>(
  some: readonly Some[],
  others: readonly Other[],
): readonly (readonly [Some, Other])[] => some.map((each, place) => [each, others[place]!]);

/** The table is written down, so it has no names but those of its type. */
export const entriesOf = <Table extends object>(table: Table) =>
  Object.entries(table) as [keyof Table & string, Table[keyof Table]][];
