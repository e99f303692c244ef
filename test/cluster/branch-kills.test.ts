/** The owner of a table is killed while it makes a branch, and another replica takes the table over. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { StoreRequest } from '#test/fixtures/store-proxy.ts';
import { type Member, startReplicas, withoutReplicas } from './nemesis/cluster.ts';
import { MemberClients, replyOf } from './nemesis/member-clients.ts';

const isPlacing = ({ method, kind, isConditional }: StoreRequest): boolean =>
  method === 'PUT' && kind === 'manifest' && !isConditional;
const isRecord = ({ method, path }: StoreRequest): boolean =>
  method === 'PUT' && path.replaceAll(/%5f/gi, '_').includes('_refs');

describe('an owner that is killed while it makes a branch of a branch with an index', {
  skip: withoutReplicas ?? false,
}, () => {
  const after = afterSuite();
  let clients: MemberClients;
  before(async () => {
    clients = new MemberClients(await startReplicas(after, 2));
  });

  const ask = async (member: Member, table: string, path: string, body: object): Promise<unknown> => {
    const reply = replyOf(await clients.send(member, `/v1/table/${table}/${path}`, body));
    assert.equal(reply.status, 200, reply.body.toString());
    return JSON.parse(reply.body.toString());
  };

  /** Resolves when the next owner has taken the table over. */
  const killedAt = async (table: string, isLast: (request: StoreRequest) => boolean): Promise<Member> => {
    const [owner, other] = await clients.newTable(table);
    await ask(owner, table, 'create_scalar_index', { column: 'value', index_type: 'BTREE' });
    await ask(owner, table, 'branches/create', { name: 'a' });
    const reached = Promise.withResolvers<void>();
    owner.toStore!.faults = (request) => {
      if (isLast(request)) reached.resolve();
      return isLast(request) ? { kind: 'cut before' } : undefined;
    };
    const cutOff = clients.send(owner, `/v1/table/${table}/branches/create`, { name: 'b', from_branch: 'a' });
    await reached.promise;
    await owner.replica.kill();
    await cutOff;
    await clients.untilAppended(other, table, 'of the next');
    clients.healStores();
    await owner.replica.start();
    return other;
  };

  const found = (member: Member, table: string): Promise<unknown> =>
    ask(member, table, 'count_rows', { branch: 'b', predicate: "value = 'of the search'" });
  const branchesOf = async (member: Member, table: string): Promise<readonly string[]> => {
    const { branches } = (await ask(member, table, 'branches/list', {})) as { branches: object };
    return Object.keys(branches).toSorted();
  };

  test('leaves a whole branch, once the engine has made it (P1)', async () => {
    const next = await killedAt('placed', isPlacing);
    assert.deepEqual(await branchesOf(next, 'placed'), ['a', 'b']);
    assert.equal(await found(next, 'placed'), 1);
  });

  test('leaves no branch before that, and a client can make it then (P1, P6)', async () => {
    const next = await killedAt('recorded', isRecord);
    assert.deepEqual(await branchesOf(next, 'recorded'), ['a']);
    await ask(next, 'recorded', 'branches/create', { name: 'b', from_branch: 'a' });
    assert.equal(await found(next, 'recorded'), 1);
  });
});
