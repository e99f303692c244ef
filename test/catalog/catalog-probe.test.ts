import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CatalogProbe } from '#src/catalog/catalog-probe.ts';
import { rejects } from '#test/contract/catalog/fixtures.ts';
import { ManualClock } from '#test/http-unit/manual-clock.ts';

function probeOfCatalog() {
  const clock = new ManualClock();
  const waiting: (() => void)[] = [];
  const findNamespace = () => new Promise<undefined>((resolve) => waiting.push(() => resolve(undefined)));
  return { clock, waiting, probe: new CatalogProbe({ findNamespace }, clock) };
}

test('a readiness check waits two seconds for a catalog that does not answer', async () => {
  const { clock, probe } = probeOfCatalog();
  const refused = rejects(probe.requireAnswer(), 'CatalogUnavailable');
  clock.advance(2_000);
  await refused;
});

test('a catalog that does not answer readiness checks is asked three times at most, and again when it answers (P7)', async () => {
  const { clock, waiting, probe } = probeOfCatalog();
  const refused = Array.from({ length: 10 }, () => {
    const refusal = rejects(probe.requireAnswer(), 'CatalogUnavailable');
    clock.advance(1_000);
    return refusal;
  });
  clock.advance(2_000);
  await Promise.all(refused);
  assert.equal(waiting.length, 3);
  for (const answer of waiting) answer();
  await new Promise(setImmediate);
  const ready = probe.requireAnswer();
  assert.equal(waiting.length, 4);
  waiting[3]?.();
  await ready;
});
