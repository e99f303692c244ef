/** Addresses say where rows are stored, and remaps where compactions have put them. */

/** A row is stored there, in numbers of 32 bits: the same as its `_rowaddr`. */
export interface RowAddress {
  readonly fragment: number;
  readonly offset: number;
}

/** The rows that one or several compactions moved, which had no rows in common. */
export interface AddressRemap {
  /** Moved rows; rows that were deleted by then are not counted. */
  readonly rows: number;
  /** What the remap takes in memory. */
  readonly bytes: number;
  /** The fragments whose rows were moved. */
  fragments(): Iterable<number>;
  /** Whether the rows of this fragment were moved. */
  hasMoved(fragment: number): boolean;
  /** The fragments that its rows were moved to, together with those of others. */
  fragmentsOf(fragment: number): readonly number[];
  /**
   * The address of a row after this remap; undefined for a row that was deleted by then, the same address for one that was not
   * moved. Later remaps and deletions are not applied.
   */
  newAddressOf(address: RowAddress): RowAddress | undefined;
}
