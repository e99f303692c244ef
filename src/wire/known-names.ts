/**
 * Which names of fields and of query parameters a request may have. A slip must not widen what is changed or read: a request
 * that changes something is refused for any name that is not known, one that reads for a name that is near to a known one. Any
 * other is passed over, so that a client that is newer than this service goes on working.
 */
import Type, { type TSchema } from 'typebox';
import { invalidInput } from '../kernel/errors.ts';
import { isObject } from '../kernel/json-bounds.ts';
import { editDistance } from '../kernel/nearest-word.ts';

type Named = Readonly<Record<string, unknown>>;

/** `InvalidInput` for one of the names that is not a key of `known`; `at` is the object that has them, '' for the request. */
export type NameCheck = (names: readonly string[], known: Named, at: string) => void;

export interface NamesOfRoute {
  readonly path: string;
  /** It changes something. */
  readonly isStrict: boolean;
  readonly parameters: Named;
  /** The body has these. */
  readonly fields: Named;
}

/** More are no slip, and each is compared with all that are known. */
const mostUnknown = 32;
const longestName = 100;
/** A slip has so many edits at the most. */
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

/**
 * Other programs have these words for the same thing. One of up to four letters is one only as it is: else it would be near to
 * everything.
 */
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

/** Makes names equal that differ in case or separators only. */
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

/** Leaves out those of fields that are null, which are absent. */
export const namesOf = (value: object): readonly string[] =>
  Object.entries(value).flatMap(([name, field]) => (field === null ? [] : [name]));

/**
 * Released clients send these fields and query parameters, by the path of the route. A name is read by the schema of its
 * route, unless a mark says otherwise: `~` only advises, and changes nothing here; `!` would change the result and cannot be
 * honoured, so the request is refused. What a route reads beyond these, its schema alone has.
 *
 * It is made from the specification 0.13.0, the generated Python clients 0.0.21 to 0.13.0, and the recorded traffic of
 * `@lancedb/lancedb` 0.21.3 to 0.39.0 for Node, `lancedb` 0.21.2 to 0.40.0 for Python and pylance 2.0.1 to 14.0.2; `test/wire`
 * has the rest. To take a newer client into account, record what it sends, and add what is new.
 */
interface SentByClients {
  readonly query?: string;
  /** It names the fields of the objects in it, too, as `alterations[].path`. */
  readonly body?: string;
}

/** The Java client sends `id` as an empty list; the HTTP headers say what the other two do. */
const everyBody = 'id branch ~identity ~context';
const everyQuery = 'delimiter branch timeout';

/** Of Lance REST clients; the parts of a full-text query nest, and each is named by its kind alone. */
const search = `
  version k offset filter columns columns.column_names columns.column_aliases prefilter fast_search with_row_id
  vector vector.single_vector vector.multi_vector vector_column distance_type bypass_vector_index lower_bound upper_bound
  nprobes minimum_nprobes maximum_nprobes ef refine_factor order_by order_by[].column_name order_by[].ascending
  order_by[].nulls_first use_lsm use_rte ~approx_mode ~search_effort
  full_text_query full_text_query.query full_text_query.columns
  full_text_query.string_query full_text_query.string_query.query full_text_query.string_query.columns
  full_text_query.structured_query full_text_query.structured_query.query
  match.terms match.column match.boost match.fuzziness match.max_expansions match.operator match.prefix_length
  !match.document_granularity phrase.terms phrase.column phrase.slop !phrase.document_granularity
  boost.positive boost.negative boost.negative_boost boolean.should boolean.must boolean.must_not
  multi_match.query multi_match.columns multi_match.boost multi_match.operator multi_match.match_queries
  !multi_match.document_granularity`;

const index = `
  column index_type name replace distance_type metric_type num_partitions target_partition_size num_sub_vectors num_bits
  sample_rate max_iterations m ef_construction lance_tokenizer base_tokenizer language with_position max_token_length
  lower_case stem remove_stop_words custom_stop_words ascii_folding min_ngram_length max_ngram_length prefix_only block_size
  split_identifiers split_on_numerics preserve_original index_operators document_granularity ~skip_merge
  !number_of_items !probability !page_size`;

const sentByClients: Readonly<Record<string, SentByClients>> = {
  '/v1/jobs/cancel': { body: 'job_id' },
  '/v1/jobs/describe': { body: 'job_id' },
  '/v1/namespace/:id/create': { body: 'mode properties' },
  '/v1/namespace/:id/drop': { body: 'mode behavior' },
  '/v1/namespace/:id/list': { query: 'limit page_token' },
  '/v1/namespace/:id/table/list': { query: 'limit page_token include_declared' },
  '/v1/table': { query: 'limit page_token include_declared' },
  '/v1/table/:id/add_columns': {
    body: `new_columns new_columns[].name new_columns[].expression new_columns[].computed new_columns[].virtual_column
      auto_refresh_enabled`,
  },
  '/v1/table/:id/alter_columns': {
    body: `alterations alterations[].path alterations[].rename alterations[].nullable alterations[].data_type
      alterations[].virtual_column !alterations[].column !alterations[].cast_to`,
  },
  '/v1/table/:id/analyze_plan': { query: '~distributed_metrics', body: `${search} !query` },
  '/v1/table/:id/branches/create': { body: 'name from_branch from_version' },
  '/v1/table/:id/branches/delete': { body: 'name' },
  '/v1/table/:id/branches/list': { query: 'limit page_token', body: 'limit page_token' },
  '/v1/table/:id/clone': { body: 'source_location source_version source_tag is_shallow' },
  '/v1/table/:id/count_rows': { body: 'predicate version !filter' },
  '/v1/table/:id/create': { query: 'mode properties storage_options' },
  '/v1/table/:id/create_index': { body: index },
  '/v1/table/:id/create_scalar_index': { body: index },
  '/v1/table/:id/declare': { body: 'location properties ~vend_credentials' },
  '/v1/table/:id/delete': { body: 'predicate' },
  '/v1/table/:id/describe': {
    query: 'with_table_uri ~check_declared ~load_detailed_metadata',
    body: 'version tag with_table_uri ~check_declared ~load_detailed_metadata ~vend_credentials',
  },
  '/v1/table/:id/drop_columns': { body: 'columns' },
  '/v1/table/:id/exists': { body: 'version' },
  '/v1/table/:id/explain_plan': { body: `query verbose ${search}` },
  '/v1/table/:id/index/:index/drop': { body: 'index_name' },
  '/v1/table/:id/index/:index/stats': { body: 'index_name version' },
  '/v1/table/:id/index/list': { query: 'limit page_token', body: 'version limit page_token' },
  '/v1/table/:id/insert': { query: 'mode upload_id !upload_part_id' },
  '/v1/table/:id/merge_insert': {
    query: `on when_matched_update_all when_matched_update_all_filt when_not_matched_insert_all
      when_not_matched_by_source_delete when_not_matched_by_source_delete_filt use_index use_lsm use_rte`,
  },
  '/v1/table/:id/query': { body: `${search} !query` },
  '/v1/table/:id/register': { body: 'location mode properties' },
  '/v1/table/:id/rename': { body: 'new_table_name new_namespace_id new_namespace' },
  '/v1/table/:id/restore': { body: 'version' },
  '/v1/table/:id/tags/create': { body: 'tag version' },
  '/v1/table/:id/tags/delete': { body: 'tag' },
  '/v1/table/:id/tags/list': { query: 'limit page_token', body: 'limit page_token' },
  '/v1/table/:id/tags/update': { body: 'tag version' },
  '/v1/table/:id/tags/version': { body: 'tag' },
  // The specification lets a server keep `properties` of an update or not.
  '/v1/table/:id/update': { body: 'predicate updates ~properties' },
  '/v1/table/:id/update_field_metadata': {
    body: 'updates updates[].path updates[].metadata updates[].replace',
  },
  '/v1/table/:id/version/create': { body: 'version manifest_path manifest_size naming_scheme e_tag metadata' },
  '/v1/table/:id/version/delete': { body: 'ranges ranges[].start_version ranges[].end_version' },
  '/v1/table/:id/version/describe': { body: 'version' },
  '/v1/table/:id/version/list': { query: 'descending limit page_token', body: 'descending limit page_token' },
  '/v1/table/version/batch-create': {
    body: `entries entries[].id entries[].branch entries[].version entries[].manifest_path entries[].manifest_size
      entries[].naming_scheme entries[].e_tag entries[].metadata`,
  },
};

const marks = { '': 'read', '~': 'advises', '!': 'refused' } as const;

/** What becomes of a name, given with the path to it; undefined for one that no client of the list sends. */
export function markOf(
  route: string,
  place: keyof SentByClients,
  path: string,
): (typeof marks)[keyof typeof marks] | undefined {
  const everywhere = place === 'body' ? everyBody : everyQuery;
  const sent = `${everywhere} ${sentByClients[route]?.[place] ?? ''}`.split(/\s+/);
  const name = path.replaceAll(/\[\d+\]/g, '[]');
  return Object.entries(marks).find(([sign]) => sent.includes(sign + name))?.[1];
}
