import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, describe, test } from 'node:test';
import { Kysely, sql } from 'kysely';
import { migrateCatalog } from '#src/catalog/migrations/migrations.ts';
import { CatalogHeld, CatalogTooNew, CatalogUnusable } from '#src/catalog/open-errors.ts';
import type { CatalogDb } from '#src/catalog/queries/catalog-db.ts';
import { openExclusiveDatabase, openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { NodeSqliteDialect, SqliteSession, syncOnDisk, WriteAheadLog } from '#src/catalog/sqlite/session.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { path, place, table, transactionOf } from '#test/contract/catalog/fixtures.ts';
import { catalogContract } from '#test/contract/catalog.ts';

const root = mkdtempSync(join(tmpdir(), 'lancegate-catalog-'));
after(() => rmSync(root, { recursive: true, force: true }));

const freshFile = (): string => join(mkdtempSync(join(root, 'case-')), 'catalog.sqlite');
const holderFileOf = (file: string): string => join(file, '..', 'lancegate.holder.json');
const clock = { ...systemClock, nowMs: () => Date.UTC(2026, 0, 2, 3, 4, 5) };
const open = (file: string) => openSqliteCatalog(file, { holder: { command: 'lancegate serve' }, clock });

catalogContract('the SQLite catalog', () => open(freshFile()));

describe('the SQLite catalog', () => {
  test('keeps everything across a close', async () => {
    const file = freshFile();
    const first = await open(file);
    await first.createNamespace(path('a'), { b: 'c' });
    const made = await first.declareTable(table('a', 't'), place('1'), {});
    await first.recordTransactions([transactionOf('tx')]);
    await first.close();
    const second = await open(file);
    assert.deepEqual(await second.findTable(table('a', 't')), made);
    assert.deepEqual(await second.findTransaction(transactionOf('tx').id), transactionOf('tx'));
    await second.close();
  });

  test('shows after a kill -9 the creates that were under way (P1, P3)', async (context) => {
    const file = freshFile();
    const child = spawn(process.execPath, [join(import.meta.dirname, 'reserve-and-wait.ts'), file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    context.after(() => child.kill('SIGKILL'));
    await once(child.stdout, 'data');
    await assert.rejects(open(file), new RegExp(`held by process ${child.pid} \\(a test, since `));
    child.kill('SIGKILL');
    await once(child, 'exit');
    const catalog = await open(file);
    const { creations, discarded } = await catalog.unfinished();
    assert.deepEqual(
      creations.map(({ ref, location }) => ({ ref, location })),
      [{ ref: table('t'), location: '1' }],
    );
    assert.deepEqual(discarded, []);
    await catalog.abandonCreation(creations[0]!);
    assert.deepEqual((await catalog.unfinished()).discarded, ['1']);
    await catalog.close();
  });

  test('refuses a second opener and names who holds it', async () => {
    const file = freshFile();
    const catalog = await open(file);
    const refused = async (text: string) => {
      await assert.rejects(open(file), (error) => {
        assert.ok(error instanceof CatalogHeld);
        assert.equal(
          error.message,
          `The catalog ${file} is held by ${text}: end it, or name another folder by --data.`,
        );
        return true;
      });
    };
    await refused(`process ${process.pid} (lancegate serve, since 2026-01-02T03:04:05.000Z)`);
    catalog.announce({ url: 'http://127.0.0.1:2333' });
    await refused(`process ${process.pid} (lancegate serve on http://127.0.0.1:2333, since 2026-01-02T03:04:05.000Z)`);
    for (const torn of ['{"pid": 12', '', 'null', '{"pid": "x", "startedAt": "y", "command": "z"}']) {
      writeFileSync(holderFileOf(file), torn);
      await refused('another process');
    }
    rmSync(holderFileOf(file));
    await refused('another process');
    assert.equal(await catalog.findTable(table('t')), undefined, 'the holder works on');
    await catalog.close();
  });

  test('leaves no holder behind when it is closed, and a second close does not remove the next one', async () => {
    const file = freshFile();
    const first = await open(file);
    await first.close();
    assert.deepEqual(await readdir(join(file, '..')), ['catalog.sqlite']);
    const second = await open(file);
    await first.close();
    assert.match(await readFile(holderFileOf(file), 'utf8'), /"command":"lancegate serve"/);
    await second.close();
  });

  test('refuses a catalog of a newer lancegate and leaves it as it is', async () => {
    const file = freshFile();
    await (await open(file)).close();
    const database = new DatabaseSync(file);
    database.exec(`insert into catalog_migrations values ('0999-from-the-future', '2030-01-01T00:00:00.000Z')`);
    database.close();
    await assert.rejects(open(file), (error) => {
      assert.ok(error instanceof CatalogTooNew);
      assert.match(error.message, /newer lancegate: its schema has 0999-from-the-future,/);
      return true;
    });
    assert.deepEqual(await readdir(join(file, '..')), ['catalog.sqlite'], 'neither a lock nor a holder stays');
  });

  test('refuses a file that is not a catalog, and a folder that is missing', async () => {
    const file = freshFile();
    writeFileSync(file, 'x'.repeat(5000));
    await assert.rejects(open(file), (error) => {
      assert.ok(error instanceof CatalogUnusable);
      assert.match(error.message, /cannot be opened: the file is not a catalog\.$/);
      return true;
    });
    await assert.rejects(open(join(file, '..', 'missing', 'catalog.sqlite')), CatalogUnusable);
  });

  test('leaves it to its log when to sync, checks references, and holds its lock between commits', () => {
    const database = openExclusiveDatabase(freshFile());
    const setting = (name: string) => Object.values(database.prepare(`pragma ${name}`).get()!)[0];
    const settings = ['synchronous', 'wal_autocheckpoint', 'journal_mode', 'locking_mode', 'foreign_keys'];
    assert.deepEqual(settings.map(setting), [1, 0, 'wal', 'exclusive', 1]);
    database.close();
  });

  test('records groups of every size, though it keeps few prepared statements', async () => {
    const catalog = await open(freshFile());
    for (let size = 1; size <= 140; size += 1) {
      const group = Array.from({ length: size }, (_, number) => transactionOf(`${size}/${number}`));
      await catalog.recordTransactions(group);
    }
    const old = { committedBeforeMs: Number.MAX_SAFE_INTEGER, expiredAtMs: 0 };
    const { transactions } = await catalog.forgetRecords(old, Number.MAX_SAFE_INTEGER);
    assert.equal(transactions, (140 * 141) / 2);
    await catalog.close();
  });

  test('learns who owns the locations that an earlier lancegate gave out', async () => {
    const file = freshFile();
    const first = await open(file);
    await first.createNamespace(path('a'), {});
    await first.declareTable(table('a', 't'), place('a/t.lance'), {});
    await first.reserveCreation(table('u'), undefined, place('u.lance'));
    await first.declareTable(table('gone'), place('gone.lance'), {});
    await first.dropTable(table('gone'), undefined, 'left');
    await first.close();
    const database = new DatabaseSync(file);
    database.exec(`delete from catalog_migrations where name >= '0004';
      alter table locations drop column owner;
      drop table api_keys;
      drop table issuer_keys;
      alter table idempotency_keys drop column attempt;
      alter table idempotency_keys drop column asked_at_ms;
      drop table replicas;
      drop table table_owners;
      drop table storage_root;
      drop table databases;
      drop table acknowledged_versions;
      drop table dropped_tables`);
    database.close();
    const catalog = await open(file);
    const ownerOf = async (location: string) => (await catalog.locationsAt(place(location), 'exact'))[0]?.owner;
    assert.deepEqual(await ownerOf('a/t.lance'), table('a', 't'));
    assert.deepEqual(await ownerOf('u.lance'), table('u'));
    assert.equal(await ownerOf('gone.lance'), undefined);
    await catalog.close();
  });

  test('undoes a migration that fails half-way', async () => {
    const database = new DatabaseSync(':memory:');
    const db = new Kysely<object>({ dialect: new NodeSqliteDialect(database) });
    const half = async (schema: Kysely<unknown>) => {
      await schema.schema.createTable('first_half').addColumn('x', 'text').execute();
      throw new Error('a defect');
    };
    await assert.rejects(migrateCatalog(db, { '0001-half': { up: half } }), CatalogUnusable);
    assert.equal(database.prepare(`select name from sqlite_master where name = 'first_half'`).get(), undefined);
    await db.destroy();
  });

  test('is opened, announced and closed where the file that says who holds it cannot be written or removed', async () => {
    const file = freshFile();
    mkdirSync(join(holderFileOf(file), 'in-the-way'), { recursive: true });
    const catalog = await open(file);
    catalog.announce({ url: 'http://127.0.0.1:2333' });
    await assert.rejects(open(file), /is held by another process: end it, or name another folder by --data\.$/);
    await catalog.close();
  });

  test('takes nothing more once its file was removed, which no start would find again (P3)', async () => {
    const file = freshFile();
    const catalog = await open(file);
    await catalog.createNamespace(path('a'), {});
    rmSync(file);
    for (const replacement of [undefined, 'another']) {
      if (replacement !== undefined) writeFileSync(file, replacement);
      await assert.rejects(catalog.createNamespace(path('b'), {}), { kind: 'Internal' });
    }
    assert.notEqual(await catalog.findNamespace(path('a')), undefined, 'what it knows can be read');
    await catalog.close();
  });

  test('answers Internal once it is closed', async () => {
    const catalog = await open(freshFile());
    await catalog.close();
    await assert.rejects(
      catalog.findTable(table('t')),
      (error) => error instanceof LancegateError && error.kind === 'Internal',
    );
  });

  test('says that the disk is full, and that nothing was written (P6)', async () => {
    const file = freshFile();
    const database = openExclusiveDatabase(file);
    database.exec('create table filler (x); pragma max_page_count = 3');
    const log = new WriteAheadLog(database, file, syncOnDisk);
    const session = new SqliteSession(new Kysely({ dialect: new NodeSqliteDialect(database, log) }), log);
    const fill = (db: CatalogDb) => sql`insert into filler values (zeroblob(100000))`.execute(db);
    await assert.rejects(session.transact(fill), (error) => {
      assert.ok(error instanceof LancegateError);
      assert.equal(error.kind, 'StorageFull');
      assert.deepEqual(error.internal, { catalog: 'the disk is full', sqliteCode: 13 });
      return true;
    });
    assert.equal(database.isTransaction, false);
    await session.close();
  });
});
