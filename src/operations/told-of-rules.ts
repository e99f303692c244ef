/** The rules that requests with rows say, and what their answers say of those that were in force and of rows that were left out. */
import Type from 'typebox';
import { headerTexts, type RouteInput } from '../endpoint/route.ts';
import type { ToldOfColumns } from '../kernel/column-changes.ts';
import { readInvalidRules, type ToldOfRules } from '../table/row-faults.ts';
import { type RuleTexts, readSchemaMode, sourceRuleNames } from '../table/standing-rules.ts';
import { Count, StringMap } from '../wire/json-body.ts';
import { readRuleTexts } from '../wire/merge-parameters.ts';
import type { QueryOf } from '../wire/query-parameters.ts';
import { columnFields, columnsShown } from './columns/change-columns.ts';

/** The rules of a request that has no keys. `InvalidInput`. */
export function readSourceRules(
  query: QueryOf<(typeof sourceRuleNames)[number]>,
  headers: RouteInput['headers'],
): RuleTexts {
  const rules = readRuleTexts(sourceRuleNames, query, headerTexts(headers));
  readInvalidRules(rules);
  readSchemaMode(rules);
  return rules;
}

export const toldFields = {
  num_invalid_rows: Type.Optional(Count),
  invalid_rows: Type.Optional(Type.Array(Type.Object({ row: Count, reason: Type.String() }))),
  table_defaults: Type.Optional(StringMap),
  ...columnFields,
};

export const toldShown = ({ numInvalidRows, invalidRows, defaults, ...told }: ToldOfRules & ToldOfColumns) => ({
  ...(numInvalidRows !== undefined && { num_invalid_rows: numInvalidRows, invalid_rows: invalidRows ?? [] }),
  ...(defaults && { table_defaults: defaults }),
  ...columnsShown(told),
});
