import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  rmdirSync,
  statfsSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { makeMemoryFolder } from '#src/config/memory-folder.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const hasMemory = existsSync('/dev/shm') && statfsSync('/dev/shm').type === 0x01021994;
const folderOf = (t: TestContext): string => temporaryFolder((clean) => t.after(clean));

describe('the folder in memory of a data folder', {
  skip: !hasMemory && 'this system has no file system in memory',
}, () => {
  test('is for its owner only, and another one than that of any other', (t) => {
    const [mine, others] = [folderOf(t), folderOf(t)].map((folder) => makeMemoryFolder(folder));
    assert.ok(mine !== undefined && others !== undefined && mine !== others);
    for (const path of [mine, others]) t.after(() => rmdirSync(path));
    assert.equal(statSync(mine).mode & 0o777, 0o700);
    assert.equal(statfsSync(mine).type, 0x01021994);
  });

  test('is empty, whatever a killed process has left', (t) => {
    const folder = folderOf(t);
    const path = makeMemoryFolder(folder)!;
    t.after(() => rmdirSync(path));
    mkdirSync(join(path, 'x.lance', 'data'), { recursive: true });
    writeFileSync(join(path, 'x.lance', 'data', 'rows'), 'left');
    assert.equal(makeMemoryFolder(folder), path);
    assert.deepEqual(readdirSync(path), []);
  });

  test('is there while a service runs on it, and gone afterwards', async (t) => {
    const service = await startTestService((clean) => t.after(clean));
    const { dev, ino } = statSync(service.dataFolder);
    const path = join('/dev/shm', `lancegate-${dev}-${ino}`);
    assert.deepEqual(readdirSync(path), []);
    await service.close();
    assert.equal(existsSync(path), false);
  });

  test('is not one that another user has put there', (t) => {
    const folder = folderOf(t);
    const path = makeMemoryFolder(folder)!;
    rmdirSync(path);
    const target = folderOf(t);
    writeFileSync(join(target, 'precious'), '');
    symlinkSync(target, path);
    t.after(() => unlinkSync(path));
    assert.equal(makeMemoryFolder(folder), undefined);
    assert.deepEqual(readdirSync(target), ['precious']);
  });
});

test('there is none where files would go to a disk, or where there is no such folder', (t) => {
  const folder = folderOf(t);
  const isMemory = statfsSync(dirname(folder)).type === 0x01021994;
  if (!isMemory) assert.equal(makeMemoryFolder(folder, folder), undefined);
  assert.equal(makeMemoryFolder(folder, join(folder, 'missing')), undefined);
  assert.deepEqual(readdirSync(folder), []);
});
