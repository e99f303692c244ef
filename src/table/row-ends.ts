/**
 * Rows that end: the property `lancegate.ttl_column` of a table names the column whose time a row begins at, and
 * `lancegate.ttl` says how long it is kept from then on. A row whose column is NULL never ends.
 */
import { quoteSegment } from '../arrow/schema/field-path.ts';
import type { Field, Schema } from '../arrow/schema/schema.ts';
import { typeName } from '../arrow/schema/schema.ts';
import { type CheckedSql, ownSql } from '../kernel/checked-sql.ts';
import { dayMs, readDurationMs } from '../kernel/clock.ts';
import { invalidInput } from '../kernel/errors.ts';
import type { Properties } from '../kernel/ids.ts';

export interface RowEnds {
  readonly column: string;
  readonly keptMs: number;
}

export const [columnProperty, keptProperty] = ['lancegate.ttl_column', 'lancegate.ttl'];

/** Reads them, whatever columns the table has; undefined where its rows do not end. `InvalidInput`. */
export function rowEndsOf(properties: Properties): RowEnds | undefined {
  const { [columnProperty]: column, [keptProperty]: kept } = properties;
  if (column === undefined && kept === undefined) return undefined;
  if (column === undefined) throw invalidInput(`${keptProperty}: it needs the property ${columnProperty} beside it`);
  if (kept === undefined) throw invalidInput(`${columnProperty}: it needs the property ${keptProperty} beside it`);
  const keptMs = readDurationMs(kept);
  if (keptMs === undefined || keptMs > 36_500 * dayMs)
    throw invalidInput(`${keptProperty}: expected a duration such as 30d, 12h or 1h30m, up to 36500d`);
  return { column, keptMs };
}

/** Refuses properties that cannot be those of a table with these columns. `InvalidInput`. */
export function requireRowEnds(properties: Properties, schema: Schema): void {
  const ends = rowEndsOf(properties);
  if (ends !== undefined) endedRows(ends, schema, 0);
}

/** The rows that have ended by `nowMs`. `InvalidInput` where the column is not there, or holds no time. */
export function endedRows({ column, keptMs }: RowEnds, { fields }: Schema, nowMs: number): CheckedSql {
  const field = fields.find(({ name }) => name === column);
  if (field === undefined) throw invalidInput(`${columnProperty}: the table has no column ${JSON.stringify(column)}`);
  // The value itself is compared, which is that of UTC in every zone.
  return ownSql(`CAST(${quoteSegment(column)} AS BIGINT) <= ${lastEnded(field, BigInt(nowMs - keptMs))}`);
}

/** The largest value of the column that is not after `ms`. */
function lastEnded({ name, type, dictionary, children }: Field, ms: bigint): bigint {
  if (dictionary === undefined && type.kind === 'timestamp')
    switch (type.unit) {
      case 's':
        return floor(ms, 1_000n);
      case 'ms':
        return ms;
      case 'us':
        return ms * 1_000n;
      case 'ns':
        return ms * 1_000_000n;
    }
  if (dictionary === undefined && type.kind === 'date') return type.unit === 'ms' ? ms : floor(ms, BigInt(dayMs));
  // The engine casts no larger integer.
  const isSeconds = type.kind === 'int' && type.bitWidth >= 32 && (type.signed || type.bitWidth === 32);
  if (dictionary === undefined && isSeconds) return floor(ms, 1_000n);
  const given = typeName({ name, type, dictionary, children, nullable: true, metadata: new Map() });
  throw invalidInput(
    `${columnProperty}: column ${name} is ${given}; a timestamp, a date, int32, int64 or uint32 (in seconds since 1970) can end rows`,
  );
}

const floor = (value: bigint, unit: bigint): bigint => (value - (((value % unit) + unit) % unit)) / unit;
