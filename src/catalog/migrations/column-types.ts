import type { RawBuilder } from 'kysely';

/** Engines spell these differently. */
export interface ColumnTypes {
  /** Text that compares by its UTF-8 bytes, whatever the locale of the database. */
  readonly sortedText: RawBuilder<unknown>;
}
