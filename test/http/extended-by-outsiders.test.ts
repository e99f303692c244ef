/** Sources that bring columns to a table which another program extends meanwhile, past the gate. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Float64 } from 'apache-arrow';
import { openDirectly } from '#test/clients/connections.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { columns, merge, refused, startWith, typed } from './extending.ts';
import { storedRows, stream } from './rows.ts';

async function byRowAddress(service: TestService): Promise<number> {
  const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
  const text = await (await fetch(`${service.url}/metrics`, { headers })).text();
  return Number(/^lancegate_shared_commits_total\{counted_by="key_index"\} (\d+)$/m.exec(text)?.[1] ?? 0);
}

/** Merges one row, whose columns the table has, until that goes by row address. */
async function mergeUntilByRowAddress(service: TestService): Promise<void> {
  const before = await byRowAddress(service);
  for (let sent = 0; (await byRowAddress(service)) === before; sent++) {
    assert.ok(sent < 100, 'no merge goes by row address');
    const { num_updated_rows: updated } = await merge(service, stream({ id: [1], a: [sent] }), '');
    assert.equal(updated, 1);
  }
}

async function addDirectly(service: TestService, columns: Readonly<Record<string, string>>): Promise<void> {
  const table = await openDirectly(service, 't');
  const there = new Set((await table.schema()).fields.map(({ name }) => name));
  const lacking = Object.entries(columns).filter(([name]) => !there.has(name));
  await table.addColumns(lacking.map(([name, valueSql]) => ({ name, valueSql })));
}

test('a column that another program has added since the last look is taken as the table has it (P2, P4)', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1, 2], a: [1, 2] }));
  await mergeUntilByRowAddress(service);
  await addDirectly(service, { b: 'cast(id * 0 + 7 as int)' });
  const answer = await merge(service, stream({ id: [2, 3], b: [8, 9], c: ['x', 'y'] }));
  assert.deepEqual(
    [answer.num_updated_rows, answer.num_inserted_rows, answer.added_columns],
    [1, 1, [{ name: 'c', type: 'utf8' }]],
  );
  await addDirectly(service, { d: 'cast(id as string)' });
  await refused(service, 'merge_insert?on=id&schema=extend', stream({ id: [1], d: typed(new Float64(), [0.5]) }), /d/);
  await mergeUntilByRowAddress(service);
  const rows = await storedRows(service, 't');
  assert.deepEqual(
    rows.map(({ a: _, ...row }) => row),
    [
      { id: 1, b: 7, c: null, d: '1' },
      { id: 2, b: 8, c: 'x', d: '2' },
      { id: 3, b: 9, c: 'y', d: '3' },
    ],
  );
});

test('columns that come from both sides at once are all there, with each row, and merges go by row address again (P2, P8)', async (t) => {
  const service = await startWith((clean) => t.after(clean), stream({ id: [1], a: [1] }));
  await mergeUntilByRowAddress(service);
  const rounds = Array.from({ length: 8 }, (_, round) => round);
  for (const round of rounds) {
    // The other program is refused where the service commits first, and tries again.
    const theirs = async (): Promise<void> => {
      const value = 'cast(id * 0 - 1 as int)';
      const add = () => addDirectly(service, { [`theirs${round}`]: value, [`both${round}`]: value });
      for (let left = 20; !(await add().then(...settled)); left--) assert.ok(left > 0, 'it is never added');
    };
    const ours = merge(
      service,
      stream({ id: [1, 10 + round], [`ours${round}`]: [round, round], [`both${round}`]: [round, round] }),
    );
    const [answer] = await Promise.all([ours, theirs()]);
    assert.deepEqual([answer.num_updated_rows, answer.num_inserted_rows], [1, 1]);
    const [first] = answer.added_columns as readonly object[];
    assert.deepEqual(first, { name: `ours${round}`, type: 'int32' });
  }
  const names = (await columns(service)).map((column) => column.replace(/:.*/, ''));
  const added = rounds.flatMap((round) => [`ours${round}`, `theirs${round}`, `both${round}`]);
  assert.deepEqual(names.toSorted(), ['id', 'a', ...added].toSorted());
  await mergeUntilByRowAddress(service);
  const rows = await storedRows(service, 't');
  assert.equal(rows.length, 9);
  for (const round of rounds)
    assert.deepEqual(
      rows.filter((row) => row[`ours${round}`] === round && row[`both${round}`] === round).map(({ id }) => id),
      [1, 10 + round],
    );
});

const settled = [() => true, () => false] as const;
