/** What a work has that needs the names of several tables, some of which other replicas own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { neverAborts } from '#src/kernel/read-write-lock.ts';
import type { RequestScope } from '#src/kernel/request-scope.ts';
import { type CreateVersionCommand, createVersions } from '#src/operations/tables/create-version.ts';
import { TableAccess } from '#src/table/table-access.ts';
import { table } from '#test/contract/catalog/fixtures.ts';
import { cluster, forwarded, type Joined, ownerOf, refusalOf, turns } from './joined-replicas.ts';

test('a work that needs a name of another replica gets it from there', async (t) => {
  const { join, pass } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(a, table('t'), forwarded);
  let isDone = false;
  const acquired = b.owners.acquire([table('t'), table('free')], neverAborts).then(() => {
    isDone = true;
  });
  while (!isDone) await pass(500);
  await acquired;
  assert.deepEqual([b.owners.isOwn(table('t')), b.owners.isOwn(table('free'))], [true, true]);
  assert.deepEqual([a.did, b.did], [['hands over t'], []]);
});

test('versions that are proposed of a table that is not there claim nothing (P7)', async (t) => {
  const { join } = await cluster(t);
  const { owners, catalog } = await join('a');
  const access = new TableAccess(catalog, ...([] as unknown as [never, never, never]));
  const command = { table: table('ghost') } as CreateVersionCommand;
  const made = createVersions({ access, owners } as never)([command], {} as RequestScope);
  assert.equal(await refusalOf(made), 'TableNotFound');
  assert.equal(owners.isOwn(command.table), false);
});

test('two works that each own what the other needs are done one after the other, with all of it', async (t) => {
  const { join, pass, until } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  const [first, second] = [table('first'), table('second')];
  const owned = ({ owners }: Joined) => [first, second].map((name) => owners.isOwn(name));
  await ownerOf(a, first, forwarded);
  await ownerOf(b, second, forwarded);
  const [ofA, ofB] = [a.owners.acquire([first, second], neverAborts), b.owners.acquire([second, first], neverAborts)];
  const names = await until(ofA);
  await pass(4_000);
  assert.deepEqual(
    [owned(a), owned(b)],
    [
      [true, true],
      [false, false],
    ],
    'its names stay while it works',
  );
  names[Symbol.dispose]();
  (await until(ofB))[Symbol.dispose]();
  assert.deepEqual(
    [owned(a), owned(b)],
    [
      [false, false],
      [true, true],
    ],
  );
});

test('works of several replicas that need the same names are all done', async (t) => {
  const { join, pass, until } = await cluster(t);
  const replicas = [await join('a'), await join('b'), await join('c')];
  const names = ['t1', 't2', 't3', 't4', 't5', 't6'].map((name) => table(name));
  for (const [index, name] of names.entries()) await ownerOf(replicas[(index * 2) % 3]!, name, forwarded);
  let underWay = 0;
  const work = async ({ owners }: Joined, index: number): Promise<void> => {
    using _names = await owners.acquire([...names.slice(index), ...names.slice(0, index)], neverAborts);
    underWay += 1;
    assert.equal(underWay, 1);
    await turns();
    assert.ok(names.every((name) => owners.hold(name) === undefined));
    underWay -= 1;
  };
  await pass(1_000);
  await until(Promise.all(replicas.map(work)));
});

test('a replica that leaves acquires nothing, and says so at once', async (t) => {
  const { join, until } = await cluster(t);
  const [a, b] = [await join('a'), await join('b')];
  await ownerOf(b, table('t'), forwarded);
  await until(a.owners.leave());
  assert.equal(await Promise.race([refusalOf(a.owners.acquire([table('t')], neverAborts)), turns()]), 'WriterMoved');
  assert.equal(await ownerOf(b, table('t')), 'b');
});
