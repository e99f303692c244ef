/** An owner of a table stands still in the middle of a commit, another replica takes the table over, and the first one wakes up. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { isCommit, onNth } from '#test/fixtures/store-proxy.ts';
import type { Sent } from './history/attempts.ts';
import { type Member, startReplicas, withoutReplicas } from './nemesis/cluster.ts';
import { MemberClients, outcomeOfWrite, replyOf } from './nemesis/member-clients.ts';

/** From SIGTERM on, an owner waits about a second for the lock of a table. */
const longerThanHandoverMs = 2_000;
const [ofTheFirst, ofTheNext] = ['of the first', 'of the next'];

/** The next commit of the member waits in the store, from `reached` until `release` is called. */
function stopNextCommit({ toStore }: Member, kind: 'held' | 'stalled') {
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const choose = onNth(1, isCommit, { kind, until: released.promise });
  toStore!.faults = (request) => {
    const fault = choose(request);
    if (fault !== undefined) reached.resolve();
    return fault;
  };
  return { reached: reached.promise, release: () => released.resolve() };
}

/** Its commits wait for those of `zombie` that are on their way; `began` is called when there is one. */
function holdCommits(member: Member, zombie: Member, began: () => void): void {
  member.toStore!.faults = (request) => {
    if (!isCommit(request)) return undefined;
    began();
    return { kind: 'held', until: zombie.toStore!.delivered() };
  };
}

describe('an owner that stands still in the middle of a commit', {
  skip: withoutReplicas ?? false,
}, () => {
  const after = afterSuite();
  let clients: MemberClients;
  before(async () => {
    clients = new MemberClients(await startReplicas(after, 2));
  });

  /** The owner freezes when its commit has reached the fault; the other one writes; the owner wakes, and its commit goes on. */
  const overtake = async (table: string, kind: 'held' | 'stalled', headers: Record<string, string>) => {
    const [owner, other] = await clients.newTable(table);
    const { reached, release } = stopNextCommit(owner, kind);
    const first = clients.append(owner, table, ofTheFirst, headers);
    await reached;
    // Reads are fresh, so they show what the store has done and does not answer yet.
    if (kind === 'stalled') while ((await clients.count(other, table, ofTheFirst)) === 0) await pause(50);
    owner.replica.freeze();
    const next = await clients.untilAppended(other, table, ofTheNext);
    const wake = (): void => {
      owner.replica.thaw();
      release();
    };
    return { owner, other, first, next, wake };
  };

  const counts = async (member: Member, table: string): Promise<readonly number[]> => [
    await clients.count(member, table, ofTheFirst),
    await clients.count(member, table, ofTheNext),
  ];

  test('commits nothing after it wakes, and its client can retry (P3, P6)', async () => {
    const key = randomUUID();
    const { other, first, wake } = await overtake('held', 'held', { 'idempotency-key': key });
    wake();
    await first;
    await clients.untilAppended(other, 'held', ofTheFirst, key);
    assert.deepEqual(await counts(other, 'held'), [1, 1]);
  });

  test('refuses a write without a key that it had begun, and nothing of it is written (P6)', async () => {
    const { owner, first, wake } = await overtake('keyless', 'held', {});
    wake();
    assert.equal(outcomeOfWrite(await first), 'nothing written', JSON.stringify(await first));
    assert.deepEqual(await counts(owner, 'keyless'), [0, 1]);
  });

  /** The next owner is asked for `asked` first; its first commit, whatever it is, waits until that of the first owner has arrived. */
  const race = async (table: string, asked: 'the retry' | 'another write'): Promise<number> => {
    const [owner, other] = await clients.newTable(table);
    const claimed = Promise.withResolvers<void>();
    const key = randomUUID();
    const cutOff = clients.lateCommit(owner, claimed.promise);
    const first = clients.append(owner, table, ofTheFirst, { 'idempotency-key': key });
    await cutOff;
    owner.replica.freeze();
    holdCommits(other, owner, claimed.resolve);
    if (asked === 'another write') await clients.untilAppended(other, table, ofTheNext);
    await clients.untilAnswered(other, table, ofTheFirst, key);
    owner.replica.thaw();
    clients.healStores();
    await first;
    await clients.untilAnswered(other, table, ofTheFirst, key);
    return clients.count(other, table, ofTheFirst);
  };

  test('does not have its commit applied beside a later retry (P6)', async () => {
    assert.equal(await race('fenced', 'another write'), 1);
  });

  test('does not have its commit applied beside a retry that makes the next owner (P6)', async () => {
    assert.equal(await race('raced', 'the retry'), 1);
  });

  test('removes no tag of the next owner after it wakes (P1)', async () => {
    const table = 'tagged';
    const [owner, other] = await clients.newTable(table);
    const tags = (member: Member, operation: string, body: object) =>
      clients.send(member, `/v1/table/${table}/tags/${operation}`, { tag: 'kept', ...body });
    const done = async (sending: Promise<Sent>): Promise<unknown> => {
      const { status, body } = replyOf(await sending);
      assert.equal(status, 200, body.toString());
      return JSON.parse(body.toString() || 'null');
    };
    await done(tags(owner, 'create', { version: 1 }));
    const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    owner.toStore!.faults = ({ path, kind }) => {
      if (kind !== 'list' || !path.includes('_refs')) return undefined;
      reached.resolve();
      return { kind: 'stalled', until: released.promise };
    };
    const late = tags(owner, 'delete', {});
    await reached.promise;
    owner.replica.freeze();
    await clients.untilAppended(other, table, ofTheNext);
    await done(tags(other, 'delete', {}));
    await done(tags(other, 'create', { version: 2 }));
    owner.replica.thaw();
    released.resolve();
    assert.equal(replyOf(await late).status, 503);
    clients.healStores();
    assert.deepEqual(await done(tags(other, 'version', {})), { version: 2 });
  });

  test('leaves the first answer to the next owner if its commit was there (P6)', async () => {
    const key = randomUUID();
    const { other, first, next, wake } = await overtake('landed', 'stalled', { 'idempotency-key': key });
    const retried = await clients.untilAppended(other, 'landed', ofTheFirst, key);
    assert.ok(retried.version < next.version, `${retried.version} is before ${next.version}`);
    wake();
    const late = await first;
    if (outcomeOfWrite(late) === 'done') {
      assert.equal(JSON.parse(replyOf(late).body.toString()).version, retried.version);
    }
    assert.deepEqual(await counts(other, 'landed'), [1, 1]);
  });
});

describe('an owner that is told to end', { skip: withoutReplicas ?? false }, () => {
  const after = afterSuite();
  let clients: MemberClients;
  before(async () => {
    clients = new MemberClients(await startReplicas(after, 2));
  });

  /** Its client is told that nobody knows, and the commit arrives when `until` is over. */
  const lose = async (member: Member, table: string, key: string, until: Promise<unknown>): Promise<void> => {
    void clients.lateCommit(member, until);
    const sent = await clients.append(member, table, ofTheFirst, { 'idempotency-key': key });
    assert.equal(outcomeOfWrite(sent), 'unknown', JSON.stringify(sent));
  };

  /** How often the write is there, if its retry makes `member` the next owner, whose commits wait for that of `last`. */
  const retry = async (member: Member, last: Member, table: string, key: string, began: () => void) => {
    holdCommits(member, last, began);
    await clients.untilAnswered(member, table, ofTheFirst, key);
    clients.healStores();
    return clients.count(member, table, ofTheFirst);
  };

  test('does not have a commit that it has lost sight of applied beside a retry (P6)', async () => {
    const [owner, other] = await clients.newTable('doubtful');
    const [key, claimed] = [randomUUID(), Promise.withResolvers<void>()];
    await lose(owner, 'doubtful', key, claimed.promise);
    await owner.replica.stop();
    assert.equal(await retry(other, owner, 'doubtful', key, claimed.resolve), 1);
    await owner.replica.start();
  });

  for (const kind of ['held', 'stalled'] as const) {
    test(`answers a commit that takes longer than a handover with what became of it: ${kind} (P6)`, async () => {
      const table = `slow_${kind}`;
      const [owner, other] = await clients.newTable(table);
      const { reached, release } = stopNextCommit(owner, kind);
      const first = clients.append(owner, table, ofTheFirst, {});
      await reached;
      const ended = owner.replica.stop();
      const next = clients.untilAppended(other, table, ofTheNext);
      await pause(longerThanHandoverMs);
      release();
      const { status, body } = replyOf(await first);
      assert.equal(status, 200, body.toString());
      await next;
      await ended;
      assert.equal(await clients.count(other, table, ofTheFirst), 1);
      clients.healStores();
      await owner.replica.start();
    });
  }

  test('leaves the recovery mark of the next owner alone, if it stands still before it closes its own (P6)', async () => {
    const [owner, other] = await clients.newTable('closing');
    const closing = owner.toCatalog!.hold('select "path" from "tables"');
    const ended = owner.replica.stop();
    await closing.reached;
    owner.replica.freeze();
    await clients.untilAppended(other, 'closing', ofTheNext);
    const [key, claimed] = [randomUUID(), Promise.withResolvers<void>()];
    await lose(other, 'closing', key, claimed.promise);
    closing.release();
    owner.replica.thaw();
    await ended;
    await other.replica.kill();
    await owner.replica.start();
    assert.equal(await retry(owner, other, 'closing', key, claimed.resolve), 1);
    await other.replica.start();
  });
});
