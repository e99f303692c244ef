import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ObjectName, TableRef } from '#src/kernel/ids.ts';
import { TableGates } from '#src/table/table-locks.ts';

test('leaving a branch twice does not open it to a second writer (P2)', async () => {
  const gates = new TableGates(10);
  const table: TableRef = { namespace: [], name: 't' as ObjectName };
  const { signal } = new AbortController();
  const leaveTable = await gates.enterShared(table, signal);
  const leaveFirst = await gates.takeBranch(table, undefined, signal);
  leaveFirst();
  const leaveSecond = await gates.takeBranch(table, undefined, signal);
  leaveFirst();
  let isThirdIn = false;
  const third = gates.takeBranch(table, undefined, signal).then((leave) => {
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
