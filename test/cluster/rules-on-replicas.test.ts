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

  test('the newest row of each key stays, whatever comes late and is sent again, and a follower has the same (P2, P6)', async () => {
    await done('late/create', [{ id: -1, v: 0, by: 'nobody' }]);
    const [writers, keys] = [6, 12];
    const newest = new Map<number, number>();
    const counted = { inserted: 0, updated: 0, stale: 0, sent: 0 };
    let [next, isOver] = [0, false];
    const write = async (writer: number): Promise<void> => {
      while (!isOver) {
        const ids = [writer % keys, (next * 7) % keys, (next * 5 + 1) % keys];
        next += 1;
        const rows = [...new Set(ids)].map((id) => ({ id, v: Math.floor(Math.random() * 1e9), by: `${writer}` }));
        const told = await answerOf('late/merge_insert?on=id&version_column=v', rows);
        for (const { id, v } of rows) newest.set(id, Math.max(newest.get(id) ?? Number.NEGATIVE_INFINITY, v));
        counted.sent += rows.length;
        counted.inserted += told.num_inserted_rows;
        counted.updated += told.num_updated_rows;
        counted.stale += told.num_stale_rows;
      }
    };
    const copy = new Map<number, number>();
    let at = 1;
    const follow = async (): Promise<void> => {
      await done('late/changes/acknowledge', { consumer: 'copy', version: at });
      for (;;) {
        const last = isOver;
        const { body, version } = await done('late/changes', { consumer: 'copy', on: ['id'] }, ndjson);
        for (const { id, v } of lines(body)) copy.set(id, v); // nothing is deleted
        assert.ok(version >= at, 'a follower never goes back (P11)');
        if (version > at) await done('late/changes/acknowledge', { consumer: 'copy', version });
        else if (last) return;
        at = version;
      }
    };
    const clients = [...Array.from({ length: writers }, (_, writer) => write(writer)), follow()];
    await killEach(() => isOver);
    isOver = true;
    await Promise.all(clients);
    const found = new Map((await rowsOf('late')).map(({ id, v }) => [id, v]));
    found.delete(-1);
    assert.deepEqual(
      [...found].toSorted(([a], [b]) => a - b),
      [...newest].toSorted(([a], [b]) => a - b),
    );
    assert.deepEqual(
      [...copy].toSorted(([a], [b]) => a - b),
      [...newest].toSorted(([a], [b]) => a - b),
    );
    assert.equal(counted.inserted, newest.size, 'no key was inserted twice');
    assert.equal(counted.inserted + counted.updated + counted.stale, counted.sent);
    assert.ok(counted.stale > 20 && counted.updated > 10, JSON.stringify(counted));
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
