import assert from 'node:assert/strict';
import { people } from './rows.ts';

type Ask = (path: string, body: object) => Promise<Record<string, unknown>>;

/**
 * Makes `branched` with ids 1 to 3, and of it the branches a, b and c, each of the one before. Main has an index and a has another;
 * on b and c both are used, and the row with id 2 goes.
 */
export async function branchBranchesWithIndexes(ask: Ask): Promise<void> {
  await ask('branched/create', people([1, 2, 3], 'one'));
  await ask('branched/create_scalar_index', { column: 'id', index_type: 'BTREE' });
  await ask('branched/branches/create', { name: 'a' });
  await ask('branched/create_scalar_index', { branch: 'a', column: 'name', index_type: 'BTREE' });
  await ask('branched/branches/create', { name: 'b', from_branch: 'a' });
  await ask('branched/branches/create', { name: 'c', from_branch: 'b' });
  for (const branch of ['b', 'c']) {
    assert.equal(await ask('branched/count_rows', { branch, predicate: 'id = 2' }), 1);
    const deleted = await ask('branched/delete', { branch, predicate: "id = 2 AND name = 'one'" });
    assert.equal(deleted.num_deleted_rows, 1);
  }
}
