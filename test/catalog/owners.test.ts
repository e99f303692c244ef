import { randomUUID } from 'node:crypto';
import { describe } from 'node:test';
import { ownersContract } from '#test/contract/catalog/owners.ts';
import { openMemoryCatalog } from '#test/fixtures/shared-catalog.ts';

describe('on SQLite,', () => {
  let nowMs = 1_000_000;
  ownersContract(() => openMemoryCatalog(() => (nowMs += 1), randomUUID));
});
