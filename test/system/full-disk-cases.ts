/** To be run where the folder of temporary files is a file system of some 24 MB and 4,000 files: see `full-disk.test.ts`. */
import assert from 'node:assert/strict';
import { closeSync, mkdirSync, openSync, readdirSync, rmSync, statfsSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Answer, startTestService, type TestService } from '#test/fixtures/service.ts';
import { eventually } from '#test/http/eventually.ts';
import { storedRows, stream } from '#test/http/rows.ts';
import { AdvancingClock } from '#test/maintenance/advancing-clock.ts';

const retentionMs = 600_000;
const settings = { VERSION_RETENTION: '10m' };
const manyVersions = 34;
const ids = Array.from({ length: 200 }, (_, id) => id);
/** Some 100 KB that do not shrink. */
const upsert = (): Buffer =>
  stream({ id: ids, text: ids.map(() => crypto.getRandomValues(Buffer.alloc(250)).toString('hex')) });

interface FullDisk {
  readonly service: TestService;
  readonly clock: AdvancingClock;
  merge(): Promise<Answer>;
  versions(): number;
}

/** A table of many versions, none of which may go yet, and no room. */
async function fullDisk(t: TestContext, more: Record<string, string>, fill = fillBytes): Promise<FullDisk> {
  const clock = new AdvancingClock();
  const service = await startTestService(t.after.bind(t), { ...settings, ...more }, clock);
  assert.equal((await service.post('/v1/table/t/create', upsert())).status, 200);
  const merge = () => service.post('/v1/table/t/merge_insert?on=id', upsert());
  const folder = join(service.tablesFolder, 't.lance');
  const versions = () => readdirSync(join(folder, '_versions')).filter((name) => name.endsWith('.manifest')).length;
  while (versions() < manyVersions) assert.equal((await merge()).status, 200);
  const filler = join(service.dataFolder, 'filler');
  t.after(() => rmSync(filler, { force: true, recursive: true }));
  fill(filler);
  return { service, clock, merge, versions };
}

function fillBytes(path: string): void {
  const file = openSync(path, 'w');
  try {
    for (;;) writeSync(file, Buffer.alloc(4_096));
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
  } finally {
    closeSync(file);
  }
  assert.equal(statfsSync(path).bavail, 0);
}

function fillFiles(path: string): void {
  mkdirSync(path);
  const isFull = { code: 'ENOSPC' };
  assert.throws(() => {
    for (let i = 0; ; i++) writeFileSync(join(path, `${i}`), '');
  }, isFull);
  assert.ok(statfsSync(path).bavail > 1_000, 'there is room for bytes');
}

/** The program does the same at its start (`temporary-folder.test.ts`), which these cases go round. Answers how to undo it. */
function withTemporaryFilesIn(folder: string): () => void {
  const { TMPDIR } = process.env;
  process.env.TMPDIR = folder;
  return () => {
    process.env.TMPDIR = TMPDIR;
  };
}

const refusedAsFull = ({ status, body }: Answer): void => {
  assert.equal(status, 503, JSON.stringify(body));
  assert.match(String(body.error), /the storage is full; nothing was written/);
};

/** Old versions go without a commit, and then a merge has space. */
async function pruneAfterRetention({ service, clock, merge, versions }: FullDisk): Promise<void> {
  clock.advance(2 * retentionMs);
  const isPruned = (): boolean => {
    clock.advance(10_000); // a round that had begun before has found nothing that may go
    return versions() === 1;
  };
  await eventually('one version is left', isPruned, () => service.log.slice(-4));
  assert.equal((await merge()).status, 200);
  assert.equal((await storedRows(service, 't')).length, ids.length);
}

test('a service that is idle on a full disk removes old versions once they are past their retention', async (t) => {
  const disk = await fullDisk(t, {});
  const { clock, merge, versions } = disk;
  refusedAsFull(await merge());
  clock.advance(60_000);
  assert.ok(versions() >= manyVersions, 'the retention has not passed');
  await pruneAfterRetention(disk);
});

test('so does a service that starts there, and has seen no commit', async (t) => {
  const disk = await fullDisk(t, {});
  const { service, merge } = disk;
  await service.restart();
  refusedAsFull(await merge());
  await pruneAfterRetention(disk);
});

test('also where there is room for bytes and for no further file', async (t) => {
  const disk = await fullDisk(t, {}, fillFiles);
  const { service, merge } = disk;
  t.after(withTemporaryFilesIn('/dev/shm'));
  await service.restart();
  refusedAsFull(await merge());
  await pruneAfterRetention(disk);
});

test('and by hand, without automatic maintenance', async (t) => {
  const { service, merge, versions } = await fullDisk(t, { AUTO_MAINTENANCE: 'false', VERSION_RETENTION: '1s' });
  refusedAsFull(await merge());
  // By the real clock: one that jumps ahead closes the connections that a client keeps.
  const filledAtMs = Date.now();
  await eventually('the retention has passed', () => Date.now() > filledAtMs + 1_000);
  const { status, body } = await service.post<{ jobs: Record<string, unknown>[] }>('/v1/table/t/maintain');
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal(body.jobs[0]?.job, 'prune');
  assert.ok(Number(body.jobs[0]?.removed_versions) >= manyVersions - 1);
  assert.ok(Number(body.jobs[0]?.removed_bytes) > 1e6);
  assert.ok(versions() <= 2);
  assert.equal((await merge()).status, 200);
  assert.equal((await storedRows(service, 't')).length, ids.length);
});

test('tables that are overwritten again and again do not fill the disk: the oldest of the trash go first', async (t) => {
  const clock = new AdvancingClock();
  const service = await startTestService(t.after.bind(t), settings, clock);
  const rows = { id: ids, text: ids.map(() => crypto.getRandomValues(Buffer.alloc(5_000)).toString('hex')) };
  const overwrite = () => service.post('/v1/table/t/create?mode=overwrite', stream(rows));
  for (let round = 0; round < 40; round += 1) {
    const isDone = async (): Promise<boolean> => {
      clock.advance(10_000);
      return (await overwrite()).status === 200;
    };
    await eventually('there is space for one more', isDone, () => service.log.slice(-4));
  }
  assert.ok(service.log.some((line) => line.includes('purged the oldest of the dropped tables')));
  assert.equal((await service.post('/v1/table/t/count_rows')).body, ids.length);
  const { tables } = (await service.get('/v1/namespace/$/trash/list')).body as { readonly tables: readonly unknown[] };
  assert.ok(tables.length > 0 && tables.length < 39, `${tables.length} are left`);
});
