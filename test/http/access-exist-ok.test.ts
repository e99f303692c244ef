/** `exist_ok` answers what is there, which is a description of it (P9). */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (principal == Principal::"maker", action in [Action::"CreateTable", Action::"CreateNamespace"], resource);
`;

describe('exist_ok', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startUnderPolicies(later, policies);
    succeeded(await service.post('/v1/namespace/n/create', { properties: { secret: 'yes' } }));
    succeeded(await service.post('/v1/table/n$t/create', people([1], 'x')));
  });
  const as = async (subject: string) => ({ authorization: `Bearer ${await service.mint('lancegate:admin', subject)}` });

  test('tells neither location nor properties of what is there to who may not describe it', async () => {
    const maker = await as('maker');
    const table = await service.post('/v1/table/n$t/create?mode=exist_ok', people([1], 'x'), maker);
    refused(table, 403, 15, /^DescribeTable on table 'n\$t' is not allowed$/);
    const namespace = await service.post('/v1/namespace/n/create', { mode: 'exist_ok' }, maker);
    refused(namespace, 403, 15, /^DescribeNamespace on namespace 'n' is not allowed$/);
    assert.doesNotMatch(JSON.stringify([table.body, namespace.body]), /file:|secret/);
  });

  test('makes what is not there for who may only create', async () => {
    const maker = await as('maker');
    succeeded(await service.post('/v1/namespace/m/create', { mode: 'exist_ok' }, maker));
    succeeded(await service.post('/v1/table/m$t/create?mode=exist_ok', people([1], 'x'), maker));
  });

  test('answers what is there to who may describe it', async () => {
    const { body } = await service.post('/v1/table/n$t/create?mode=exist_ok', people([1], 'x'));
    assert.match(String(body.location), /t\.lance$/);
    const namespace = await service.post('/v1/namespace/n/create', { mode: 'exist_ok' });
    assert.deepEqual(succeeded(namespace), { properties: { secret: 'yes' } });
  });
});
