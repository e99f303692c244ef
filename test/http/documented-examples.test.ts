import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Field, FixedSizeList, Float32, makeTable, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { openApiDocument } from '#src/http/openapi/document.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type Document, describedRoutes, type Operation } from '#test/fixtures/described-answers.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { startCheckedService, succeeded } from './checked-service.ts';

const document = openApiDocument(describedRoutes, '', 'test') as unknown as Document;

interface Example {
  readonly path: string;
  readonly operation: Operation;
  readonly body: unknown;
}

const examples: readonly Example[] = Object.entries(document.paths).flatMap(([path, { post: operation }]) => {
  const json = operation?.requestBody?.content['application/json'];
  return operation === undefined || json?.example === undefined ? [] : [{ path, operation, body: json.example }];
});

/** Of rows that are no JSON. */
const textExamples = examples.flatMap(({ path, operation }) =>
  Object.entries(operation.requestBody!.content)
    .filter(([type, { example }]) => type !== 'application/json' && example !== undefined)
    .map(([type, { example: body }]) => ({ path, operation, type, body })),
);

/** As the page fills in the path, and the parameters that must be there. */
function filledIn({ path, operation: { parameters } }: Example): string {
  const query = parameters.filter((each) => each.in === 'query' && each.required);
  const filled = query.map(({ name, example }) => `${name}=${String(example)}`);
  const named = (_: string, name: string) => String(parameters.find((each) => each.name === name)?.example);
  const shown = path.replaceAll(/\{(\w+)\}/g, named);
  return filled.length === 0 ? shown : `${shown}?${filled.join('&')}`;
}

const vectors = vectorFromArray(
  [0, 1, 2].map((i) => [i, 0.2, 0.3, 0.4]),
  new FixedSizeList(4, new Field('item', new Float32())),
);
const people = (): Buffer => {
  const scalars = makeTable({ id: Int32Array.of(1, 2, 3), age: Int32Array.of(36, 41, 12) });
  const names = new Table({ name: vectorFromArray(['Ada', 'Grace', 'Alan'], new Utf8()), vector: vectors });
  return Buffer.from(tableToIPC(scalars.assign(names), 'stream'));
};

describe('what the documents page shows works when it is sent', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });

  /** The table of the examples, with a tag, a branch and an index that they name, and a second version. */
  async function restoreTable(): Promise<void> {
    await service.post('/v1/table/people/drop');
    succeeded(await service.post('/v1/table/people/create', people()));
    succeeded(await service.post('/v1/table/people/tags/create', { tag: 'first', version: 1 }));
    succeeded(await service.post('/v1/table/people/branches/create', { name: 'dev' }));
    const index = { column: 'name', index_type: 'FTS' };
    succeeded(await service.post('/v1/table/people/create_index', index));
  }

  const column = { name: 'age_in_months', expression: 'age * 12' };
  const addColumn = () => service.post('/v1/table/people/add_columns', { new_columns: [column] });
  /** For those that make what is there only once, or change what another one made. */
  const doneBefore = new Map<string, () => Promise<unknown>>([
    ['CreateTable', () => service.post('/v1/table/people/drop')],
    ['UndropTable', () => service.post('/v1/table/people/drop')],
    ['DeclareTable', () => service.post('/v1/table/people/drop')],
    ['CreateNamespace', () => service.post('/v1/namespace/team/drop')],
    ['AlterTableAlterColumns', addColumn],
    ['AlterTableDropColumns', addColumn],
    ['CreateTableTag', () => service.post('/v1/table/people/tags/delete', { tag: 'first' })],
    ['CreateTableBranch', () => service.post('/v1/table/people/branches/delete', { name: 'dev' })],
  ]);

  for (const example of examples) {
    const { operationId } = example.operation;
    test(operationId, async () => {
      await restoreTable();
      await service.post('/v1/namespace/team/create');
      await doneBefore.get(operationId)?.();
      const { status, body } = await service.post(filledIn(example), example.body as Record<string, unknown>);
      assert.ok(status === 200 || status === 202, `${status} ${JSON.stringify(body)}`);
    });
  }

  test('those of columns, indexes and versions work one after the other, as a reader goes down the page', async () => {
    await service.post('/v1/table/people/drop');
    const isBefore = ({ operationId }: Operation) => ['CreateTable', 'MergeInsertIntoTable'].includes(operationId);
    const isInGroup = ({ tags }: Operation) => ['Columns', 'Indexes', 'Versions'].includes(tags[0]!);
    const walked = examples.filter(({ operation }) => isBefore(operation) || isInGroup(operation));
    assert.ok(walked.length > 20);
    for (const example of walked)
      succeeded(await service.post(filledIn(example), example.body as Record<string, unknown>));
  });

  for (const example of textExamples) {
    test(`${example.operation.operationId} as ${example.type}`, async () => {
      await restoreTable();
      await doneBefore.get(example.operation.operationId)?.();
      const authorization = `Bearer ${await service.mint('lancegate:write')}`;
      const headers = { authorization, 'content-type': example.type };
      const sent = { method: 'POST', headers, body: String(example.body) };
      const answer = await fetch(`${service.url}${filledIn(example)}`, sent);
      assert.equal(answer.status, 200, await answer.text());
    });
  }

  test('rows have an example in each text, and are answered as JSON first, which the page shows', () => {
    assert.equal(textExamples.length, 6);
    const content = document.paths['/v1/table/{id}/query']!.post!.responses['200']!.content!;
    assert.equal(Object.keys(content)[0], 'application/json');
  });

  test('every JSON body has an example, but where it needs what an earlier answer gave', () => {
    const shown = new Set(examples.map(({ operation }) => operation.operationId));
    const without = Object.values(document.paths)
      .flatMap(({ post }) => (post?.requestBody?.content['application/json'] === undefined ? [] : [post.operationId]))
      .filter((operationId) => !shown.has(operationId));
    assert.deepEqual(without.toSorted(), [
      'BatchCreateTableVersions',
      'CancelJob',
      'CloneTable',
      'CreateTableVersion',
      'DescribeJob',
      'DescribeTransaction',
      'RegisterTable',
    ]);
  });
});
