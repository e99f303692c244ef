/** Addresses say where rows are stored, and remaps where compactions have put them. */

/** A row is stored there, in numbers of 32 bits: the same as its `_rowaddr`. */
export interface RowAddress {
  readonly fragment: number;
  readonly offset: number;
}

/** The rows that one or several compactions moved, which had no rows in common. */
export interface AddressRemap {
  /** Rows that were deleted by then are not counted. */
  readonly rows: number;
  /** The memory that the remap takes. */
  readonly bytes: number;
  /** Gives the fragments whose rows were moved. */
  fragments(): Iterable<number>;
  /** Says whether the rows of this fragment were moved. */
  hasMoved(fragment: number): boolean;
  /** Its rows were moved to these fragments, together with those of others. */
  fragmentsOf(fragment: number): readonly number[];
  /**
   * Answers the address of a row after this remap; undefined for a row that was deleted by then, the same address for one that was not
   * moved. Later remaps and deletions are not applied.
   */
  newAddressOf(address: RowAddress): RowAddress | undefined;
}
