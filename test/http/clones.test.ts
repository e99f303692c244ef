/** `clone`: a table of its own, made of one version of another. */
import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '@lancedb/lancedb';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { AdvancingClock } from '#test/maintenance/advancing-clock.ts';
import { refused, startCheckedService, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"guest", action, resource in Namespace::"mine");
permit (principal == Principal::"mainly", action, resource);
forbid (principal == Principal::"mainly", action, resource) when { context.branch != "main" };
`;

describe('cloning a table', () => {
  const later = afterSuite();
  let service: TestService;
  let source: string;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    succeeded(await service.post('/v1/table/t/create', people([1, 2], 'x')));
    await (await (await connect(service.tablesFolder)).openTable('t')).createIndex('id');
    for (const [id, name] of [
      [3, 'y'],
      [1, 'z'],
    ] as const) {
      succeeded(await service.post('/v1/table/t/merge_insert?on=id', people([id], name)));
    }
    succeeded(await service.post('/v1/table/t/branches/create', { name: 'dev', from_version: 1 }));
    succeeded(await service.post('/v1/table/t/merge_insert?on=id&branch=dev', people([9, 1], 'd')));
    succeeded(await service.post('/v1/table/t/tags/create', { tag: 'dev-2', version: 2, branch: 'dev' }));
    succeeded(await service.post('/v1/namespace/mine/create', {}));
    source = String(succeeded(await service.post('/v1/table/t/describe')).location);
  });
  const clone = (id: string, body: object, headers?: Record<string, string>) =>
    service.post(`/v1/table/${id}/clone`, { source_location: source, ...body }, headers);
  const rowsOf = async (id: string, of = service) => {
    const { location } = succeeded(await of.post(`/v1/table/${id}/describe`));
    const folder = fileURLToPath(String(location));
    const table = await (await connect(join(folder, '..'))).openTable(
      folder
        .split('/')
        .at(-1)!
        .replace(/\.lance$/, ''),
    );
    const rows = await table.query().toArray();
    return rows.map(({ id: key, name }) => `${Number(key)}${String(name)}`).sort();
  };
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:read', subject)}` });

  test('a clone has the rows, the version and the indexes of its source, and goes its own way', async () => {
    succeeded(await clone('c', { is_shallow: true }));
    assert.deepEqual(await rowsOf('c'), ['1z', '2x', '3y']);
    assert.equal(succeeded(await service.post('/v1/table/c/describe')).version, 4);
    const listed = succeeded(await service.post('/v1/table/c/index/list')).indexes as { index_name: string }[];
    assert.deepEqual(
      listed.map(({ index_name }) => index_name),
      ['id_idx'],
    );
    assert.deepEqual(succeeded(await service.post('/v1/table/c/tags/list')), { tags: {} });
    const merged = succeeded(await service.post('/v1/table/c/merge_insert?on=id', people([2, 5], 'c')));
    assert.deepEqual([merged.version, merged.num_updated_rows, merged.num_inserted_rows], [5, 1, 1]);
    assert.deepEqual(
      [await rowsOf('c'), await rowsOf('t')],
      [
        ['1z', '2c', '3y', '5c'],
        ['1z', '2x', '3y'],
      ],
    );
  });

  test('an earlier version, and a version of a branch by its tag, with all that the branch has from main', async () => {
    succeeded(await clone('first', { source_version: 1, is_shallow: false }));
    assert.deepEqual(await rowsOf('first'), ['1x', '2x']);
    succeeded(await clone('mine$tagged', { source_tag: 'dev-2' }));
    assert.deepEqual(await rowsOf('mine$tagged'), ['1d', '2x', '9d']);
    succeeded(await service.post('/v1/table/mine$tagged/merge_insert?on=id', people([2], 'e')));
    assert.deepEqual(await rowsOf('mine$tagged'), ['1d', '2e', '9d']);
  });

  test('a clone of a clone has its own files, too', async () => {
    succeeded(await clone('c1', {}));
    const at = succeeded(await service.post('/v1/table/c1/describe')).location;
    succeeded(await clone('c2', { source_location: at }));
    succeeded(await service.post('/v1/table/c1/drop'));
    assert.deepEqual(await rowsOf('c2'), ['1z', '2x', '3y']);
  });

  test('what is not there or not allowed is refused, and leaves nothing behind (P1)', async () => {
    const folders = () => readdirSync(service.tablesFolder).sort();
    const stored = folders();
    refused(await clone('x', { source_version: 99 }), 404, 11);
    refused(await clone('x', { source_tag: 'none' }), 404, 8);
    refused(await clone('x', { source_version: 1, source_tag: 'dev-2' }), 400, 13, /one of them/);
    refused(await clone('t', {}), 409, 5);
    refused(await clone('none$x', {}), 404, 1);
    for (const outside of ['/etc/t.lance', '../t.lance', 's3://b/t.lance', 't.lance/tree/dev', '', 'none.lance']) {
      refused(await clone('x', { source_location: outside }), 400, 13, /source_location/);
    }
    refused(await service.post('/v1/table/x/clone', {}), 400, 13, /source_location/);
    assert.deepEqual(folders(), stored);
    refused(await service.post('/v1/table/x/describe'), 404, 4);
  });

  test('source and target need the right, and who lacks it learns nothing of the source (P9)', async () => {
    const guest = await as('guest');
    refused(await clone('x', {}, guest), 403, 15);
    const answers = [await clone('mine$x', {}, guest), await clone('mine$x', { source_location: 'none.lance' }, guest)];
    for (const answer of answers) refused(answer, 400, 13, /no table is stored there/);
    const mainly = await as('mainly');
    refused(await clone('x', { source_tag: 'dev-2' }, mainly), 404, 8);
    succeeded(await clone('by-mainly', {}, mainly));
  });

  test('the audit record has the source, and the transaction can be asked for', async () => {
    succeeded(await clone('audited', {}));
    const records = service.log.map((line) => JSON.parse(line) as Record<string, unknown>);
    const { table, location, actions, decision } =
      records.findLast(({ route }) => route === '/v1/table/:id/clone') ?? {};
    const expected = { table: 'audited', location: source, actions: ['CloneTable'], decision: 'allowed' };
    assert.deepEqual({ table, location, actions, decision }, expected);
  });
});

test('a clone stays whole when its source is pruned, compacted, overwritten and dropped', async (t) => {
  const clock = new AdvancingClock();
  const service = await startCheckedService(t.after.bind(t), { AUTO_MAINTENANCE: 'false' }, clock);
  succeeded(await service.post('/v1/table/t/create', people([1, 2], 'x')));
  for (const id of [2, 3, 4]) succeeded(await service.post('/v1/table/t/merge_insert?on=id', people([id], 'y')));
  const body = { source_location: 't.lance' };
  succeeded(await service.post('/v1/table/c/clone', body));
  const count = async () =>
    (await service.post('/v1/table/c/count_rows', { predicate: "name in ('x', 'y')" })).body as unknown;
  const [file] = readdirSync(join(service.tablesFolder, 'c.lance', 'data'));
  assert.ok(statSync(join(service.tablesFolder, 'c.lance', 'data', file!)).nlink > 1, 'it takes no space');
  clock.advance(120_000);
  succeeded(await service.post('/v1/table/t/maintain'));
  assert.equal(await count(), 4);
  succeeded(await service.post('/v1/table/t/create?mode=overwrite', people([8], 'z')));
  succeeded(await service.post('/v1/table/t/drop'));
  assert.equal(await count(), 4);
  clock.advance(120_000);
  succeeded(await service.post('/v1/table/c/maintain'));
  assert.equal(await count(), 4);
});

test('clones of a table that is being written and pruned are whole or refused (P1)', async (t) => {
  const clock = new AdvancingClock();
  const service = await startCheckedService(t.after.bind(t), { AUTO_MAINTENANCE: 'false' }, clock);
  succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
  for (let i = 2; i <= 40; i++) succeeded(await service.post('/v1/table/t/merge_insert?on=id', people([i, 1], 'y')));
  clock.advance(120_000);
  const clone = async (version: number): Promise<boolean> => {
    const body = { source_location: 't.lance', source_version: version };
    const answer = await service.post(`/v1/table/c${version}/clone`, body);
    if (answer.status !== 200) refused(answer, 404, 11);
    return answer.status === 200;
  };
  assert.ok(await clone(1));
  const cloned = [1];
  let isPruned = false;
  const maintained = service.post('/v1/table/t/maintain').finally(() => {
    isPruned = true;
  });
  const merged = service.post('/v1/table/t/merge_insert?on=id', people([1], 'z'));
  for (let version = 2; !isPruned && version <= 40; version++) if (await clone(version)) cloned.push(version);
  for (const answer of await Promise.all([maintained, merged])) succeeded(answer);
  succeeded(await service.post('/v1/table/t/drop'));
  for (const version of cloned.slice(-5)) {
    const counted = await service.post(`/v1/table/c${version}/count_rows`, { predicate: 'id > 0' });
    assert.equal(counted.body as unknown, version);
  }
});
