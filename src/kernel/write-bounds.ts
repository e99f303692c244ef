/**
 * What a request allows of its write, decided once it is known what the write does, directly before its commit: a dry run commits
 * nothing, and a write that would delete more rows than `max_deleted` says is refused. Of the two only `max_deleted` can be a default of
 * a table: a table whose writes write nothing would lose what its clients send.
 */
import { invalidInput } from './errors.ts';
import type { Properties } from './ids.ts';

/** In the metadata of the table's schema, or else in its properties. */
export const maxDeletedProperty = 'lancegate.max_deleted';

/** What the request says. It is absent where it says nothing. */
export interface AskedBounds {
  readonly dryRun?: true;
  /** An empty text is no bound, and does without that of the table. */
  readonly maxDeleted?: string;
}

export interface WriteBounds {
  readonly isDryRun: boolean;
  readonly maxDeleted: number | undefined;
  /** How a refusal names `max_deleted`. */
  readonly shown: string;
}

interface TableDefaults {
  readonly properties: Properties;
  readonly metadata: ReadonlyMap<string, string>;
}

/** `table` is left out where the write deletes no rows, and no `max_deleted` matters then. `InvalidInput` for what is no number of rows. */
export function writeBounds(asked: AskedBounds | undefined, table?: TableDefaults): WriteBounds | undefined {
  const isDryRun = asked?.dryRun === true;
  const text = asked?.maxDeleted ?? table?.metadata.get(maxDeletedProperty) ?? table?.properties[maxDeletedProperty];
  const shown = asked?.maxDeleted === undefined ? `${maxDeletedProperty}, a default of the table` : 'max_deleted';
  const maxDeleted = table && readMaxDeleted(text, shown);
  return isDryRun || maxDeleted !== undefined ? { isDryRun, maxDeleted, shown } : undefined;
}

/** undefined where the text is absent or empty. */
export function readMaxDeleted(text: string | undefined, shown: string): number | undefined {
  if (!text) return undefined;
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw invalidInput(`${shown}: expected a whole number of rows, such as 100`);
}

/** False for a dry run. `InvalidInput` where more rows would be deleted than may be. */
export function mayCommit({ isDryRun, maxDeleted, shown }: WriteBounds, deletedRows: number): boolean {
  if (maxDeleted !== undefined && deletedRows > maxDeleted)
    throw invalidInput(`${shown}: ${deletedRows} rows would be deleted, and ${maxDeleted} may be; nothing was written`);
  return !isDryRun;
}
