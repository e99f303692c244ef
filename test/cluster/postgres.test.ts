/** The PostgreSQL catalog under what takes longer: TLS, storms, and hundreds of lost COMMITs (P1, P6, P9). */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { CatalogUnusable } from '#src/catalog/open-errors.ts';
import type { Catalog } from '#src/catalog/port.ts';
import { openPostgresCatalog } from '#src/catalog/postgres/open-postgres-catalog.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { path, place, publicationOf, table, transactionOf } from '#test/contract/catalog/fixtures.ts';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { type PostgresServer, startPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { PostgresProxy } from '#test/fixtures/postgres-proxy.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Random } from '#test/model/random.ts';

/** More by hand: `LANCEGATE_TEST_FAULTS=2000`. */
const faultsWanted = Number(process.env.LANCEGATE_TEST_FAULTS ?? 200);
const firstSeed = Number(process.env.LANCEGATE_TEST_SEED ?? 1);

const nameOf = (url: string): string => new URL(url).pathname.slice(1);

/** How often each of these happens to a COMMIT. */
const harms = ['answer lost', 'never sent', 'terminated', undefined] as const;

describe('a PostgreSQL catalog', { skip: withoutPostgres ?? false }, () => {
  test(`does everything once, though ${faultsWanted} COMMITs meet a fault (seed ${firstSeed})`, async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const server = await startPostgres(after);
    const url = await server.newDatabase();
    const direct = await openPostgresCatalog({ url });
    after(() => direct.close());
    const proxy = await PostgresProxy.open(server.port);
    after(() => proxy[Symbol.asyncDispose]());
    const catalog = await openPostgresCatalog({ url: server.urlOf(nameOf(url), proxy.port) });
    after(() => catalog.close());
    const random = new Random(firstSeed);
    for (let number = 0; number < faultsWanted; number++) {
      const harm = random.pick(harms);
      if (harm === 'terminated') {
        const kill = () => terminateAll(server, nameOf(url));
        proxy.failCommit({ kind: random.pick(['answer lost', 'never sent']), hook: kill });
      } else if (harm !== undefined) proxy.failCommit({ kind: harm });
      await oneOfEach(catalog, direct, number, random);
    }
    assert.deepEqual(await direct.unfinished(), { creations: [], discarded: [] });
  });

  test('gives one name to one of 128 on four replicas, again and again', async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const server = await startPostgres(after);
    const url = await server.newDatabase();
    const replicas = await Promise.all([1, 2, 3, 4].map(() => openPostgresCatalog({ url })));
    after(() => Promise.all(replicas.map((replica) => replica.close())).then(() => undefined));
    for (let round = 0; round < 5; round++) {
      const outcomes = await Promise.allSettled(
        Array.from({ length: 128 }, (_, number) =>
          replicas[number % 4]!.declareTable(table(`t${round}`), place(`${round}/${number}`), {}),
        ),
      );
      const lost = outcomes.filter((outcome) => outcome.status === 'rejected').map(({ reason }) => reason.kind);
      assert.deepEqual(new Set(lost), new Set(['TableAlreadyExists']));
      assert.equal(lost.length, 127);
    }
  });

  const withoutOpenssl = spawnSync('openssl', ['version']).error === undefined ? false : 'there is no openssl';

  test('is reached over TLS, and only if it is the server that the CA vouches for (P9)', {
    skip: withoutOpenssl,
  }, async (t) => {
    const after = lastFirst((clean) => t.after(clean));
    const server = await startPostgres(after);
    const ca = await certify(t, server);
    const url = await server.newDatabase();
    const over = (host: string, query: string) => `postgres://postgres@${host}:${server.port}/${nameOf(url)}?${query}`;
    const trusted = `sslmode=verify-full&sslrootcert=${encodeURIComponent(ca)}`;
    await (await openPostgresCatalog({ url: over('localhost', trusted) })).close();
    await (await openPostgresCatalog({ url: over('127.0.0.1', 'sslmode=require') })).close();
    await (await openPostgresCatalog({ url: over('127.0.0.1', trusted.replace('full', 'ca')) })).close();
    for (const [untrusted, reason] of [
      [over('localhost', 'sslmode=verify-full'), /self-signed certificate/],
      [over('127.0.0.1', trusted), /IP: 127\.0\.0\.1 is not in the cert's list/],
    ] as const) {
      await assert.rejects(openPostgresCatalog({ url: untrusted }), (error) => {
        assert.ok(error instanceof CatalogUnusable);
        assert.match(error.message, reason);
        return true;
      });
    }
  });
});

async function terminateAll(server: PostgresServer, database: string): Promise<void> {
  await server.asAdmin((client) =>
    client.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and state <> $2', [
      database,
      'idle',
    ]),
  );
}

/** What is asked for is done once, or was refused with nothing done. */
async function oneOfEach(catalog: Catalog, direct: Catalog, number: number, random: Random): Promise<void> {
  const ref = table(`t${number}`);
  switch (random.pick(['namespace', 'create', 'record'] as const)) {
    case 'namespace': {
      const outcome = await outcomeOf(catalog.createNamespace(path(`n${number}`), {}));
      const exists = (await direct.findNamespace(path(`n${number}`))) !== undefined;
      assert.equal(exists, outcome === 'done');
      return;
    }
    case 'create': {
      const creation = await direct.reserveCreation(ref, undefined, place(`${number}`));
      assert.equal(await outcomeOf(catalog.publishCreation(creation, publicationOf(`c${number}`))), 'done');
      assert.equal((await direct.findTable(ref))?.location, `${number}`);
      return;
    }
    case 'record': {
      const record = transactionOf(`r${number}`);
      assert.equal(await outcomeOf(catalog.recordTransactions([record])), 'done');
      assert.deepEqual(await direct.findTransaction(record.id), record);
    }
  }
}

async function outcomeOf(work: Promise<unknown>): Promise<'done' | 'nothing'> {
  try {
    await work;
    return 'done';
  } catch (error) {
    assert.ok(error instanceof LancegateError && error.entry.written === 'nothing', String(error));
    return 'nothing';
  }
}

/** Gives the server a certificate for `localhost`; the path of what vouches for it. */
async function certify(t: TestContext, server: PostgresServer): Promise<string> {
  const folder = temporaryFolder((clean) => t.after(clean));
  const [certificate, key] = [join(folder, 'certificate'), join(folder, 'key')];
  const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const named = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-keyout', key];
  execFileSync('openssl', [...made, ...named, '-out', certificate], { stdio: 'ignore' });
  await server.useCertificate(certificate, key);
  return certificate;
}
