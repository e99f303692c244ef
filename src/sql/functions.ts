/**
 * Clients may call these functions: their time and the size of their result are bounded by what they are given. Left out are
 * those that make much of little (`repeat`, `lpad`, `range`, `array_resize`), those that compare everything with everything
 * (`levenshtein`), those that say something else each time (`random`, `uuid`), and those that describe the service (`version`).
 * An operator can add to them (`--sql-functions`).
 */
import { arrowTypeRule } from './types.ts';

/**
 * Says what is wrong with the literal that an argument must be, or what reading it costs, in units of `sqlLimits.work`. `before`: the
 * literal that the argument before it is.
 */
export type ArgumentRule = (literal: string, before: string) => string | number;

const plainFunctions = `
  abs acos acosh asin asinh atan atan2 atanh cbrt ceil cos cosh cot degrees exp factorial floor gcd iszero isnan lcm ln log
  log10 log2 nanvl pi pow power radians round signum sin sinh sqrt tan tanh trunc
  coalesce nullif nvl nvl2 ifnull greatest least
  ascii bit_length btrim char_length character_length chr concat concat_ws contains contains_tokens ends_with find_in_set
  initcap instr left length lower ltrim octet_length overlay position reverse right rtrim split_part starts_with strpos
  substr substr_index substring substring_index to_hex translate trim upper
  decode encode digest md5 sha224 sha256 sha384 sha512
  current_date current_time current_timestamp date_bin date_part date_trunc datepart datetrunc extract from_unixtime
  make_date make_time now to_date to_local_time to_time to_timestamp to_timestamp_micros to_timestamp_millis
  to_timestamp_nanos to_timestamp_seconds to_unixtime today
  array_any_value array_append array_cat array_concat array_contains array_dims array_distance array_distinct array_element
  array_empty array_except array_extract array_has array_has_all array_has_any array_indexof array_intersect array_length
  array_max array_min array_ndims array_pop_back array_pop_front array_position array_positions array_prepend
  array_push_back array_push_front array_remove array_remove_all array_reverse array_slice array_sort array_union
  arrays_overlap cardinality empty flatten list_append list_cat list_concat list_contains list_dims list_distance
  list_distinct list_element list_empty list_except list_extract list_has list_has_all list_has_any list_indexof
  list_intersect list_length list_max list_position list_positions list_prepend list_remove list_reverse list_slice
  list_sort list_union make_array make_list
  cosine_distance dot_product inner_product
  named_struct struct row element_at map_extract map_keys map_values map_entries
  arrow_typeof json_get json_get_bool json_get_float json_get_int json_get_string
`;

const longestPattern = 1_000;

const regexRule: ArgumentRule = (pattern) => {
  if (pattern.length > longestPattern) return `is longer than ${longestPattern} characters`;
  const repeated = [...pattern.matchAll(/\{\s*([0-9]*)\s*,?\s*([0-9]*)\s*\}/g)]
    .map(([, least, most]) => Math.max(1, Number(least), Number(most)))
    .reduce((product, times) => product * times, 1);
  // `(a{100}){100}` repeats 10,000 times.
  if (repeated > 100) return 'repeats more than 100 times by its counts';
  // A class of letters such as \w takes the engine 0.2 ms for each time it is repeated.
  return 8 * pattern.length * repeated;
};

/** `..` visits everything below everything, and a `?` filter asks of each. */
const jsonPathRule: ArgumentRule = (path) => {
  if (path.length > longestPattern) return `is longer than ${longestPattern} characters`;
  return /\.\.|\?|\*\*/.test(path) ? 'may not hold .., ** or a ? filter' : path.length;
};

const mostGrowth = 8;

/** How much longer a text can get where one text in it is replaced by another. */
const growthOf = (replaced: string, by: string): number =>
  Math.max(1, Buffer.byteLength(by) / Math.max(1, Buffer.byteLength(replaced)));

/** What a `replace` counts of `sqlLimits.multipliers`: as each function, and for each time that it doubles its text as `encode`. */
export const replaceMultipliers = (replaced: string, by: string): number =>
  1 + 2 * Math.ceil(Math.log2(growthOf(replaced, by)));

/** An empty one is found between all characters. */
const replacedRule: ArgumentRule = (replaced) => (replaced === '' ? 'is empty' : textRule(replaced, ''));

const replacingRule: ArgumentRule = (by, replaced) =>
  growthOf(replaced, by) > mostGrowth
    ? `is more than ${mostGrowth} times as long as the text that it replaces`
    : textRule(by, '');

const textRule: ArgumentRule = (text) =>
  text.length > longestPattern ? `is longer than ${longestPattern} characters` : text.length;

/** The argument of this index must be a literal, so that it is known before any row is. */
export const argumentRules: ReadonlyMap<string, ReadonlyMap<number, ArgumentRule>> = new Map([
  [
    'replace',
    new Map([
      [1, replacedRule],
      [2, replacingRule],
    ]),
  ],
  ...['regexp_like', 'regexp_match', 'regexp_count', 'regexp_instr'].map(
    (name) => [name, new Map([[1, regexRule]])] as const,
  ),
  ...['json_array_contains', 'json_array_length', 'json_exists', 'json_extract'].map(
    (name) => [name, new Map([[1, jsonPathRule]])] as const,
  ),
  ...['arrow_cast', 'arrow_try_cast'].map(
    (name) => [name, new Map([[1, (type: string) => arrowTypeRule(type) ?? 1]])] as const,
  ),
]);

export const allowedFunctions: ReadonlySet<string> = new Set([
  ...plainFunctions.split(/\s+/).filter(Boolean),
  ...argumentRules.keys(),
]);

/**
 * Each of them inside of another doubles something. The engine writes `coalesce` and its kin as CASE, with their arguments
 * twice. What `encode` makes, and the text of an array of bytes, is twice as long as what it is made of.
 */
export const multiplyingFunctions: ReadonlySet<string> = new Set([
  'coalesce',
  'ifnull',
  'nvl',
  'nvl2',
  'encode',
  'arrow_cast',
  'arrow_try_cast',
]);

/** Calls with a syntax of their own; the words separate their arguments as a comma would. */
export const keywordCalls: ReadonlyMap<string, readonly string[]> = new Map([
  ['CAST', ['AS']],
  ['TRY_CAST', ['AS']],
  ['EXTRACT', ['FROM']],
  ['SUBSTRING', ['FROM', 'FOR']],
  ['SUBSTR', ['FROM', 'FOR']],
  ['POSITION', ['IN']],
  ['TRIM', ['FROM']],
  ['OVERLAY', ['PLACING', 'FROM', 'FOR']],
  ['CEIL', []],
  ['FLOOR', []],
]);
