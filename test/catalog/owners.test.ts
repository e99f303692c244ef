import { randomUUID } from 'node:crypto';
import { describe } from 'node:test';
import { ownersContract } from '#test/contract/catalog/owners.ts';
import { openMemoryCatalog } from '#test/fixtures/shared-catalog.ts';

describe('on SQLite,', () => ownersContract(() => openMemoryCatalog(() => 1_000_000, randomUUID)));
