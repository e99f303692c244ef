/** Replicas that speak TLS to one another, as processes on one PostgreSQL and one folder. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { before, describe, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { newCa, type TestCa, withoutOpenssl } from '#test/fixtures/certificates.ts';
import { freePort } from '#test/fixtures/free-port.ts';
import { type PostgresServer, startPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { people } from '#test/http/rows.ts';
import { main, Replica } from './nemesis/replica.ts';

const tablesOf = (count: number): readonly string[] => Array.from({ length: count }, (_, number) => `t${number}`);

const sum = (counts: readonly number[]): number => counts.reduce((all, each) => all + each, 0);

describe('replicas with certificates', { skip: withoutPostgres ?? withoutOpenssl ?? false }, () => {
  const after = afterSuite();
  let postgres: PostgresServer;
  before(async () => {
    postgres = await startPostgres(after);
  });

  /** Replicas of one catalog, which trust this CA alone. */
  async function clusterOf(t: TestContext, trusted: TestCa) {
    const later = (clean: () => void | Promise<void>) => t.after(clean);
    const catalog = await postgres.newDatabase();
    const root = temporaryFolder(later);
    const env = { PATH: process.env.PATH, LANCEGATE_CATALOG: catalog };
    const args = [main, 'token', '--subject', 'tester', '--scope', 'lancegate:admin'];
    const { stdout } = await promisify(execFile)(process.execPath, args, { env });
    const authorization = `Bearer ${stdout.trim().split('\n').at(-1)}`;
    const start = async (name: string, ca: TestCa): Promise<Replica> => {
      const { certificatePath, keyPath } = ca.certify(name);
      const tls = { TLS_CERTIFICATE: certificatePath, TLS_KEY: keyPath, REPLICA_CA: trusted.path };
      const data = { CATALOG: catalog, STORAGE_ROOT: root, DATA: join(temporaryFolder(later), 'data') };
      const replica = new Replica(name, await freePort(), { ...data, ...tls, OWN_ISSUER: 'true', LOG_LEVEL: 'info' });
      later(() => replica.kill());
      await replica.start();
      return replica;
    };
    /** The status of an answer from a replica with a certificate of this CA. */
    const write = async (replica: Replica, ca: TestCa, path: string, headers: Record<string, string> = {}) => {
      const type = 'application/vnd.apache.arrow.stream';
      const all = { authorization, 'content-type': type, ...headers };
      const url = `${replica.url}/v1/table/${path}`;
      const asking = request(url, { method: 'POST', headers: all, ca: readFileSync(ca.path), agent: false });
      const answered = once(asking, 'response');
      asking.end(people([1], 'x'));
      const [response] = await answered;
      response.resume();
      return response.statusCode as number;
    };
    return { start, write };
  }

  const forwardings = ({ log }: Replica): number => log.split('"forwardedTo":').length - 1;
  const vouchings = ({ log }: Replica): number => log.split('"vouchedBy":').length - 1;

  test('forward to one another where one CA has signed all of them', async (t) => {
    const ca = newCa((clean) => t.after(clean));
    const { start, write } = await clusterOf(t, ca);
    const replicas = [await start('one', ca), await start('two', ca)];
    const [one] = replicas;
    const tables = tablesOf(4);
    for (const table of tables) assert.equal(await write(one!, ca, `${table}/create`), 200);
    // The one that does not own a table sends on what it gets for it.
    for (const replica of replicas) {
      for (const table of tables) assert.equal(await write(replica, ca, `${table}/merge_insert?on=id`), 200);
    }
    assert.ok(sum(replicas.map(forwardings)) > 0, one!.log);
    assert.ok(sum(replicas.map(vouchings)) > 0, one!.log);
  });

  test('send nothing to one that another CA has signed: the answer is 503', async (t) => {
    const [ca, other] = [newCa((clean) => t.after(clean)), newCa((clean) => t.after(clean))];
    const { start, write } = await clusterOf(t, ca);
    const stranger = await start('stranger', other);
    const tables = tablesOf(12); // so many that it does not hand all of them to the other one at once
    for (const table of tables) assert.equal(await write(stranger, other, `${table}/create`), 200);
    const one = await start('one', ca);
    const headers = { 'x-request-timeout-ms': '1000' };
    const writes = tables.map((table) => write(one, ca, `${table}/merge_insert?on=id`, headers));
    const statuses = await Promise.all(writes);
    assert.ok(statuses.includes(503), statuses.join());
    assert.ok(
      statuses.every((status) => status === 200 || status === 503),
      statuses.join(),
    );
    assert.equal(vouchings(stranger), 0, stranger.log);
  });
});
