/** Replicas on one PostgreSQL and one folder: whoever owns a table and ends in whatever way, its writers go on elsewhere (P1 to P6). */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { connect } from '@lancedb/lancedb';
import { tableFromIPC } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { freePort } from '#test/fixtures/free-port.ts';
import { startPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { propose } from '#test/fixtures/proposed-version.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { people } from '#test/http/rows.ts';
import { main, Replica } from './nemesis/replica.ts';

const patienceMs = 30_000;

interface Done {
  readonly by: Replica;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: Headers;
  readonly afterMs: number;
}

describe('of replicas on a folder', { skip: withoutPostgres ?? false }, () => {
  const after = afterSuite();
  const replicas: Replica[] = [];
  let authorization: string;
  let root: string;
  let catalog: string;
  before(async () => {
    const postgres = await startPostgres(after);
    catalog = await postgres.newDatabase();
    const env = { PATH: process.env.PATH, LANCEGATE_CATALOG: catalog };
    const args = [main, 'token', '--subject', 'tester', '--scope', 'lancegate:admin'];
    authorization = `Bearer ${(await promisify(execFile)(process.execPath, args, { env })).stdout.trim().split('\n').at(-1)}`;
    root = temporaryFolder(after);
    for (const name of ['one', 'two']) {
      const settings = { CATALOG: catalog, STORAGE_ROOT: root, OWN_ISSUER: 'true' };
      const replica = new Replica(name, await freePort(), { ...settings, DATA: join(temporaryFolder(after), 'data') });
      after(() => replica.kill());
      await replica.start();
      replicas.push(replica);
    }
  });

  /** undefined without an answer. */
  const send = async (
    replica: Replica,
    path: string,
    body: Uint8Array | object,
    headers: Record<string, string> = {},
  ) => {
    const isArrow = body instanceof Uint8Array;
    const type = isArrow ? 'application/vnd.apache.arrow.stream' : 'application/json';
    const signal = AbortSignal.timeout(3_000);
    try {
      const response = await fetch(replica.url + path, {
        method: 'POST',
        body: isArrow ? Buffer.from(body) : JSON.stringify(body),
        headers: { authorization, 'content-type': type, ...headers },
        signal,
      });
      return { status: response.status, headers: response.headers, body: await response.json() };
    } catch {
      return undefined; // the replica is gone, or does not answer
    }
  };

  /** As a load balancer sends it: again, to another replica, with the same key. */
  const insist = async (path: string, body: Uint8Array, key: string = randomUUID()): Promise<Done> => {
    const startMs = performance.now();
    while (performance.now() - startMs < patienceMs) {
      for (const by of replicas) {
        const sent = await send(by, path, body, { 'idempotency-key': key });
        const afterMs = performance.now() - startMs;
        if (sent?.status === 200) return { by, body: sent.body as Done['body'], headers: sent.headers, afterMs };
        assert.ok(sent === undefined || sent.status === 503, JSON.stringify(sent));
      }
      await pause(50);
    }
    throw new Error(`nobody answered: ${replicas.map(({ log }) => log).join('\n')}`);
  };
  const upsert = (table: string, ids: readonly number[], key?: string) =>
    insist(`/v1/table/${table}/merge_insert?on=id`, people(ids, 'x'), key);
  const newTable = async (table: string) => (await insist(`/v1/table/${table}/create`, people([0], 'x'))).by;
  const count = async (replica: Replica, table: string) =>
    (await send(replica, `/v1/table/${table}/count_rows`, {}))?.body;
  const otherOf = (replica: Replica) => replicas.find((each) => each !== replica)!;

  /** Four clients upsert keys of their own until it is over. Returns how many rows were acknowledged. */
  const underLoad = async (table: string, work: () => Promise<void>): Promise<number> => {
    let isOver = false;
    let acknowledged = 0;
    const client = async (number: number): Promise<void> => {
      for (let round = 0; !isOver; round++) {
        await upsert(table, [1_000_000 * (number + 1) + round]);
        acknowledged += 1;
      }
    };
    const clients = Array.from({ length: 4 }, (_, number) => client(number));
    await work().finally(() => {
      isOver = true;
    });
    await Promise.all(clients);
    return acknowledged;
  };

  test('says once that its tables are in a folder', () => {
    for (const { log } of replicas) assert.equal(log.split('the tables are in a folder').length, 2);
  });

  test('one that is started on another storage root ends, and says which both are', async () => {
    const elsewhere = join(temporaryFolder(after), 'typo');
    const other = new Replica('three', await freePort(), {
      ...{ CATALOG: catalog, STORAGE_ROOT: elsewhere, DATA: join(temporaryFolder(after), 'data') },
    });
    after(() => other.kill());
    await assert.rejects(other.start(), {
      message: new RegExp(
        `^three did not start: [^]*^lancegate: The tables of the catalog are in ${root}, .*${elsewhere}:`,
        'm',
      ),
    });
  });

  test('one is killed under load: writes go on within some seconds, nothing is lost and nothing applied twice', async () => {
    const owner = await newTable('killed');
    const first = await upsert('killed', [1], 'kept');
    let replacedAfterMs = 0;
    const acknowledged = await underLoad('killed', async () => {
      await pause(500);
      await owner.kill();
      const next = await upsert('killed', [2]);
      assert.equal(next.by, otherOf(owner));
      replacedAfterMs = next.afterMs;
    });
    assert.ok(replacedAfterMs < 10_000, `${replacedAfterMs} ms`);
    const again = await upsert('killed', [1], 'kept');
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual([again.body.version, again.body.transaction_id], [first.body.version, first.body.transaction_id]);
    assert.equal(await count(otherOf(owner), 'killed'), 3 + acknowledged);
    await owner.start();
    assert.equal(await count(owner, 'killed'), 3 + acknowledged);
  });

  test('one is told to end under load: it hands over at once, and no write is lost', async () => {
    const owner = await newTable('ended');
    let nextAfterMs = 0;
    const acknowledged = await underLoad('ended', async () => {
      await pause(500);
      const stopping = owner.stop();
      nextAfterMs = (await upsert('ended', [2])).afterMs;
      await stopping;
    });
    assert.ok(nextAfterMs < 3_000, `${nextAfterMs} ms`);
    assert.equal(await count(otherOf(owner), 'ended'), 2 + acknowledged);
    assert.doesNotMatch(otherOf(owner).log, /"table":"ended".*whose last writer is gone/);
    await owner.start();
  });

  test('one stands still under load beyond its lease, and does no harm when it goes on', async () => {
    const owner = await newTable('frozen');
    const acknowledged = await underLoad('frozen', async () => {
      await pause(500);
      owner.freeze();
      assert.equal((await upsert('frozen', [2])).by, otherOf(owner));
      owner.thaw();
      await pause(1_000);
    });
    for (const replica of replicas) assert.equal(await count(replica, 'frozen'), 2 + acknowledged);
  });

  test('each reads the dataset that a program of files wrote for a declared table, whoever owns it (P11)', async () => {
    const folder = temporaryFolder(after);
    (await (await connect(folder)).createTable('t', tableFromIPC(people([1, 2], 'of files')))).close();
    for (const table of ['d1', 'd2', 'd3', 'd4', 'd5', 'd6', 'd7', 'd8']) {
      assert.equal((await send(replicas[0]!, `/v1/table/${table}/declare`, {}))?.status, 200);
      cpSync(join(folder, 't.lance'), join(root, `${table}.lance`), { recursive: true });
      for (const replica of replicas) assert.equal(await count(replica, table), 2, table);
      await upsert(table, [2, 3]);
      for (const replica of replicas) assert.equal(await count(replica, table), 3, table);
    }
  });

  test('either takes the version that a program of Lance proposes, and of two for one number one is made (P1, P5)', async () => {
    const owner = await newTable('proposed');
    const other = otherOf(owner);
    const propose3 = () =>
      propose(after, join(root, 'proposed.lance'), (table) => table.add([{ id: 3, name: 'past the gate' }]));
    const create = (replica: Replica, proposed: object) => send(replica, '/v1/table/proposed/version/create', proposed);
    assert.equal((await create(other, await propose3()))?.status, 200);
    const both = [await propose3(), await propose3()];
    const answers = await Promise.all(both.map((proposed, index) => create(replicas[index]!, proposed)));
    assert.deepEqual(answers.map((answer) => answer?.status).sort(), [200, 409]);
    const entries = [{ ...(await propose3()), id: ['proposed'] }];
    assert.equal((await send(other, '/v1/table/version/batch-create', { entries }))?.status, 200);
    const { body } = await upsert('proposed', [3, 4]);
    assert.deepEqual([body.version, body.num_inserted_rows], [5, 1]);
    assert.deepEqual([await count(owner, 'proposed'), await count(other, 'proposed')], [3, 3]);
  });
});
