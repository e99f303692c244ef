import type { CheckedSql } from '../kernel/checked-sql.ts';
import { checkFilter } from '../sql/check-filter.ts';
import { allowedFunctions } from '../sql/functions.ts';

/** Reads an SQL condition of a client's; `InvalidInput` names the parameter, what is wrong, and where. */
export type ReadFilter = (text: string, parameter: string) => CheckedSql;

/** Filters may call `moreFunctions` too, of which the operator says that they are harmless. */
export function filterReader(moreFunctions: readonly string[]): ReadFilter {
  const allowed = new Set([...allowedFunctions, ...moreFunctions]);
  return (text, parameter) => checkFilter(text, parameter, allowed);
}
