/** What a query asks of a snapshot: plain data, which has been bounded and checked, and which fits into JSON. */
import type { IpcFile } from '../../arrow/format/ipc-file.ts';
import type { CheckedSql } from '../../kernel/checked-sql.ts';
import type { Some } from '../../kernel/some.ts';
import type { Distance } from './index-spec.ts';

export interface QuerySpec {
  /** Undefined is all columns of the table. */
  readonly columns: readonly ResultColumn[] | undefined;
  readonly filter: CheckedSql | undefined;
  /** Undefined is all rows. */
  readonly limit: number | undefined;
  readonly offset: number;
  readonly orderBy: readonly Ordering[];
  /** Adds `_rowid`. */
  readonly withRowId: boolean;
  /** Passes over rows that no index covers. */
  readonly fastSearch: boolean;
  readonly nearest: NearestSpec | undefined;
  readonly text: TextSearch | undefined;
}

export interface ResultColumn {
  readonly name: string;
  readonly expression: CheckedSql;
}

export interface Ordering {
  /** A field path. */
  readonly column: string;
  readonly ascending: boolean;
  readonly nullsFirst: boolean;
}

/** The rows nearest to vectors. Of several vectors each has its own rows, and `query_index` says whose they are. */
export interface NearestSpec {
  /** There is at least one, and all have one length. */
  readonly vectors: Some<readonly number[]>;
  /** A field path. Undefined is the column that takes vectors of this length. */
  readonly column: string | undefined;
  readonly distanceType: Distance | undefined;
  readonly minProbes: number | undefined;
  /** Undefined is as many as it takes. */
  readonly maxProbes: number | undefined;
  readonly ef: number | undefined;
  readonly refineFactor: number | undefined;
  readonly lowerBound: number | undefined;
  readonly upperBound: number | undefined;
  /** The filter is applied to what was found, which may leave fewer rows than the limit. */
  readonly filtersAfter: boolean;
  readonly bypassesIndex: boolean;
}

/** Words to look for, in these columns or in all that have a full-text index; or a structured query. */
export type TextSearch =
  | { readonly kind: 'words'; readonly words: string; readonly columns: readonly string[] | undefined }
  | { readonly kind: 'structured'; readonly query: TextQuery };

export interface MatchText {
  readonly kind: 'match';
  /** A field path. Undefined is every column with a full-text index. */
  readonly column: string | undefined;
  readonly terms: string;
  readonly boost: number;
  /** Undefined: by the length of each term. */
  readonly fuzziness: number | undefined;
  readonly maxExpansions: number;
  readonly operator: 'OR' | 'AND';
  readonly prefixLength: number;
}

export type TextQuery =
  | MatchText
  | { readonly kind: 'phrase'; readonly column: string | undefined; readonly terms: string; readonly slop: number }
  | {
      readonly kind: 'boost';
      readonly positive: TextQuery;
      readonly negative: TextQuery;
      readonly negativeBoost: number;
    }
  | {
      readonly kind: 'multi match';
      readonly terms: string;
      readonly columns: readonly string[];
      readonly boosts: readonly number[] | undefined;
      readonly operator: 'OR' | 'AND';
    }
  | {
      readonly kind: 'boolean';
      readonly clauses: readonly { readonly occur: 'SHOULD' | 'MUST' | 'MUST_NOT'; readonly query: TextQuery }[];
    };

/** `analysis` runs the query and drops its rows. */
export type PlanForm = 'plan' | 'verbose plan' | 'analysis';

/** Queries of clients, at the version of the snapshot. Native code may die of them (P12). */
export interface RowQueries {
  /**
   * Result batches, each a complete IPC file of its own. At least one, so that the schema is known. `InvalidInput`,
   * `TableColumnNotFound`.
   */
  query(spec: QuerySpec): AsyncIterable<IpcFile>;
  /** The plan as a text, without locations. */
  explain(spec: QuerySpec, form: PlanForm): Promise<string>;
}
