import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { guides } from '#src/http/openapi/guide.ts';
import { notOfferedPaths } from '#src/http/routes/not-offered.ts';
import { durationPattern } from '#src/wire/query-parameters.ts';
import { checkDescribed, type Document, type Operation, schemaIn } from '#test/fixtures/described-answers.ts';
import { startTestService, type TestService } from './service.ts';

interface Digest {
  readonly operations: Readonly<Record<string, Specified>>;
}

/** `true`: required. */
interface Specified {
  readonly operationId: string;
  readonly parameters: Readonly<Record<string, boolean>>;
  readonly body: Readonly<Record<string, Fields>>;
  readonly answers: Readonly<Record<string, Readonly<Record<string, Fields>>>>;
}

interface Fields {
  readonly required: readonly string[];
  readonly properties: readonly string[];
}

const digest = JSON.parse(
  readFileSync(join(import.meta.dirname, '../fixtures/lance-namespace-0.13.0.json'), 'utf8'),
) as Digest;

const getDocument = async (service: TestService): Promise<Document> =>
  (await (await fetch(`${service.url}/openapi.json`)).json()) as Document;

/** By `POST /v1/table/{id}/query`, as the digest has it. */
const operationsOf = ({ paths }: Document): ReadonlyMap<string, Operation> =>
  new Map(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const),
    ),
  );

/** What the specification has, and this service has otherwise on purpose. */
const differences: Readonly<Record<string, readonly string[]>> = {
  // Defaults that change nothing: every answer has what they ask for.
  DescribeTable: ['lacks query load_detailed_metadata', 'lacks query check_declared'],
  // `properties` are stored only "if supported": an update changes rows, and no settings of the table.
  UpdateTable: ['lacks properties in the body'],
  // A query without vectors is a scan, and one without `k` reads all rows.
  QueryTable: ['does not require k in the body', 'does not require vector in the body'],
  AnalyzeTableQueryPlan: ['does not require k in the body', 'does not require vector in the body'],
};

/** Fields of bodies that are of other services: they are ignored, or refused, and not described. */
const undescribed = new Set([
  'context', // The HTTP headers say it.
  'identity',
  'vend_credentials',
  'load_detailed_metadata',
  'check_declared',
]);

test('the document has the paths, parameters and required fields of the specification', async () => {
  await using service = await startTestService();
  const document = await getDocument(service);
  const described = operationsOf(document);
  const refused = new Set(notOfferedPaths.map(specificationPath));
  const found = Object.entries(digest.operations).flatMap(([route, specified]) => {
    const operation = described.get(route);
    if (operation !== undefined)
      return [[specified.operationId, differencesOf(document, specified, operation)] as const];
    assert.ok(refused.has(route.split(' ')[1]!), `${route} is neither described nor refused`);
    return [];
  });
  assert.deepEqual(Object.fromEntries(found.filter(([, each]) => each.length > 0)), differences);
});

const specificationPath = (path: string): string =>
  path.replaceAll(/:(\w+)/g, (_, part: string) => `{${part === 'index' ? 'index_name' : part}}`);

function differencesOf(document: Document, specified: Specified, found: Operation): readonly string[] {
  const parameters = new Map(found.parameters.map((each) => [`${each.in} ${each.name}`, each.required]));
  const ofName = found.operationId === specified.operationId ? [] : [`is ${found.operationId}`];
  const ofParameters = Object.entries(specified.parameters).flatMap(([name, isRequired]) => {
    if (!parameters.has(name)) return [`lacks ${name}`];
    return parameters.get(name) === isRequired ? [] : [`${isRequired ? 'does not require' : 'requires'} ${name}`];
  });
  const ofBodies = Object.entries(specified.body).flatMap(([type, fields]) => {
    const schema = schemaIn(document, found.requestBody?.content[type]?.schema);
    if (schema === undefined) return [`lacks a body of ${type}`];
    const required = schema.required ?? [];
    return [
      ...fields.properties
        .filter((name) => !undescribed.has(name) && schema.properties?.[name] === undefined)
        .map((name) => `lacks ${name} in the body`),
      ...fields.required
        .filter((name) => !required.includes(name))
        .map((name) => `does not require ${name} in the body`),
      ...required.filter((name) => !fields.required.includes(name)).map((name) => `requires ${name} in the body`),
    ];
  });
  const ofAnswers = Object.entries(specified.answers['200'] ?? {}).flatMap(([type, fields]) => {
    const schema = schemaIn(document, found.responses['200']?.content?.[type]?.schema);
    if (schema === undefined) return [`lacks an answer of ${type}`];
    const required = schema.required ?? [];
    return fields.required.filter((name) => !required.includes(name)).map((name) => `may answer without ${name}`);
  });
  return [...ofName, ...ofParameters, ...ofBodies, ...ofAnswers];
}

test('every operation is in a group and says what it does, and the guide has no other', async () => {
  await using service = await startTestService();
  const document = await getDocument(service);
  const names = new Set(document.tags.map(({ name }) => name));
  const operations = [...operationsOf(document).values()];
  for (const { operationId, tags, description } of operations) {
    assert.deepEqual([operationId, tags.length, names.has(tags[0]!)], [operationId, 1, true]);
    assert.ok(description.length > 0, operationId);
  }
  assert.deepEqual(Object.keys(guides).toSorted(), operations.map(({ operationId }) => operationId).toSorted());
});

test('the timeout that the document describes is what the service takes', () => {
  const pattern = new RegExp(durationPattern);
  for (const taken of ['500ms', '30s', '1.5m', '1h30m', '30', '0']) assert.match(taken, pattern);
  for (const refused of ['', '-1s', 'soon', '5 s', '5d', '1s1h', '1e3', 's']) assert.doesNotMatch(refused, pattern);
});

test('a parameter that is read only to be refused is not in the document', async () => {
  await using service = await startTestService();
  const operations = [...operationsOf(await getDocument(service)).values()];
  const names = new Set(operations.flatMap(({ parameters }) => parameters.map(({ name }) => name)));
  assert.ok(names.has('use_index'));
  assert.deepEqual(
    ['use_lsm', 'upload_id'].filter((name) => names.has(name)),
    [],
  );
});

test('operations have names of their own, and every reference leads somewhere', async () => {
  await using service = await startTestService();
  const document = await getDocument(service);
  const operations = [...operationsOf(document)];
  const names = operations.map(([, { operationId }]) => operationId);
  assert.equal(new Set(names).size, names.length);
  for (const [route, { parameters }] of operations) {
    const inPath = [...route.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    assert.deepEqual(
      parameters.filter((each) => each.in === 'path').map(({ name }) => name),
      inPath,
      route,
    );
  }
  for (const [, reference = ''] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
    const target = reference
      .split('/')
      .reduce<unknown>((part, name) => (part as Record<string, unknown>)[name], document);
    assert.ok(target !== undefined, reference);
  }
});

test('the document and the page are there for anyone, below the base path, and ask no other host', async () => {
  await using service = await startTestService({ config: { basePath: '/lance' } });
  const document = await fetch(`${service.url}/lance/openapi.json`);
  assert.deepEqual(((await document.json()) as Document).servers, [{ url: '/lance' }]);
  const page = await fetch(`${service.url}/lance/docs`);
  assert.match(page.headers.get('content-type')!, /^text\/html/);
  assert.equal(page.headers.get('cache-control'), 'public, max-age=3600');
  const policy = page.headers.get('content-security-policy')!;
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.doesNotMatch(policy, /https?:|unsafe|\*/);
  const text = await page.text();
  const links = [...text.matchAll(/(?:src|href)="(?!data:)([^"]+)"/g)].map(([, link]) => link);
  assert.equal(links.length, 3);
  for (const link of links) {
    const file = await fetch(`${service.url}${link}`);
    assert.equal(file.status, 200, link);
    assert.ok((await file.arrayBuffer()).byteLength > 100, link);
  }
  assert.doesNotMatch(text, /<script>|style=|https?:/);
  assert.equal(service.verified(), 0);
  assert.equal((await fetch(`${service.url}/docs`)).status, 404);
  const other = await fetch(`${service.url}/lance/docs`, { method: 'POST' });
  assert.deepEqual([other.status, other.headers.get('allow')], [405, 'GET, HEAD']);
});

test('an answer that the document does not describe is found', () => {
  const answer = { version: 1, transaction_id: 'tx' };
  checkDescribed('POST', '/v1/table/t/restore', answer);
  for (const wrong of [{ version: 1 }, { ...answer, version: '1' }, { ...answer, more: true }, undefined]) {
    assert.throws(() => checkDescribed('POST', '/v1/table/t/restore', wrong), assert.AssertionError);
  }
  assert.throws(() => checkDescribed('POST', '/v1/table/t/exists', {}), assert.AssertionError);
});

/** They change nothing, or may be repeated as they are. */
const withoutKey: ReadonlySet<string> = new Set([
  ...['AnalyzeTableQueryPlan', 'CountTableRows', 'ExplainTableQueryPlan', 'GetTableStats', 'QueryTable'],
  'ReadTableChanges',
  ...['CancelJob', 'DescribeJob', 'DescribeNamespace', 'DescribeTable', 'DescribeTableIndexStats'],
  ...['DescribeTableVersion', 'DescribeTransaction', 'GetTableTagVersion', 'ListJobs', 'ListTableBranches'],
  ...['ListTableIndices', 'ListTableTags', 'ListTableVersions', 'NamespaceExists', 'TableExists'],
  ...['PrewarmTableIndex'],
]);

test('every operation that changes something takes an Idempotency-Key (P6)', async () => {
  await using service = await startTestService();
  const posted = [...operationsOf(await getDocument(service))].filter(([path]) => path.startsWith('POST '));
  const lacking = posted.filter(
    ([, { parameters = [] }]) => !parameters.some(({ name }) => name === 'idempotency-key'),
  );
  assert.deepEqual(lacking.map(([, { operationId }]) => operationId).toSorted(), [...withoutKey].toSorted());
});

test('each parameter says what it does, and only those that have to be sent have values that the page fills in', async () => {
  await using service = await startTestService();
  for (const { operationId, parameters } of operationsOf(await getDocument(service)).values())
    for (const { name, description, required, schema, example } of parameters) {
      assert.ok((description ?? '') !== '', `${operationId} ${name}`);
      assert.ok(required || example === undefined, `${operationId} ${name}`);
      assert.ok(schema?.type !== undefined, `${operationId} ${name}`);
      assert.equal(schema.default, undefined, `${operationId} ${name}`);
    }
});

test('the page asks for what it can show', async () => {
  await using service = await startTestService();
  const start = await (await fetch(`${service.url}/docs/start.js`)).text();
  let options: { readonly requestInterceptor: (request: object) => object } | undefined;
  runInNewContext(start, { SwaggerUIBundle: (given: typeof options) => (options = given) });
  const accepts = (accept: string): object => options!.requestInterceptor({ headers: { accept } });
  assert.deepEqual(accepts('*/*'), { headers: { accept: 'application/json' } });
  assert.deepEqual(accepts('text/csv'), { headers: { accept: 'text/csv' } });
});
