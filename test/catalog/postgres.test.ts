import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { CatalogTooNew, CatalogUnusable } from '#src/catalog/open-errors.ts';
import type { Catalog, TableRecord } from '#src/catalog/port.ts';
import { openPostgresCatalog, openSharedCatalog } from '#src/catalog/postgres/open-postgres-catalog.ts';
import type { SharedCatalog } from '#src/catalog/replica-port.ts';
import { createTable, path, place, table, transactionOf } from '#test/contract/catalog/fixtures.ts';
import { ownersContract } from '#test/contract/catalog/owners.ts';
import { catalogContract } from '#test/contract/catalog.ts';
import { guarded, type PostgresServer, sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const emptied = [
  ...[
    'creations',
    'open_branches',
    'tables',
    'dropped_tables',
    'locations',
    'transactions',
    'idempotency_keys',
    'databases',
  ],
  "namespaces where path <> ''",
]
  .map((rows) => `delete from ${rows}`)
  .concat("update namespaces set properties = '{}'")
  .join('; ');

describe('on PostgreSQL', { skip: withoutPostgres ?? false }, () => {
  let server: PostgresServer;
  /** The name of a database with an empty catalog, to copy. */
  const migrated = 'migrated';
  before(async () => {
    server = await sharedPostgres();
    await server.asAdmin((client) => client.query(`create database ${migrated}`));
    await (await openPostgresCatalog({ url: server.urlOf(migrated) })).close();
  });
  const nameOf = (url: string): string => new URL(url).pathname.slice(1);

  /** Databases that a test is done with: to empty one takes less than to make one. */
  const idle: string[] = [];
  const open = async (): Promise<Catalog> => {
    const url = idle.pop() ?? (await server.newDatabase(migrated));
    const catalog = await openPostgresCatalog({ url });
    const close = async (): Promise<void> => {
      await catalog.close();
      await server.asAdmin((client) => client.query(emptied), nameOf(url));
      idle.push(url);
    };
    return { ...catalog, close };
  };

  catalogContract('the PostgreSQL catalog', open);

  ownersContract(async () => {
    const url = await server.newDatabase(migrated);
    const opened: SharedCatalog[] = [];
    return {
      catalogOf: async (names) => {
        const catalog = await openSharedCatalog({ url }, names, { limits: { maxConnections: 2 } });
        opened.push(catalog);
        return catalog;
      },
      close: async () => {
        await Promise.all(opened.map((catalog) => catalog.close()));
      },
    };
  });

  describe('the PostgreSQL catalog', () => {
    test('is shared: what one replica acknowledged every other one sees at once (P11)', async () => {
      const url = await server.newDatabase(migrated);
      const [one, other] = await Promise.all([openPostgresCatalog({ url }), openPostgresCatalog({ url })]);
      await one.createNamespace(path('a'), { b: 'c' });
      const made = await other.declareTable(table('a', 't'), place('1'), {});
      assert.deepEqual(await one.findTable(table('a', 't')), made);
      await Promise.all([one.close(), other.close()]);
    });

    test('of 32 who create one table on two replicas at once one wins, and the others are told who did', async () => {
      const url = await server.newDatabase(migrated);
      const replicas = await Promise.all([openPostgresCatalog({ url }), openPostgresCatalog({ url })]);
      const outcomes = await Promise.allSettled(
        Array.from({ length: 32 }, (_, number) =>
          replicas[number % 2]!.reserveCreation(table('t'), undefined, place(`${number}`)),
        ),
      );
      const lost = outcomes.filter((outcome) => outcome.status === 'rejected').map(({ reason }) => reason.kind);
      assert.deepEqual(lost, Array(31).fill('ConcurrentCreate'));
      await Promise.all(replicas.map((replica) => replica.close()));
    });

    test('does not let the commits of twelve tables on three replicas get in the way of each other (P10)', async () => {
      const url = await server.newDatabase(migrated);
      let pauses = 0;
      const random = () => {
        pauses += 1;
        return 0;
      };
      const replicas = await Promise.all([1, 2, 3].map(() => openPostgresCatalog({ url }, { random })));
      const tables: TableRecord[] = [];
      for (let number = 0; number < 12; number++) {
        const made = await createTable(replicas[0]!, table(`t${number}`), place(`${number}`));
        const open = { tableId: made.id, branch: undefined, acknowledgedVersion: 1, storageSession: 's' };
        await replicas[0]!.markOpenForWriting(open);
        tables.push(made);
      }
      // With what it then knows the planner would rather read all of such small tables.
      await server.asAdmin((client) => client.query('analyze'), nameOf(url));
      const commitTo = async ({ id: tableId, ref }: TableRecord, number: number) => {
        for (let version = 2; version < 12; version++) {
          await replicas[number % 3]!.recordTransactions([
            transactionOf(`${number}/${version}`, { tableId, ref, version }),
          ]);
        }
      };
      await Promise.all(tables.map(commitTo));
      assert.ok(pauses < 12, `${pauses} of 120 commits were overtaken`);
      await Promise.all(replicas.map((replica) => replica.close()));
    });

    test('is made once by eight replicas that start at once', async () => {
      const url = await server.newDatabase();
      const replicas = await Promise.all(Array.from({ length: 8 }, () => openPostgresCatalog({ url })));
      await Promise.all(replicas.map((replica, number) => replica.createNamespace(path(`${number}`), {})));
      assert.equal((await replicas[0]!.namespacesUnder([])).length, 9);
      await Promise.all(replicas.map((replica) => replica.close()));
    });

    test('of a newer lancegate is refused, unless it has only what an older one can ignore', async () => {
      const url = await server.newDatabase(migrated);
      const apply = (name: string) =>
        server.asAdmin(
          (client) =>
            client.query('insert into catalog_migrations values ($1, $2)', [name, '2030-01-01T00:00:00.000Z']),
          nameOf(url),
        );
      await apply('0998-more-additive');
      await (await openPostgresCatalog({ url })).close();
      await apply('0999-from-the-future');
      await assert.rejects(openPostgresCatalog({ url }), (error) => {
        assert.ok(error instanceof CatalogTooNew);
        assert.match(error.message, /newer lancegate: its schema has 0999-from-the-future,/);
        return true;
      });
    });

    test('leaves nothing in the session of the server that a pooler would give to somebody else', async () => {
      const url = await server.newDatabase(migrated);
      const catalog = await openPostgresCatalog({ url }, { limits: { maxConnections: 1 } });
      await catalog.createNamespace(path('a'), {});
      await catalog.listTables([], { after: undefined, limit: 9, includeDeclared: true });
      const left = await server.asAdmin(async (client) => {
        const { rows } = await client.query(
          `select application_name, state, (select count(*)::int from pg_locks l where l.pid = a.pid) as locks
           from pg_stat_activity a where datname = $1 and pid <> pg_backend_pid()`,
          [nameOf(url)],
        );
        return rows;
      });
      assert.deepEqual(left, [{ application_name: 'lancegate', state: 'idle', locks: 0 }]);
      await catalog.close();
    });

    test('takes its password from a file, which may change, or from what PostgreSQL clients read', async (t) => {
      const folder = temporaryFolder((clean) => t.after(clean));
      const passwordFile = join(folder, 'password');
      const url = `postgres://${guarded.user}@127.0.0.1:${server.port}/${migrated}`;
      writeFileSync(passwordFile, 'old');
      await assert.rejects(openPostgresCatalog({ url, passwordFile }), CatalogUnusable);
      writeFileSync(passwordFile, `${guarded.password}\n`);
      await (await openPostgresCatalog({ url, passwordFile })).close();
      const open = async (env: Record<string, string>) => {
        const module = import.meta.resolve('#src/catalog/postgres/open-postgres-catalog.ts');
        const program = `
          const { openPostgresCatalog } = await import(${JSON.stringify(module)});
          await (await openPostgresCatalog({ url: ${JSON.stringify(url)} })).close();`;
        const args = ['--input-type=module', '-e', program];
        await promisify(execFile)(process.execPath, args, { env: { ...process.env, ...env } });
      };
      const passFile = join(folder, 'pgpass');
      writeFileSync(passFile, `*:*:*:${guarded.user}:${guarded.password.replace(':', '\\:')}\n`, { mode: 0o600 });
      await Promise.all([open({ PGPASSWORD: guarded.password }), open({ PGPASSFILE: passFile })]);
      await assert.rejects(open({ PGPASSWORD: 'wrong' }), /password authentication failed/);
    });

    test('that cannot be opened is named with its server, and no password is shown (P9)', async () => {
      const { user, password } = guarded;
      const at = (more: Partial<{ user: string; password: string; port: number; database: string; query: string }>) => {
        const { port = server.port, database = migrated, query = '', ...who } = more;
        const url = new URL(`postgres://127.0.0.1:${port}/${database}${query}`);
        return Object.assign(url, { username: user, password: encodeURIComponent(password), ...who }).href;
      };
      await (await openPostgresCatalog({ url: at({}) })).close();
      const refused: readonly (readonly [url: string, reason: RegExp])[] = [
        [at({ password: 'wrong-secret' }), /password authentication failed/],
        [at({ database: 'missing' }), /database "missing" does not exist/],
        [at({ port: 1 }), /ECONNREFUSED/],
        [at({ query: '?sslmode=verify-full' }), /does not support SSL/],
      ];
      for (const [url, reason] of refused) {
        await assert.rejects(openPostgresCatalog({ url }), (error) => {
          assert.ok(error instanceof CatalogUnusable);
          assert.match(error.message, /^The catalog in database '\w+' on 127\.0\.0\.1:\d+ cannot be opened: /);
          assert.match(error.message, reason);
          assert.doesNotMatch(`${error.stack} ${JSON.stringify(error)}`, /wrong-secret|p@ss|p%40ss/);
          return true;
        });
      }
    });
  });
});
