/** A name that is not known must not widen what is changed or read, and a client that is newer than the service must go on working. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { markOf } from '#src/wire/known-names.ts';
import type { Document } from '#test/fixtures/described-answers.ts';
import { ask, upload } from './client.ts';
import { startTestService, type TestService } from './service.ts';

type Refused = readonly [path: string, body: object | undefined, says: RegExp];

const secret = 'secret-4711';

const slips: readonly Refused[] = [
  ['/update', { updates: [['a', '1']], filter: secret }, /"filter" is not known; did you mean predicate\?/],
  ['/update', { updates: [['a', '1']], where: secret }, /"where" .*predicate/],
  ['/update', { updates: [['a', '1']], predicat: secret }, /"predicat" .*predicate/],
  ['/update', { updates: [['a', '1']], brand_new_option: secret }, /"brand_new_option" is not known; did you mean /],
  ['/update?predicate=x', { updates: [['a', '1']] }, /"predicate" is not known; it belongs in the body/],
  ['/delete', { filter: secret }, /"filter" .*predicate/],
  ['/count_rows', { filter: secret }, /"filter" .*predicate/],
  ['/count_rows', { conditoin: secret }, /"conditoin" .*predicate/],
  ['/count_rows?predicate=secret-4711', {}, /belongs in the body/],
  ['/count_rows', { versoin: 3 }, /"versoin" .*version/],
  ['/query', { limit: 1 }, /"limit" .*did you mean k\?/],
  ['/query', { filtr: secret }, /"filtr" .*filter/],
  ['/query', { withRowId: true }, /"withRowId" .*with_row_id/],
  ['/query?k=1', {}, /"k" .*belongs in the body/],
  ['/query', { order_by: [{ column_name: 'a', ascendng: false }] }, /"ascendng" in order_by\[0\] .*ascending/],
  ['/query', { order_by: [{ column_name: 'a', descending: true }] }, /"descending" in order_by\[0\] .*ascending/],
  ['/query', { order_by: [{ column_name: 'a', order: 'desc' }] }, /"order" in order_by\[0\] .*ascending/],
  ['/query', { vector: { single_vectr: [1] } }, /"single_vectr" in vector/],
  ['/query', { vector: { vector: [1] } }, /"vector" in vector .*single_vector/],
  ['/query', { skip: 1 }, /"skip" .*offset/],
  ['/query', { snapshot: 1 }, /"snapshot" .*version/],
  ['/query', { num_results: 1 }, /"num_results" .*k/],
  ['/query', { text_query: 'x' }, /"text_query" .*full_text_query/],
  ['/query', { tag: 'v1' }, /"tag" .*version/],
  ['/query', { size: 1 }, /"size" .*did you mean k\?/],
  ['/query', { where_clause: secret }, /"where_clause" .*filter/],
  ['/query', { postfilter: true }, /"postfilter" .*prefilter/],
  ['/query', { metric_type: 'cosine' }, /"metric_type" .*distance_type/],
  ['/query', { distance_range: [0, 1] }, /"distance_range" .*lower_bound/],
  ['/count_rows?branch_name=b', {}, /"branch_name" .*branch/],
  ['/version/list?page_size=1', undefined, /"page_size" .*limit/],
  ['/query', { columns: { column_names: ['a'], column_alias: {} } }, /"column_alias" in columns/],
  ['/query', { full_text_query: { query: 'x', column: ['a'] } }, /"column" in full_text_query .*columns/],
  ['/query', { full_text_query: { query: { match: { terms: 'x', colum: 'a' } } } }, /"colum" in match .*column/],
  [
    '/query',
    { full_text_query: { query: { boolean: { must: [{ match: { terms: 'x' } }], mustnot: [] } } } },
    /"mustnot" in boolean .*must_not/,
  ],
  [
    '/query',
    { full_text_query: { query: { match: { terms: 'x', document_granularity: 'row' } } } },
    /"document_granularity" in match would change the result, and is not honoured/,
  ],
  ['/query', { full_text_query: { query: { match: { terms: 'x' } }, columns: ['a'] } }, /"columns" in full_text_query/],
  ['/explain_plan', { query: { filtr: secret } }, /"filtr" .*filter/],
  ['/query', { query: { filter: secret } }, /"query" would change the result/],
  ['/analyze_plan', { query: { filter: secret } }, /"query" would change the result/],
  ['/describe', { tags: 'v1' }, /"tags" .*tag/],
  ['/version/list?decending=false', undefined, /"decending" .*descending/],
  ['/alter_columns', { alterations: [{ path: 'a', renam: 'b' }] }, /"renam" in alterations\[0\] .*rename/],
  ['/alter_columns', { alterations: [{ path: 'a', cast_to: {} }] }, /"cast_to" in alterations\[0\] would change/],
  ['/add_columns', { new_columns: [{ name: 'a', expresion: '1' }] }, /"expresion" in new_columns\[0\] .*expression/],
  ['/update_field_metadata', { updates: [{ path: 'a', metadata: {}, replac: true }] }, /"replac" in updates\[0\]/],
  ['/create_index', { column: 'a', index_type: 'BTREE', num_partition: 3 }, /"num_partition" .*num_partitions/],
  ['/create_index', { column: 'a', index_type: 'BLOOM_FILTER', probability: 0.1 }, /"probability" would change/],
  ['/version/delete', { ranges: [{ start_version: 1, end_versoin: 3 }] }, /"end_versoin" in ranges\[0\]/],
  ['/tags/create', { tag: 'a', version: 1, verson: 2 }, /"verson" .*version/],
  ['/restore?version=1', { version: 2 }, /"version" is not known; it belongs in the body/],
  ['/clone', { source_location: 'x', source_versoin: 1 }, /"source_versoin" .*source_version/],
  ['/drop', { behaviour: 'x' }, /"behaviour" is not known/],
  ['/maintain', { job: 'x' }, /"job" is not known/],
];

describe('names that are not known', () => {
  const running = startTestService();
  const on = async (path: string, body?: object) => ask(await running, `/v1/table/t${path}`, { body });
  test.after(async () => (await running)[Symbol.asyncDispose]());

  for (const [path, body, says] of slips) {
    test(`${path} ${JSON.stringify(body)} is 400, and shows names only`, async () => {
      const { status, text, json } = await on(path, body);
      assert.equal(status, 400, text);
      assert.match((json as { error: string }).error, says);
      assert.doesNotMatch(text, /4711/);
    });
  }

  const merging = {
    when_not_matched_insert: 'when_not_matched_insert_all',
    use_indx: 'use_index',
    upload: 'on',
    predicate: 'when_matched_update_all_filt',
    where: 'when_matched_update_all_filt',
  };
  for (const [name, meant] of Object.entries(merging)) {
    test(`merge_insert?on=id&${name}=x is 400, and asks for ${meant}`, async () => {
      const { status, text } = await upload(await running, `/v1/table/t/merge_insert?on=id&${name}=x`);
      assert.equal(status, 400);
      assert.ok(text.includes(`"${name}\\" is not known; did you mean ${meant}?`), text);
    });
  }

  test('a read passes over what is near to nothing, and names it in the answer, the log and a metric', async () => {
    const service = await running;
    const body = { filter: 'a = 1', quantum_hint: secret, order_by: [{ column_name: 'a', collation_name: secret }] };
    const { status, headers, text } = await on('/query?tenant_hint=4711', body);
    assert.equal(status, 200, text);
    assert.equal(headers.get('x-lancegate-ignored'), 'tenant_hint, quantum_hint, order_by%5B%5D.collation_name');
    const ignoredFields = ['tenant_hint', 'quantum_hint', 'order_by[].collation_name'];
    const lines = service.log.filter((line) => 'ignoredFields' in line);
    assert.deepEqual(lines.at(-1)?.ignoredFields, ignoredFields);
    assert.doesNotMatch(JSON.stringify(service.log), /4711/);
    const { text: metrics } = await ask(service, '/metrics', { method: 'GET' });
    assert.match(metrics, /lancegate_ignored_fields_total\{route="\/v1\/table\/:id\/query"\} 3/);
  });

  test('what only advises is taken, and nothing is said of it', async () => {
    const advised: readonly (readonly [path: string, body: object])[] = [
      ['/query', { search_effort: 0.5, approx_mode: 'fast', use_rte: false, identity: {}, context: {} }],
      ['/analyze_plan?distributed_metrics=per_worker', { search_effort: 0.5 }],
      ['/describe?check_declared=true', { load_detailed_metadata: true, vend_credentials: true }],
      ['/update', { updates: [['a', '1']], properties: { a: 'b' } }],
      ['/create_index', { column: 'a', index_type: 'FTS', skip_merge: false }],
    ];
    for (const [path, body] of advised) {
      const { status, headers, text } = await on(path, body);
      assert.equal(status, 200, `${path}: ${text}`);
      assert.equal(headers.get('x-lancegate-ignored'), null);
    }
  });

  test('a short synonym is one only as it is', async () => {
    assert.equal((await on('/query', { filter: 'a = 1', tags: [], name: 'x', expire: 1 })).status, 200);
  });

  test('a field that is null is absent, whatever its name', async () => {
    assert.equal((await on('/update', { updates: [['a', '1']], where: null })).status, 200);
  });

  test('a request with many names is refused before they are all compared (P12)', async () => {
    const many = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`some_name_of_a_field_${at}`, 1]));
    const { status, text } = await on('/query', many);
    assert.equal(status, 400);
    assert.match(text, /more than 32 names/);
  });

  test('names that are passed over make no large header (P12)', async () => {
    const long = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`${'\u4f60'.repeat(30)}_${at}`, 1]));
    const { status, headers } = await on('/query', long);
    assert.equal(status, 200);
    assert.ok((headers.get('x-lancegate-ignored') ?? '').length < 4_000);
  });
});

test('the operator accepts names, which are passed over in writes too', async () => {
  await using service = await startTestService({ config: { acceptFields: ['where', 'when_new'] } });
  const { status, headers } = await ask(service, '/v1/table/t/update', {
    body: { updates: [['a', '1']], where: 'x' },
  });
  assert.deepEqual([status, headers.get('x-lancegate-ignored')], [200, 'where']);
  assert.equal((await upload(service, '/v1/table/t/merge_insert?on=id&when_new=1')).status, 200);
  assert.equal((await upload(service, '/v1/table/t/merge_insert?on=id&when_old=1')).status, 400);
});

interface Digest {
  readonly operations: Readonly<
    Record<
      string,
      {
        readonly parameters: Readonly<Record<string, boolean>>;
        readonly body: Readonly<Record<string, { readonly properties: readonly string[] }>>;
      }
    >
  >;
}

test('every field and parameter of the specification is known', async () => {
  const file = join(import.meta.dirname, '../fixtures/lance-namespace-0.13.0.json');
  const { operations } = JSON.parse(readFileSync(file, 'utf8')) as Digest;
  await using service = await startTestService();
  const offered = new Set(Object.keys(await pathsOf(service)));
  const unknown = Object.entries(operations).flatMap(([route, { parameters, body }]) => {
    const path = route.split(' ')[1]!;
    if (!offered.has(path)) return [];
    const ours = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => `:${name === 'index_name' ? 'index' : name}`);
    const inQuery = Object.keys(parameters).flatMap((each) => (each.startsWith('query ') ? [each.slice(6)] : []));
    const inBody = body['application/json']?.properties ?? [];
    return [
      ...inQuery.filter((name) => markOf(ours, 'query', name) === undefined),
      ...inBody.filter((name) => markOf(ours, 'body', name) === undefined),
    ].map((name) => `${ours} ${name}`);
  });
  assert.deepEqual(unknown, []);
});

const pathsOf = async (service: TestService) =>
  ((await (await fetch(`${service.url}/openapi.json`)).json()) as Document).paths;
