/** The parameters of a merge, in its query string; docs/protocol.md has the rules. */
import Type from 'typebox';
import { type FieldPath, parseFieldPath, requireOnce } from '../arrow/schema/field-path.ts';
import type { CheckedSql, Filtered } from '../kernel/checked-sql.ts';
import { invalidInput } from '../kernel/errors.ts';
import { type MergeFlags, type MergeRowsCommand, rowsThatStay } from '../merge/merge-command.ts';
import { checkFilter } from '../sql/check-filter.ts';
import { allowedFunctions } from '../sql/functions.ts';
import type { DoubleQuotes } from '../sql/tokens.ts';
import { invalidWays, type RuleName, type RuleTexts, ruleNames, schemaModes } from '../table/standing-rules.ts';
import { headerOf } from './bound-parameters.ts';
import { flag, type QueryOf, Refused, readFlag } from './query-parameters.ts';

type MergeParameters = Pick<MergeRowsCommand, 'on' | 'flags' | 'useIndex' | 'rules'>;

const condition = (description: string) => Type.Optional(Type.String({ description }));

/** Of all requests with rows. */
export const invalidParameters = {
  on_invalid: Type.Optional(
    Type.Enum([...invalidWays], {
      type: 'string',
      description:
        'What becomes of rows that break a rule: all is refused, or they are left out and told in the answer.',
    }),
  ),
  max_invalid: Type.Optional(
    Type.String({
      description: 'With more invalid rows all is refused: a number of rows, or a share of them with a decimal point.',
      examples: ['0.1'],
    }),
  ),
  schema: Type.Optional(
    Type.Enum([...schemaModes], {
      type: 'string',
      description:
        'What becomes of columns that the table lacks, and of values its types have no room for: all is refused, or the table gets them with the rows.',
    }),
  ),
};

export const mergeParameters = {
  on: Type.Array(Type.String(), {
    minItems: 1,
    description: 'The columns that rows are matched by, one each time.',
    examples: [['id']],
  }),
  when_matched_update_all: flag('Rows whose key the table has replace those that are there.'),
  when_matched_update_all_filt: condition(
    'They do so where this SQL condition holds, of a row there as `target.age` and of one that is sent as `source.age`.',
  ),
  when_not_matched_insert_all: flag('Rows whose key the table does not have are added.'),
  when_not_matched_by_source_delete: flag('Rows of the table whose keys are not sent are deleted.'),
  when_not_matched_by_source_delete_filt: condition('They are where this SQL condition holds.'),
  on_duplicate: Type.Optional(
    Type.Enum([...rowsThatStay], {
      type: 'string',
      description: 'What becomes of a key that the rows hold twice: all is refused, or its first or last row counts.',
    }),
  ),
  version_column: Type.Optional(
    Type.String({
      description:
        'Of rows with one key, among those that are sent and in the table, the one with the greatest value here stays.',
      examples: ['updated_at'],
    }),
  ),
  tombstone: Type.Optional(
    Type.String({
      description:
        'A row with true in this column, or with any value if it is no Boolean, deletes the row of its key; with `version_column`, older rows of the key stay away for 7 days.',
      examples: ['deleted'],
    }),
  ),
  ...invalidParameters,
  key_required: flag('A row with NULL in its key is invalid.'),
  use_index: flag('`false` forbids to look keys up in an index.'),
  use_lsm: Refused,
  use_rte: Refused,
};

/** No table has so many key columns. */
const mostPaths = 1_000;

type MergeQuery = QueryOf<keyof typeof mergeParameters>;

/** `InvalidInput` names the parameter. A parameter goes before its header. */
export function readMergeParameters(
  query: MergeQuery,
  readFilter: ReadFilter,
  headers: Readonly<Record<string, string | undefined>> = {},
): MergeParameters {
  // They ask for LanceDB's log-structured write path, which this service does not have, by its older and its newer
  // name.
  for (const name of ['use_lsm', 'use_rte'] as const) {
    if (readFlag(query, name) === true) throw invalidInput(`${name}: this service has no LSM write path`);
  }
  const flags = readMergeFlags(query, readFilter);
  const rules = readRuleTexts(ruleNames, query, headers);
  return {
    on: readOn(query),
    flags,
    rules,
    useIndex: readFlag(query, 'use_index') ?? true,
  };
}

/** The rules of these names that a request says. SDKs send their headers with each request, so one of another rule is passed over. */
export function readRuleTexts<Name extends RuleName>(
  names: readonly Name[],
  query: QueryOf<Name>,
  headers: Readonly<Record<string, string | undefined>>,
): RuleTexts {
  // A bare flag is true, as of every flag.
  const ofQuery = (name: Name) => query.one(name, (text) => text ?? (name === 'key_required' ? 'true' : ''));
  const texts = names.map((name) => [name, ofQuery(name) ?? headers[headerOf(name)]] as const);
  return Object.fromEntries(texts.filter(([, text]) => text !== undefined));
}

/** Repeated for a composite key. Commas do not separate: they may stand in a column's name. */
function readOn(query: MergeQuery): readonly FieldPath[] {
  const texts = query.all('on');
  if (texts.length > mostPaths) throw invalidInput(`on: it is given more than ${mostPaths} times`);
  const paths = texts.map((text) => parseFieldPath(text));
  if (paths.length === 0) throw invalidInput('on: the field path to match rows by is required');
  requireOnce(paths, 'on');
  return paths;
}

const actions = {
  update: 'when_matched_update_all',
  updateFilter: 'when_matched_update_all_filt',
  insert: 'when_not_matched_insert_all',
  delete: 'when_not_matched_by_source_delete',
  deleteFilter: 'when_not_matched_by_source_delete_filt',
} as const;

/**
 * Without any action it is an upsert. Where one action is there, a missing one is off, and a filter turns its action on, also
 * together with a flag that is false: so do the reference server and the LanceDB SDKs.
 */
function readMergeFlags(query: MergeQuery, readFilter: ReadFilter): MergeFlags {
  const saysNothing = Object.values(actions).every((name) => !query.has(name));
  if (saysNothing)
    return { whenMatchedUpdateAll: true, whenNotMatchedInsertAll: true, whenNotMatchedBySourceDelete: false };
  const readFiltered = (
    flagName: keyof typeof mergeParameters,
    filterName: keyof typeof mergeParameters,
  ): boolean | Filtered => {
    const flag = readFlag(query, flagName) ?? false;
    const filter = query.text(filterName);
    return filter === undefined ? flag : { filter: readFilter(filter, filterName) };
  };
  const flags: MergeFlags = {
    whenMatchedUpdateAll: readFiltered(actions.update, actions.updateFilter),
    whenNotMatchedInsertAll: readFlag(query, actions.insert) ?? false,
    whenNotMatchedBySourceDelete: readFiltered(actions.delete, actions.deleteFilter),
  };
  if (Object.values(flags).every((flag) => flag === false)) {
    throw invalidInput(`the merge would do nothing: set ${actions.update}, ${actions.insert} or ${actions.delete}`);
  }
  return flags;
}

/** Reads an SQL condition of a client's; `InvalidInput` names the parameter, what is wrong, and where. */
export type ReadFilter = (text: string, parameter: string, doubleQuotes?: DoubleQuotes) => CheckedSql;

/** Filters may also call `moreFunctions`, which the operator declares harmless. */
export function filterReader(moreFunctions: readonly string[]): ReadFilter {
  const allowed = new Set([...allowedFunctions, ...moreFunctions]);
  return (text, parameter, doubleQuotes) => checkFilter(text, parameter, allowed, doubleQuotes);
}
