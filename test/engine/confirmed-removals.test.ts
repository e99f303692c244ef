/** A process that stood still knows by its clock that what was confirmed before may not hold any more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfirmedRemovals } from '#src/engine/lance/durability/confirmed-removals.ts';

const frozenMs = 10_000;

test('a process that stood still between two removals asks again before the next one', async () => {
  let nowMs = 0;
  let asked = 0;
  const removals = new ConfirmedRemovals(
    async () => void asked++,
    () => nowMs,
  );
  await removals.next();
  await removals.next();
  assert.equal(asked, 1);
  nowMs += frozenMs;
  await removals.next();
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
});
