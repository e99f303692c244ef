/** A process that stood still knows by its clock that what was confirmed before may not hold any more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfirmedRemovals } from '#src/engine/lance/durability/confirmed-removals.ts';
import { LancegateError } from '#src/kernel/errors.ts';

const frozenMs = 10_000;

test('each removal is confirmed, and what refuses a later one does not say that nothing was written (P6)', async () => {
  let asked = 0;
  const removals = new ConfirmedRemovals(async () => {
    if (++asked !== 1) throw new LancegateError('CatalogUnavailable', 'nothing was written');
  });
  await removals.next();
  await assert.rejects(removals.next(), { kind: 'Internal' });
  assert.equal(asked, 2);
});

test('a process that stood still while it asked removes nothing, whatever the answer was', async () => {
  let nowMs = 0;
  const removals = new ConfirmedRemovals(
    async () => {
      nowMs += frozenMs;
    },
    () => nowMs,
  );
  await assert.rejects(removals.next(), { kind: 'CatalogUnavailable' });
  await assert.rejects(removals.next(), { kind: 'Internal' });
});
