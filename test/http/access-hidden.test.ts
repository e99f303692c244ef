/** What a table or a namespace is like is told to those who may describe it, by whatever request they learn that it is there (P9). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startUnderPolicies, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

const policies = `
permit (principal == Principal::"tester", action, resource);
permit (
  principal == Principal::"guest",
  action in [Action::"DropTable", Action::"DeregisterTable"],
  resource
);
`;

test('drop and deregister tell no location and no properties to who may not describe', async (t) => {
  const service = await startUnderPolicies((clean) => t.after(clean), policies);
  const guest = { authorization: `Bearer ${await service.mint('lancegate:read', 'guest')}` };
  const properties = encodeURIComponent(JSON.stringify({ owner: 'ann' }));
  for (const name of ['a', 'b', 'c']) {
    succeeded(await service.post(`/v1/table/${name}/create?properties=${properties}`, people([1], 'x')));
  }
  const seen = succeeded(await service.post('/v1/table/c/drop', {}));
  assert.match(String(seen.location), /c\.lance/);
  assert.deepEqual(seen.properties, { owner: 'ann' });
  for (const [name, action] of [
    ['a', 'drop'],
    ['b', 'deregister'],
  ] as const) {
    const hidden = succeeded(await service.post(`/v1/table/${name}/${action}`, {}, guest));
    assert.deepEqual(hidden, { id: [name], properties: {} });
  }
});
