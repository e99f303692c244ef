/** Each of some with the one at its place among as many others. */
export const paired = <Some, Other>(
  some: readonly Some[],
  others: readonly Other[],
): readonly (readonly [Some, Other])[] => some.map((each, place) => [each, others[place]!]);
