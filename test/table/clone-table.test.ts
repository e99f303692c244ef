import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { TableRecord } from '#src/catalog/port.ts';
import type { Location, ObjectName, TableRef } from '#src/kernel/ids.ts';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import { cloneTable } from '#src/operations/tables/clone-table.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import { EmbeddedOwners } from '#src/table/table-owners.ts';

const table = (name: string): TableRef => ({ namespace: [], name: name as ObjectName });

test('while the files of a source are linked it is neither pruned nor dropped, and its writers go on (P1)', async () => {
  const locks = new TableLocks(10);
  const source = { ref: table('t'), location: 't.lance', state: 'created' } as unknown as TableRecord;
  const events: string[] = [];
  const others: Promise<unknown>[] = [];
  const clone = async () => {
    const asks = async (name: string, lock: Promise<() => void>) => {
      (await lock)();
      events.push(name);
    };
    others.push(
      asks('written', locks.lockBranch(source.ref, undefined, neverAborts)),
      asks('pruned', locks.lockTags(source.ref, neverAborts)),
      asks('dropped', locks.lockExclusive(source.ref, neverAborts)),
    );
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    events.push('linked');
    return { record: source, version: 3, rows: 1 };
  };
  const creation = { clone, publish: async () => {}, [Symbol.asyncDispose]: async () => {} };
  const deps = {
    locks,
    catalog: {
      locationsAt: async () => [{ location: source.location, state: 'held', owner: source.ref }],
      findTable: async ({ name }: TableRef) => (name === 't' ? source : undefined),
    },
    engine: { locationOf: (text: string) => text as Location },
    access: { requireUnchanged: async () => source, describe: () => undefined },
    maker: { begin: async () => creation },
    owners: new EmbeddedOwners(),
  } as unknown as Parameters<typeof cloneTable>[0];
  const command = { table: table('c'), sourceLocation: 't.lance', sourceVersion: 3, sourceTag: undefined };
  const scope = { signal: neverAborts } as Parameters<ReturnType<typeof cloneTable>>[1];
  await cloneTable(deps)({ ...command, mayClone: () => true }, scope);
  await Promise.all(others);
  assert.deepEqual(
    [events.slice(0, 2), events.slice(2).sort()],
    [
      ['written', 'linked'],
      ['dropped', 'pruned'],
    ],
  );
});
