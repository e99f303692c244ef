import type { RawBuilder } from 'kysely';

/** What engines spell differently. */
export interface ColumnTypes {
  /** Text that compares by its UTF-8 bytes, whatever the locale of the database. */
  readonly sortedText: RawBuilder<unknown>;
}
