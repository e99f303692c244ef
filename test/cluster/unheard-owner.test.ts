/** A replica that does not reach the owner of a table, which lives: its clients learn that within seconds, and what it means (P6, P12). */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { isCommit } from '#test/fixtures/store-proxy.ts';
import { type Cluster, type Member, startReplicas, withoutReplicas } from './nemesis/cluster.ts';
import { MemberClients, outcomeOfWrite } from './nemesis/member-clients.ts';
import { withoutNamespaces } from './nemesis/namespace.ts';

/** Silent ways to the owner. The figures depend on the machine; what is required is far above them. */
const losses: Readonly<Record<string, (owner: Member, isBroken: boolean) => void>> = {
  'a link that stalls': ({ fromPeers }, isBroken) => {
    fromPeers!.state = isBroken ? 'stalled' : 'open';
  },
  ...(withoutNamespaces === undefined && {
    'lost packets': ({ namespace }: Member, isBroken: boolean) => namespace!.setLosing('peers', isBroken),
  }),
};

describe('over', { skip: withoutReplicas ?? false }, () => {
  const after = afterSuite();
  let cluster: Cluster;
  let clients: MemberClients;
  before(async () => {
    cluster = await startReplicas(after, 2, withoutNamespaces === undefined ? 'namespaces' : 'proxies alone');
    clients = new MemberClients(cluster);
    await clients.untilAcquainted();
  });

  for (const [name, set] of Object.entries(losses)) {
    const timed = async (work: ReturnType<MemberClients['append']>) => {
      const beganMs = performance.now();
      const outcome = outcomeOfWrite(await work);
      return { outcome, afterMs: performance.now() - beganMs };
    };

    test(`${name} a request that the owner does not get is refused, and its client may go to the owner (P6)`, async (t) => {
      const table = `before ${name}`.replaceAll(' ', '_');
      const [owner, other] = await clients.newTable(table);
      set(owner, true);
      const { outcome, afterMs } = await timed(clients.append(other, table, 'refused', {}));
      t.diagnostic(`${outcome} after ${afterMs.toFixed(0)} ms`);
      assert.equal(outcome, 'nothing written');
      assert.ok(afterMs < 20_000, `${afterMs} ms`);
      const { host, port } = owner.fromPeers!;
      const named = new RegExp(`"address":"http://${host}:${port}","error":.*"another replica is not reached`);
      assert.match(other.replica.log, named);
      assert.equal(outcomeOfWrite(await clients.append(owner, table, 'direct', {})), 'done');
      set(owner, false);
      await clients.untilAppended(other, table, 'mended');
      assert.equal(await clients.count(other, table, 'refused'), 0);
    });

    test(`${name} the outcome of a request that the owner has is not known, and a retry learns of it (P6)`, async (t) => {
      const table = `after ${name}`.replaceAll(' ', '_');
      const [owner, other] = await clients.newTable(table);
      const [begun, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      owner.toStore!.faults = (request) => {
        if (!isCommit(request)) return undefined;
        begun.resolve();
        return { kind: 'held', until: released.promise };
      };
      const sent = timed(clients.append(other, table, 'once', { 'idempotency-key': table }));
      await begun.promise;
      set(owner, true);
      owner.toStore!.faults = () => undefined;
      released.resolve();
      const { outcome, afterMs } = await sent;
      t.diagnostic(`${outcome} after ${afterMs.toFixed(0)} ms`);
      assert.equal(outcome, 'unknown');
      assert.ok(afterMs < 40_000, `${afterMs} ms`);
      set(owner, false);
      await clients.untilAppended(other, table, 'once', table);
      assert.equal(await clients.count(other, table, 'once'), 1);
    });
  }
});
