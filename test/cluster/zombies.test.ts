/** An owner of a table stands still in the middle of a commit, another replica takes the table over, and the first one wakes up. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { isCommit, onNth } from '#test/fixtures/store-proxy.ts';
import { outcomeOf, type Sent, type Target } from './history/attempts.ts';
import { HttpTarget } from './history/http-target.ts';
import { appendedRow, emptyTable } from './history/register-clients.ts';
import { type Cluster, type Member, startReplicas, withoutReplicas } from './nemesis/cluster.ts';

const mostPatienceMs = 60_000;
/** Of one request to a replica, which may send it on to the owner that stands still. */
const requestTimeoutMs = 5_000;
const rowsIn = (sent: Sent): number => Number(replyOf(sent).body.toString());

function replyOf(sent: Sent) {
  assert.ok(sent !== undefined && sent !== 'not sent', 'there is an answer');
  return sent;
}

describe('an owner that stands still in the middle of a commit', {
  skip: withoutReplicas ?? false,
}, () => {
  const after = afterSuite();
  let cluster: Cluster;
  before(async () => {
    cluster = await startReplicas(after, 2);
  });

  const targetOf = ({ replica }: Member, timeoutMs = requestTimeoutMs): Target =>
    new HttpTarget([replica.url], cluster.authorization, timeoutMs);

  const untilDone = async (member: Member, path: string, body: Uint8Array, key: string = randomUUID()) => {
    const endMs = performance.now() + mostPatienceMs;
    for (;;) {
      const sent = await targetOf(member).post(path, body, { 'idempotency-key': key });
      if (sent !== undefined && sent !== 'not sent' && sent.status === 200) {
        return JSON.parse(sent.body.toString()) as { readonly version: number; readonly transaction_id: string };
      }
      assert.ok(performance.now() < endMs, `${member.replica.name} does not write: ${JSON.stringify(sent)}`);
      await pause(200);
    }
  };

  /** Until it is done, or nobody will ever know whether it is. */
  const untilAnswered = async (member: Member, path: string, body: Uint8Array, key: string): Promise<void> => {
    const endMs = performance.now() + mostPatienceMs;
    for (;;) {
      const sent = await targetOf(member).post(path, body, { 'idempotency-key': key });
      const { kind } = outcomeOf(sent, 'num_inserted_rows');
      if (kind === 'done' || (kind === 'unknown' && sent !== undefined)) return;
      assert.ok(performance.now() < endMs, `${member.replica.name} does not write: ${JSON.stringify(sent)}`);
      await pause(200);
    }
  };

  /** Whose way to the store the commits take, and a replica that is not it. */
  const ownerOf = async (table: string): Promise<readonly [owner: Member, other: Member]> => {
    for (const { toStore } of cluster.members) toStore?.reset();
    await untilDone(cluster.members[0]!, `/v1/table/${table}/insert`, appendedRow('of the search'));
    const owner = cluster.members.find(({ toStore }) => (toStore?.counts.get('PUT manifest') ?? 0) > 0)!;
    return [owner, cluster.members.find((each) => each !== owner)!];
  };

  const count = async (member: Member, table: string, value: string): Promise<number> =>
    rowsIn(await targetOf(member).post(`/v1/table/${table}/count_rows`, { predicate: `value = '${value}'` }, {}));

  /** The owner freezes when its commit has reached the fault; the other one writes; the owner wakes, and its commit goes on. */
  const overtake = async (table: string, kind: 'held' | 'stalled', headers: Record<string, string>) => {
    await untilDone(cluster.members[0]!, `/v1/table/${table}/create`, emptyTable());
    const [owner, other] = await ownerOf(table);
    const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const choose = onNth(1, isCommit, { kind, until: released.promise });
    owner.toStore!.faults = (request) => {
      const fault = choose(request);
      if (fault !== undefined) reached.resolve();
      return fault;
    };
    const path = `/v1/table/${table}/insert`;
    const first = targetOf(owner, mostPatienceMs).post(path, appendedRow('of the first'), headers);
    await reached.promise;
    // Reads are fresh, so they show what the store has done and does not answer yet.
    if (kind === 'stalled') while ((await count(other, table, 'of the first')) === 0) await pause(50);
    owner.replica.freeze();
    const next = await untilDone(other, path, appendedRow('of the next'));
    return { owner, other, path, first, next, wake: () => wake(owner, released.resolve) };
  };

  const wake = (owner: Member, release: () => void): void => {
    owner.replica.thaw();
    release();
  };

  test('commits nothing after it wakes, and its client can retry (P3, P6)', async () => {
    const key = randomUUID();
    const { other, path, first, wake: go } = await overtake('held', 'held', { 'idempotency-key': key });
    go();
    await first;
    await untilDone(other, path, appendedRow('of the first'), key);
    assert.deepEqual([await count(other, 'held', 'of the first'), await count(other, 'held', 'of the next')], [1, 1]);
  });

  test('says of a write without a key what is true of it (P6)', async () => {
    const { owner, other, first, wake: go } = await overtake('keyless', 'held', {});
    go();
    const outcome = outcomeOf(await first, 'num_inserted_rows').kind;
    const [ofFirst, ofNext] = [
      await count(other, 'keyless', 'of the first'),
      await count(owner, 'keyless', 'of the next'),
    ];
    assert.equal(ofNext, 1);
    if (outcome === 'done') assert.equal(ofFirst, 1);
    else if (outcome === 'nothing written') assert.equal(ofFirst, 0);
    else assert.ok(outcome === 'unknown' && ofFirst <= 1, `${outcome}, ${ofFirst} rows`);
  });

  /** The next owner is asked for `asked` first; its first commit, whatever it is, waits until that of the first owner has arrived. */
  const race = async (table: string, asked: 'the retry' | 'another write'): Promise<number> => {
    const path = `/v1/table/${table}/insert`;
    await untilDone(cluster.members[0]!, `/v1/table/${table}/create`, emptyTable());
    const [owner, other] = await ownerOf(table);
    const [cutOff, claimed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    owner.toStore!.faults = (request) => {
      if (isCommit(request)) cutOff.resolve();
      return isCommit(request) ? { kind: 'late', until: claimed.promise } : undefined;
    };
    const key = randomUUID();
    const retry = () => untilAnswered(other, path, appendedRow('of the first'), key);
    const first = targetOf(owner, mostPatienceMs).post(path, appendedRow('of the first'), { 'idempotency-key': key });
    await cutOff.promise;
    owner.replica.freeze();
    other.toStore!.faults = (request) => {
      if (!isCommit(request)) return undefined;
      claimed.resolve();
      return { kind: 'held', until: owner.toStore!.delivered() };
    };
    if (asked === 'another write') await untilDone(other, path, appendedRow('of the next'));
    await retry();
    owner.replica.thaw();
    for (const { toStore } of cluster.members) toStore!.faults = () => undefined;
    await first;
    await retry();
    return count(other, table, 'of the first');
  };

  test('does not have its commit applied beside a later retry (P6)', async () => {
    assert.equal(await race('fenced', 'another write'), 1);
  });

  test('does not have its commit applied beside a retry that makes the next owner (P6)', async () => {
    assert.equal(await race('raced', 'the retry'), 1);
  });

  test('does not have its commit applied beside a retry, although it ended in order (P6)', async () => {
    const [table, path] = ['ended', '/v1/table/ended/insert'];
    await untilDone(cluster.members[0]!, `/v1/table/${table}/create`, emptyTable());
    const [owner, other] = await ownerOf(table);
    const claimed = Promise.withResolvers<void>();
    owner.toStore!.faults = (request) => (isCommit(request) ? { kind: 'late', until: claimed.promise } : undefined);
    const [key, row] = [randomUUID(), appendedRow('of the first')];
    const first = await targetOf(owner, mostPatienceMs).post(path, row, { 'idempotency-key': key });
    assert.equal(outcomeOf(first, 'num_inserted_rows').kind, 'unknown', JSON.stringify(first));
    await owner.replica.stop();
    other.toStore!.faults = (request) => {
      if (!isCommit(request)) return undefined;
      claimed.resolve();
      return { kind: 'held', until: owner.toStore!.delivered() };
    };
    await untilAnswered(other, path, row, key);
    for (const { toStore } of cluster.members) toStore!.faults = () => undefined;
    assert.equal(await count(other, table, 'of the first'), 1);
    await owner.replica.start();
  });

  test('leaves the first answer to the next owner if its commit was there (P6)', async () => {
    const key = randomUUID();
    const { other, path, first, next, wake: go } = await overtake('landed', 'stalled', { 'idempotency-key': key });
    const retried = await untilDone(other, path, appendedRow('of the first'), key);
    assert.ok(retried.version < next.version, `${retried.version} is before ${next.version}`);
    go();
    const late = await first;
    if (outcomeOf(late, 'num_inserted_rows').kind === 'done') {
      assert.equal(JSON.parse(replyOf(late).body.toString()).version, retried.version);
    }
    assert.deepEqual(
      [await count(other, 'landed', 'of the first'), await count(other, 'landed', 'of the next')],
      [1, 1],
    );
  });
});
