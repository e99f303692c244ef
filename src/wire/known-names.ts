/**
 * Which names of fields and of query parameters a request may have. A slip must not widen what is changed or read: a request
 * that changes something is refused for any name that is not known, one that reads for a name that is near to a known one. Any
 * other is passed over, so that a client that is newer than this service goes on working.
 */
import Type, { type TSchema } from 'typebox';
import { invalidInput } from '../kernel/errors.ts';
import { isObject } from '../kernel/json-bounds.ts';
import { editDistance } from '../kernel/nearest-word.ts';
import { markOf } from './client-fields.ts';

type Named = Readonly<Record<string, unknown>>;

/** `InvalidInput` for one of the names that is not a key of `known`; `at` is the object that has them, '' for the request. */
export type NameCheck = (names: readonly string[], known: Named, at: string) => void;

export interface NamesOfRoute {
  readonly path: string;
  /** It changes something. */
  readonly isStrict: boolean;
  readonly parameters: Named;
  /** Of the body. */
  readonly fields: Named;
}

/** More are no slip, and each is compared with all that are known. */
const mostUnknown = 32;
const longestName = 100;
/** Of a slip. */
const mostEdits = 2;

/** `accepted` are passed over by the operator's word. `passedOver` hears of what no client of our list sends. */
export function nameCheck(
  route: NamesOfRoute,
  accepted: readonly string[],
  passedOver: (name: string) => void,
): NameCheck {
  const unknown = new Set<string>();
  const judge = (name: string, known: Named, at: string): void => {
    const path = (at === '' ? name : `${at}.${name}`).replaceAll(/\[\d+\]/g, '[]');
    const mark = markOf(route.path, known === route.parameters ? 'query' : 'body', path);
    if (mark === 'advises' || unknown.has(path)) return;
    if (unknown.size === mostUnknown) throw invalidInput(`more than ${mostUnknown} names are not known`);
    unknown.add(path);
    const nearest = nearestTo(name.slice(0, longestName), known, at, route);
    if (mark !== undefined) throw refusal(name, at, 'would change the result, and is not honoured here', nearest);
    const isSlip = route.isStrict || nearest.edits <= mostEdits;
    if (isSlip && !accepted.includes(name)) throw refusal(name, at, 'is not known', nearest);
    passedOver(path);
  };
  return (names, known, at) => {
    for (const name of names) {
      if (!Object.hasOwn(known, name)) judge(name, known, at);
    }
  };
}

function refusal(name: string, at: string, what: string, nearest: Nearest) {
  const place = at === '' ? '' : ` in ${at}`;
  return invalidInput(`${JSON.stringify(name.slice(0, longestName))}${place} ${what}${nearest.hint}`);
}

interface Nearest {
  readonly edits: number;
  /** The end of a sentence. */
  readonly hint: string;
}

/** Of the request itself, names of the body are known in the query string too, and the other way round. A read compares slips only. */
function nearestTo(name: string, known: Named, at: string, { parameters, fields, isStrict }: NamesOfRoute): Nearest {
  const [elsewhere, other] = known === parameters ? [fields, 'body'] : [parameters, 'query string'];
  if (at === '' && Object.hasOwn(elsewhere, name)) return { edits: 0, hint: `; it belongs in the ${other}` };
  const asked = plain(name);
  const candidates = at === '' ? { ...known, ...elsewhere } : known;
  const isSynonym = (word: string) => word.length > 4 || plain(word) === asked;
  return Object.keys(candidates)
    .flatMap((means) => {
      const others = synonyms.find((group) => group.includes(means)) ?? [];
      const words = others.filter((word) => isSynonym(word) && !Object.hasOwn(candidates, word));
      return [means, ...words].map((word) => ({ means, word: plain(word) }));
    })
    .filter(({ word }) => isStrict || Math.abs(word.length - asked.length) <= mostEdits)
    .map(({ means, word }) => ({ edits: editDistance(asked, word), hint: `; did you mean ${means}?` }))
    .reduce((a, b) => (b.edits < a.edits ? b : a), { edits: Infinity, hint: '' });
}

/** Words of other programs for the same thing. One of up to four letters is one only as it is: else it would be near to everything. */
const synonyms = [
  'filter where condition predicate only_if expression where_clause filter_expression row_filter criteria expr sql when_matched_update_all_filt',
  'k limit top_k num_results max_results max_rows row_limit page_size size take',
  'offset skip',
  'version snapshot at_version as_of_version as_of timestamp ver tag',
  'branch branch_name ref',
  'mode exist_ok overwrite',
  'ascending descending desc direction order',
  'full_text_query full_text full_text_search text_query fts_query query_text search_text fts',
  'columns select projection fields select_columns cols',
  'order_by sort_by sort',
  'distance_type metric_type distance_metric metric',
  'lower_bound distance_range min_distance',
  'upper_bound max_distance',
  'prefilter postfilter',
  'vector query_vector embedding',
  'single_vector vector values',
  'vector_column vector_column_name',
].map((words) => words.split(' '));

/** The same in any case and with any separators. */
const plain = (name: string): string => name.toLowerCase().replaceAll(/[_-]/g, '');

/** Checks the names of `value`, and of the objects in it whose fields the schema has. */
export function checkNames(schema: TSchema, value: unknown, at: string, check: NameCheck): void {
  if (Array.isArray(value)) {
    if (!Type.IsArray(schema)) return;
    for (const [index, item] of value.entries()) checkNames(schema.items, item, `${at}[${index}]`, check);
  } else if (isObject(value) && Type.IsObject(schema)) {
    check(namesOf(value), schema.properties, at);
    for (const [name, inner] of Object.entries(schema.properties)) {
      checkNames(inner, value[name], at === '' ? name : `${at}.${name}`, check);
    }
  }
}

/** Without those of fields that are null, which are absent. */
export const namesOf = (value: object): readonly string[] =>
  Object.entries(value).flatMap(([name, field]) => (field === null ? [] : [name]));
