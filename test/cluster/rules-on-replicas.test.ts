/** Rows that come late, that end, that are followed and that are dropped, on three replicas with an object store, while replicas go. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { eventually } from '#test/http/eventually.ts';
import { type Cluster, startReplicas, withoutReplicas } from './nemesis/cluster.ts';

interface Told {
  readonly body: string;
  readonly version: number;
}

describe('three replicas that go and come back', { skip: withoutReplicas ?? false }, () => {
  const after = afterSuite();
  let cluster: Cluster;
  before(async () => {
    cluster = await startReplicas(after, 3);
  });
  let turn = 0;

  /** Sent to one replica after the other, under one key, until one of them has done it; any other refusal than a 503 is a failure. */
  async function done(path: string, body: object, headers: Readonly<Record<string, string>> = {}): Promise<Told> {
    const keyed = { 'idempotency-key': randomUUID(), ...headers };
    for (;;) {
      const { replica } = cluster.members[turn++ % cluster.members.length]!;
      const sent = await fetch(`${replica.url}/v1/table/${path}`, {
        method: 'POST',
        headers: { authorization: cluster.authorization, 'content-type': 'application/json', ...keyed },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(20_000),
      }).catch(() => undefined);
      const text = await sent?.text().catch(() => undefined);
      if (sent?.status === 200 && text !== undefined)
        return { body: text, version: Number(sent.headers.get('x-lancegate-version')) };
      if (sent !== undefined && sent.status !== 503 && sent.status !== 500)
        assert.fail(`${path}: ${sent.status} ${text}`);
      await pause(50);
    }
  }
  const answerOf = async (path: string, body: object = {}) => JSON.parse((await done(path, body)).body);
  const lines = (text: string) => text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  const ndjson = { accept: 'application/x-ndjson' };
  const rowsOf = async (table: string) => lines((await done(`${table}/query`, { vector: [] }, ndjson)).body);

  /** Each replica is killed once, and started again. */
  async function killEach(isOver: () => boolean): Promise<void> {
    for (const { replica } of cluster.members) {
      await pause(1_500);
      await replica.kill();
      await pause(500);
      await replica.start();
    }
    assert.equal(isOver(), false, 'the clients were at work all the time');
  }

  /** Clients of one table that write rows of random versions, and one that follows its changes, until `isOver`. */
  function clientsOf(table: string, markedPercent: number) {
    const [writers, keys] = [6, 12];
    /** The newest row of each key that was sent; `gone`: it was marked. */
    const newest = new Map<number, { readonly v: number; readonly gone: boolean }>();
    const counted = { inserted: 0, updated: 0, deleted: 0, stale: 0, sent: 0 };
    const copy = new Map<number, number>();
    let [next, isOver] = [0, false];
    const rules = `on=id&version_column=v${markedPercent > 0 ? '&tombstone=gone' : ''}`;
    const write = async (writer: number): Promise<void> => {
      while (!isOver) {
        const ids = [writer % keys, (next * 7) % keys, (next * 5 + 1) % keys];
        next += 1;
        const rows = [...new Set(ids)].map((id) => ({
          ...{ id, v: Math.floor(Math.random() * 1e9), by: `${writer}` },
          ...(markedPercent > 0 && { gone: Math.random() * 100 < markedPercent }),
        }));
        const told = await answerOf(`${table}/merge_insert?${rules}`, rows);
        for (const { id, v, gone = false } of rows) if (v > (newest.get(id)?.v ?? -1)) newest.set(id, { v, gone });
        counted.sent += rows.length;
        counted.inserted += told.num_inserted_rows;
        counted.updated += told.num_updated_rows;
        counted.deleted += told.num_deleted_rows;
        counted.stale += told.num_stale_rows;
      }
    };
    const apply = (text: string): void => {
      for (const { _change: change, id, v } of lines(text)) {
        if (change === 'delete') copy.delete(id);
        else copy.set(id, v);
      }
    };
    const follow = async (): Promise<void> => {
      let at = 1;
      await done(`${table}/changes/acknowledge`, { consumer: 'copy', version: at });
      for (;;) {
        const last = isOver;
        const { body, version } = await done(`${table}/changes`, { consumer: 'copy', on: ['id'] }, ndjson);
        apply(body);
        assert.ok(version >= at, 'a follower never goes back (P11)');
        if (version > at) await done(`${table}/changes/acknowledge`, { consumer: 'copy', version });
        else if (last) return;
        at = version;
      }
    };
    const start = () => Promise.all([...Array.from({ length: writers }, (_, writer) => write(writer)), follow()]);
    const end = () => {
      isOver = true;
    };
    return { start, end, isOver: () => isOver, newest, counted, copy };
  }

  /** What the table and the follower have in the end is the newest of each key. */
  async function settled(table: string, clients: ReturnType<typeof clientsOf>): Promise<void> {
    await done(`${table}/create`, [{ id: -1, v: 0, by: 'nobody' }]);
    const work = clients.start();
    await killEach(clients.isOver);
    clients.end();
    await work;
    const inOrder = (rows: Iterable<readonly [number, number]>) => [...rows].toSorted(([a], [b]) => a - b);
    const expected = inOrder([...clients.newest].flatMap(([id, { v, gone }]) => (gone ? [] : [[id, v] as const])));
    const found = inOrder((await rowsOf(table)).map(({ id, v }) => [id, v] as const)).filter(([id]) => id !== -1);
    assert.deepEqual(found, expected);
    assert.deepEqual(inOrder(clients.copy), expected);
    assert.ok(clients.counted.stale > 20, JSON.stringify(clients.counted));
  }

  test('the newest row of each key stays, whatever comes late and is sent again, and a follower has the same (P2, P6)', async () => {
    const clients = clientsOf('late', 0);
    await settled('late', clients);
    const { inserted, updated, stale, sent } = clients.counted;
    assert.equal(inserted, clients.newest.size, 'no key was inserted twice');
    assert.equal(inserted + updated + stale, sent);
    assert.ok(updated > 10);
  });

  test('what was deleted by a mark stays away from older rows, whoever owns the table by then (P1, P2)', async () => {
    const clients = clientsOf('marked', 40);
    await settled('marked', clients);
    assert.ok(clients.counted.deleted > 0 && [...clients.newest.values()].some(({ gone }) => gone));
  });

  test('rows end although the owner of their table was killed', async () => {
    const properties = { 'lancegate.ttl_column': 'until', 'lancegate.ttl': '0s' };
    await done('ends/declare', { properties });
    const untilS = Math.floor(Date.now() / 1000) + 3;
    const rows = [1, 2, 3].map((id) => ({ id, until: id === 3 ? untilS + 86_400 : untilS }));
    await done('ends/merge_insert?on=id', rows);
    for (const { replica } of cluster.members.slice(0, 2)) await replica.kill();
    const left = async () => (await rowsOf('ends')).map(({ id }) => id);
    await eventually('the next owner has deleted them', async () => (await left()).join() === '3', left);
    for (const { replica } of cluster.members.slice(0, 2)) await replica.start();
    assert.equal((await answerOf('ends/merge_insert?on=id', [{ id: 1, until: untilS + 86_400 }])).num_inserted_rows, 1);
  });

  test('a table that was dropped comes back at another replica with all it had, and is written to (P1)', async () => {
    await done('lost/create', [{ id: 1 }, { id: 2 }]);
    await done('lost/tags/create', { tag: 'first', version: 1 });
    await done('lost/merge_insert?on=id', [{ id: 3 }]);
    await done('lost/drop', {});
    await done('lost/create', [{ id: 9 }]);
    const { replica } = cluster.members[0]!;
    await replica.kill();
    await done('lost/undrop', { new_table_name: 'found' });
    await replica.start();
    assert.deepEqual((await rowsOf('found')).map(({ id }) => id).toSorted(), [1, 2, 3]);
    assert.equal((await answerOf('found/tags/version', { tag: 'first' })).version, 1);
    assert.equal((await answerOf('found/merge_insert?on=id', [{ id: 3 }, { id: 4 }])).num_inserted_rows, 1);
    assert.deepEqual(await rowsOf('lost'), [{ id: 9 }]);
  });
});
