/** Nothing is acknowledged that a power cut could take back, and the event loop does not wait for the disk (P3). */
import assert from 'node:assert/strict';
import { fstatSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, type TestContext, test } from 'node:test';
import { openSqliteCatalog } from '#src/catalog/sqlite/open-sqlite-catalog.ts';
import { type SyncFile, syncOnDisk } from '#src/catalog/sqlite/session.ts';
import { path, rejects } from '#test/contract/catalog/fixtures.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Random } from '#test/model/random.ts';

type Part = 'log' | 'database';

/** A catalog whose file the test syncs in its own way; the test learns which of the two files it is. */
async function openSynced(t: TestContext, sync: (part: Part, really: () => Promise<void>) => Promise<void>) {
  const file = join(
    temporaryFolder((clean) => t.after(clean)),
    'catalog.sqlite',
  );
  const syncFile: SyncFile = (descriptor) => {
    const isDatabase = fstatSync(descriptor).ino === statSync(file).ino;
    return sync(isDatabase ? 'database' : 'log', () => syncOnDisk(descriptor));
  };
  const catalog = await openSqliteCatalog(file, { holder: { command: 'test' }, syncFile });
  t.after(() => catalog.close());
  return { catalog, file };
}

const turns = async (): Promise<void> => {
  for (let i = 0; i < 20; i++) await new Promise<void>((resolve) => setImmediate(resolve));
};

/** Each sync waits until the test lets it end. */
async function openHeld(t: TestContext) {
  const held: { part: Part; end: () => void }[] = [];
  let isHolding = false;
  const { catalog } = await openSynced(t, async (part, really) => {
    if (isHolding) await new Promise<void>((end) => held.push({ part, end }));
    await really();
  });
  isHolding = true;
  t.after(() => {
    isHolding = false;
    for (const { end } of held) end();
  });
  return { catalog, held };
}

async function isDone(work: Promise<unknown>): Promise<boolean> {
  let done = false;
  void work.then(() => {
    done = true;
  });
  await turns();
  return done;
}

describe('the log of the SQLite catalog', () => {
  test('is synced before a commit is acknowledged, or anything that was read after it (P3)', async (t) => {
    const { catalog, held } = await openHeld(t);
    const making = catalog.createNamespace(path('a'), {});
    assert.equal(await isDone(making), false);
    const reading = catalog.findNamespace(path('a'));
    assert.equal(await isDone(reading), false);
    assert.deepEqual(
      held.map(({ part }) => part),
      ['log'],
    );
    held[0]!.end();
    await making;
    assert.notEqual(await reading, undefined);
    assert.equal(await isDone(catalog.findNamespace(path('a'))), true, 'what is durable is read at once');
    assert.equal(held.length, 1);
  });

  test('is synced before anything is read that a commit has brought in that very moment (P3)', async (t) => {
    const { catalog, held } = await openHeld(t);
    for (let microtasks = 0; microtasks < 60; microtasks++) {
      const name = path(`n${microtasks}`);
      const making = catalog.createNamespace(name, {});
      for (let passed = 0; passed < microtasks; passed++) await Promise.resolve();
      const reading = catalog.findNamespace(name);
      if (await isDone(reading)) assert.equal(await reading, undefined, `acknowledged after ${microtasks} microtasks`);
      const both = Promise.all([making, reading]);
      while (!(await isDone(both))) for (const { end } of held.splice(0)) end();
    }
  });

  test('is synced once more for what was committed while it was, and once for all of that', async (t) => {
    const { catalog, held } = await openHeld(t);
    const first = catalog.createNamespace(path('first'), {});
    await turns();
    const others = Promise.all(['a', 'b', 'c'].map((name) => catalog.createNamespace(path(name), {})));
    await turns();
    held[0]!.end();
    await first;
    assert.equal(await isDone(others), false);
    assert.equal(held.length, 2);
    held[1]!.end();
    await others;
    assert.equal(held.length, 2);
  });

  test('that cannot be synced is the end: all that follows fails, and nothing is acknowledged (P3)', async (t) => {
    let fails = false;
    const { catalog } = await openSynced(t, (_, really) => (fails ? Promise.reject(new Error('EIO')) : really()));
    await catalog.createNamespace(path('before'), {});
    fails = true;
    await rejects(catalog.createNamespace(path('lost'), {}), 'Internal');
    fails = false;
    await rejects(catalog.createNamespace(path('after'), {}), 'Internal');
    await assert.rejects(catalog.findNamespace(path('before')), {
      kind: 'Internal',
      internal: { catalog: 'the disk failed to keep it; nothing more is taken until the service is started again' },
    });
  });

  test('ends, too, where the database cannot be synced, though all commits are durable', async (t) => {
    const { catalog } = await openSynced(t, async (part, really) => {
      if (part === 'database') throw new Error('EIO');
      await really();
    });
    const makeMany = async (): Promise<void> => {
      for (let made = 0; made < 1_000; made++) await catalog.createNamespace(path(`n${made}`), {});
    };
    await rejects(makeMany(), 'Internal');
    await rejects(catalog.findNamespace(path('n0')), 'Internal');
  });

  test('is synced at the start: a killed process may have left what only the system has in memory', async (t) => {
    const synced: Part[] = [];
    await openSynced(t, async (part, really) => {
      synced.push(part);
      await really();
    });
    assert.deepEqual(synced, ['log']);
  });

  test('is put into the database from time to time, and can be read in that time, but not written', async (t) => {
    const waiting = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const { catalog, file } = await openSynced(t, async (part, really) => {
      if (part === 'database') {
        reached.resolve();
        await waiting.promise;
      }
      await really();
    });
    let made = 0;
    const makeUntilReached = async (): Promise<void> => {
      for (; made < 1_000; made++) await catalog.createNamespace(path(`n${made}`), {});
    };
    const making = makeUntilReached();
    await Promise.race([reached.promise, making]);
    assert.ok(made < 1_000, 'the database was never synced');
    const { size } = statSync(file);
    assert.equal(await isDone(catalog.findNamespace(path('n0'))), true);
    const then = made;
    await turns();
    assert.equal(made, then);
    waiting.resolve();
    await making;
    assert.ok(size > 4096 && statSync(`${file}-wal`).size < 4 * 2 ** 20, 'the log is used again from its start');
  });
});

/** What a power cut leaves of a file of which some pages were not synced: of each, what was there before or what came since. */
function tornContent(random: Random, durable: Buffer, now: Buffer, sectorBytes: number): Buffer {
  const torn = Buffer.from(random.chance(50) ? now : now.subarray(0, Math.max(durable.length, random.int(now.length))));
  for (let at = 0; at < torn.length; at += sectorBytes) {
    if (random.chance(50)) continue;
    torn.subarray(at, at + sectorBytes).fill(0);
    durable.subarray(at, at + sectorBytes).copy(torn, at);
  }
  return torn;
}

test('the power may go at any moment: every namespace that was made is there, and the catalog is whole (P3)', async (t) => {
  const sectorBytes = 512;
  const headerBytes = 32;
  const random = new Random(7);
  const acknowledged: string[] = [];
  const durable: Record<Part, Buffer> = { log: Buffer.alloc(0), database: Buffer.alloc(0) };
  const cuts: Record<string, number> = {};
  const pathOf = (part: Part): string => (part === 'log' ? `${file}-wal` : file);
  const cut = (when: string): void => {
    cuts[when] = (cuts[when] ?? 0) + 1;
    const folder = join(file, '..', `cut-${when.replaceAll(' ', '-')}-${cuts[when]}`);
    mkdirSync(folder);
    const log = readFileSync(pathOf('log'));
    const tornLog = tornContent(random, durable.log, log, sectorBytes);
    // SQLite syncs this itself, before it begins the log anew.
    log.copy(tornLog, 0, 0, headerBytes);
    const image = join(folder, 'catalog.sqlite');
    writeFileSync(image, tornContent(random, durable.database, readFileSync(file), sectorBytes));
    writeFileSync(`${image}-wal`, tornLog);
    const database = new DatabaseSync(image);
    assert.deepEqual(database.prepare('pragma integrity_check').all().map(Object.values), [['ok']], folder);
    const kept = new Set(
      database
        .prepare('select name from namespaces')
        .all()
        .map(({ name }) => name),
    );
    database.close();
    assert.deepEqual(
      acknowledged.filter((name) => !kept.has(name)),
      [],
      folder,
    );
  };
  let isOpen = false;
  const { catalog, file } = await openSynced(t, async (part, really) => {
    const content = isOpen ? readFileSync(pathOf(part)) : undefined;
    const isTried = isOpen && (part === 'database' || random.chance(8));
    if (isOpen && part === 'database')
      assert.ok(durable.log.equals(readFileSync(pathOf('log'))), 'the log comes first');
    for (let seed = 0; isTried && seed < 4; seed++) cut(`before the ${part}`);
    await really();
    if (content !== undefined) durable[part] = content;
    for (let seed = 0; isTried && seed < 4; seed++) cut(`after the ${part}`);
  });
  for (const part of ['log', 'database'] as const) durable[part] = readFileSync(pathOf(part));
  isOpen = true;
  for (let number = 0; number < 450; number++) {
    const name = `n${(number * 7919) % 10_007}`;
    await catalog.createNamespace(path(name), { filler: 'x'.repeat(number) });
    acknowledged.push(name);
  }
  assert.ok((cuts['before the database'] ?? 0) >= 16 && (cuts['after the log'] ?? 0) >= 60, JSON.stringify(cuts));
  t.diagnostic(JSON.stringify(cuts));
});
