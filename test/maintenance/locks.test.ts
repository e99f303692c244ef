import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ObjectName, TableRef } from '#src/kernel/ids.ts';
import { TableLocks } from '#src/table/table-locks.ts';

test('leaving a branch twice does not open it to a second writer (P2)', async () => {
  const locks = new TableLocks(10);
  const table: TableRef = { namespace: [], name: 't' as ObjectName };
  const { signal } = new AbortController();
  const leaveTable = await locks.lockShared(table, signal);
  const leaveFirst = await locks.lockBranch(table, undefined, signal);
  leaveFirst();
  const leaveSecond = await locks.lockBranch(table, undefined, signal);
  leaveFirst();
  let isThirdIn = false;
  const third = locks.lockBranch(table, undefined, signal).then((leave) => {
    isThirdIn = true;
    return leave;
  });
  await Promise.resolve();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isThirdIn, false);
  leaveSecond();
  (await third)();
  leaveTable();
});
