/**
 * SQL that may reach the engine. Two sources make it: `sql/` from what a client wrote, once that is bounded and checked,
 * and `ownSql` from what this service wrote itself. A plain string does not pass for it.
 */
declare const checked: unique symbol;
export type CheckedSql = string & { readonly [checked]: true };

/** Done only for the rows of which this is true. */
export interface Filtered {
  readonly filter: CheckedSql;
}

/** This service made the SQL itself. Of a client's it may hold what was checked already, in parentheses. */
export const ownSql = (text: string): CheckedSql => text as CheckedSql;
