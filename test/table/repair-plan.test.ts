import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RowAddressSql } from '#src/engine/port/row-address.ts';
import { planRepair, type Updates } from '#src/merge/external/repair-plan.ts';

const at = (...rows: string[]) => new Map([['k', rows as RowAddressSql[]]]);
const none = new Map<string, RowAddressSql[]>();

test('where an attempt of the engine had found a row of the outsider, a later one of theirs goes and nothing is new', () => {
  for (const updates of ['every column', 'some columns', 'under a filter'] satisfies Updates[]) {
    const places = { matched: none, beside: at('theirs 1', 'theirs 2'), after: at('theirs 2', 'ours') };
    const plan = planRepair(places, updates);
    assert.deepEqual(plan, { keys: new Set(['k']), doomed: ['theirs 2'], missed: [], found: new Set() });
  }
});

test('rows that the outsider alone wrote are left as they are', () => {
  const places = { matched: none, beside: at('theirs 1', 'theirs 2'), after: at('theirs 1', 'theirs 2') };
  const plan = planRepair(places, 'every column');
  assert.deepEqual(plan, { keys: new Set(), doomed: [], missed: [], found: new Set() });
});

test('several rows of the outsider make way for one, or have all their columns updated', () => {
  const places = { matched: none, beside: at('theirs 1', 'theirs 2'), after: at('theirs 1', 'theirs 2', 'ours') };
  assert.deepEqual(planRepair(places, 'every column').doomed, ['theirs 1', 'theirs 2']);
  const { doomed, missed } = planRepair(places, 'some columns');
  assert.deepEqual({ doomed, missed }, { doomed: ['ours'], missed: ['theirs 1', 'theirs 2'] });
  assert.deepEqual(planRepair(places, 'nothing').missed, []);
});
