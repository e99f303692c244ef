/** A list that has at least one item. */
export type Some<Item> = readonly [Item, ...Item[]];

export const isSome = <Item>(items: readonly Item[]): items is Some<Item> => items.length > 0;

export const mapSome = <Item, Made>([first, ...others]: Some<Item>, make: (item: Item) => Made): Some<Made> => [
  make(first),
  ...others.map((item) => make(item)),
];
