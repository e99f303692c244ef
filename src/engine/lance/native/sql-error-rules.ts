/**
 * What the engine says of SQL that a client wrote, and of queries. With `translate-errors.ts`, which has the rules for all else,
 * this is the only place that reads its texts.
 */
import type { ErrorName } from '../../../kernel/errors.ts';
import type { EngineRefusal } from '../../port/refusal.ts';

/**
 * In the message, `{part}` is what the shape captures and `{filter}` is what the filter at fault is called. `refusal` marks
 * what callers of the port tell apart.
 */
export type Rule = readonly [shape: RegExp, kind: ErrorName, message: string, refusal?: EngineRefusal];

export const filterRules: readonly Rule[] = [
  [/No field named (.+?)\. /s, 'TableColumnNotFound', '{filter} names a column that does not exist: {part}'],
  [
    /Field '(.+?)' not found\.\nAvailable fields/s,
    'TableColumnNotFound',
    '{filter} names a column that does not exist: {part}',
  ],
  [/Field (\S+) not found in struct/, 'TableColumnNotFound', '{filter} names a column that does not exist: {part}'],
  [
    /Ambiguous reference to unqualified field (\S+)/,
    'InvalidInput',
    '{filter} must say which row it means: write target.{part} for the old row or source.{part} for the new one',
  ],
  [/sql parser error: (.+?)\)(?:, \/|\n| {2}Caused|$)/s, 'InvalidInput', '{filter} is not valid SQL: {part}'],
  [/invalid SQL predicate: (.+?) at Line: /s, 'InvalidInput', '{filter} is not valid SQL: {part}'],
  [/Invalid function '([^']*)'/, 'InvalidInput', '{filter} calls an unknown function: {part}'],
  [
    /Received literal .+? and could not convert to literal of type '([^']+)'/,
    'InvalidInput',
    '{filter} compares a column of type {part} with a literal that does not convert to it',
  ],
  [
    /is not supported SQL in lance|Operator \S+ is not supported|not yet implemented|feature is not implemented/,
    'InvalidInput',
    '{filter} uses SQL that filters do not support, such as a subquery, a placeholder or an aggregate',
  ],
  [/does not return a boolean/, 'InvalidInput', '{filter} is not a condition: it must be true or false for each row'],
  // In a merge this comes as a failure of storage.
  [
    /Failed to coerce types ([^/\n]{1,200}? in \w+) expression/,
    'InvalidInput',
    '{filter} cannot be evaluated: types that do not go together: {part}',
  ],
  // These name functions and types. Other complaints of planning come up on rows too, and then name their values.
  [
    /Error during planning: ((?:Function '\w+' |The function '\w+' expected |Cannot infer common argument type |There isn't a common type |\w+ does not support type )[^/\n]+?)(?:\. ?No function|\. ?You might|, \/|\n|$)/,
    'InvalidInput',
    '{filter} cannot be evaluated: {part}',
  ],
  [/Schema error: ([^/\n]+?)(?:, \/|\n|$)/, 'InvalidInput', '{filter} cannot be evaluated: {part}'],
];

const notOfStorage =
  /^(?!.*(?:LanceError\(IO\)(?!: Internal error: )|os error \d|Object at location|lance-encoding-|Resources exhausted)).*?/
    .source;

/** The client who wrote the filter may not be allowed to read a row: the message says what went wrong, and never with which value. */
const evaluation = (shape: RegExp, why: string): Rule => [
  new RegExp(`${notOfStorage}(?:${shape.source})`, 's'),
  'InvalidInput',
  `{filter} cannot be evaluated on a row: ${why}`,
];

/** The last one is for whatever else a function or an operator says. */
export const evaluationRules: readonly Rule[] = [
  evaluation(/[Dd]ivide by zero/, 'it divides by zero'),
  evaluation(/[Oo]verflow/, 'a number is too large for its type'),
  evaluation(/regex parse error|Regular expression did not compile/, 'a regular expression is not valid, or too large'),
  evaluation(/Failed to decode/, 'a text cannot be decoded'),
  evaluation(
    /Cast error|Parser error|Error parsing|Unable to cast|Unable to parse/,
    'a value does not fit the type it is converted to',
  ),
  evaluation(/invalid index|invalid stride/, 'an index or a stride is out of range'),
  evaluation(
    /`Option::unwrap\(\)` on a `None` value|granularity|Date part|DATE_BIN|is out of range|out of range/,
    'a date, or a part of one, is not valid',
  ),
  evaluation(/Failed to encode JSONB|CAST to JSONB/, 'jsonb takes a text, written out, that is JSON'),
  evaluation(/Invalid escape character/, 'ESCAPE takes a text of one character'),
  evaluation(
    /Execution error|Error applying filter|Error optimizing sql filter|Error resolving filter|Error parsing function|Error during planning|Internal error: |LanceError\(Arrow\)|Arrow error|Compute error|Invalid argument error|attempt to (?:divide|multiply|add|subtract|negate)/,
    'a function or an operator does not take these values',
  ),
  [
    /Unsupported data type|(?:^|GenericFailure, )Invalid input, /,
    'InvalidInput',
    '{filter} uses SQL that filters do not support, such as a type, a sign or a subscript',
  ],
];

export const rowNames: Rule = [
  /Invalid input, Column (_row\w+) does not exist/,
  'InvalidInput',
  '{filter} takes {part} only alone, with = or IN',
];

const noTextIndex = 'full_text_query: no column has a full-text index: create_index makes one, with index_type FTS';

/** What the checks before do not find: it depends on indexes. */
export const queryRules: readonly Rule[] = [
  rowNames,
  [/unless an INVERTED index has been created/, 'InvalidInput', noTextIndex],
  [/Scans must request at least one column/, 'InvalidInput', 'columns: at least one must be of the table'],
  [
    /failed to construct the fuzzy query/,
    'InvalidInput',
    'full_text_query: fuzziness: a term is too long to look for others like it',
  ],
  [
    /several columns have a full-text index/,
    'InvalidInput',
    'full_text_query: several columns have a full-text index: name the column',
  ],
  [/FTS field path '(.+?)' does not exist/, 'TableColumnNotFound', 'full_text_query: the table has no column {part}'],
  [/FTS field '(.+?)' does not contain child/, 'TableColumnNotFound', 'full_text_query: {part} has no such field'],
  [/FTS field '(.+?)' must resolve to/, 'InvalidInput', 'full_text_query: column {part} holds no text'],
  [/LanceError\(Schema\): Field path|FTS field path/, 'InvalidInput', 'full_text_query: a column is not well-formed'],
  [
    /position is not found but required for phrase queries/,
    'InvalidInput',
    'full_text_query: the full-text index has no positions, which a phrase needs: build it with them',
  ],
  [
    /boolean query must have at least one|must contain at least one leaf query/,
    'InvalidInput',
    'full_text_query: a boolean query needs a part that should or must match',
  ],
  [
    /ef must be greater than or equal to k/,
    'InvalidInput',
    'ef: it must not be below k times refine_factor, with offset',
  ],
  [/assertion failed: k > 0/, 'InvalidInput', 'k must be above 0 for the analysis of a search or of an order'],
  [
    /Phrase queries cannot be used with multiple columns/,
    'InvalidInput',
    'full_text_query: words in quotes are looked for as a phrase, in one column: name it alone',
  ],
  [/Distance type (\w+) does not support/, 'InvalidInput', 'distance_type: {part} does not go with these vectors'],
  [
    /TakeExec requires the input plan to have a column named/,
    'InvalidInput',
    'order_by: select the columns to order by, too, or set with_row_id; without it, a struct of the table has two fields of one name: select others',
  ],
  [/Resources exhausted/, 'ReaderDied', 'the query needed more memory than it may have; nothing was written'],
];
