import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';
import { FileWriter } from '#src/engine/lance/commit/file-writer.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const folderOf = (t: TestContext): string => temporaryFolder((clean) => t.after(clean));
const filesIn = (folder: string, count: number, bytes = 10) =>
  Array.from({ length: count }, (_, n) => ({
    path: join(folder, 'made', `${n}`),
    content: Buffer.from(`content ${n}`.padEnd(bytes)),
  }));

for (const [how, count, bytes] of [
  ['at once', 3, 10],
  ['on another thread since they are many', 40, 10],
  ['on another thread since they are large', 3, 30_000],
] as const)
  describe(`the files of a commit, written ${how}`, () => {
    test('are there, and so is their folder', async (t) => {
      const folder = folderOf(t);
      const writing = new FileWriter().write(filesIn(folder, count, bytes));
      assert.equal(existsSync(join(folder, 'made')), how === 'at once');
      await writing;
      assert.equal(readdirSync(join(folder, 'made')).length, count);
      assert.equal(readFileSync(join(folder, 'made', '2'), 'utf8'), 'content 2'.padEnd(bytes));
    });

    test('are all or none, and the error says why', async (t) => {
      const folder = folderOf(t);
      writeFileSync(join(folder, 'a file'), '');
      const files = [
        ...filesIn(folder, count - 1, bytes),
        { path: join(folder, 'a file', 'x'), content: Buffer.of(1) },
      ];
      await assert.rejects(new FileWriter().write(files), { code: 'ENOTDIR' });
      assert.deepEqual(readdirSync(join(folder, 'made')), []);
    });
  });

test('many commits at once each get their own files', async (t) => {
  const folder = folderOf(t);
  const writer = new FileWriter();
  const failing = [
    ...filesIn(join(folder, 'bad'), 20),
    { path: join(folder, `${'x'.repeat(300)}`), content: Buffer.of(1) },
  ];
  const writes = [filesIn(join(folder, 'a'), 20), failing, filesIn(join(folder, 'b'), 30)].map((each) =>
    writer.write(each),
  );
  assert.deepEqual(
    (await Promise.allSettled(writes)).map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.equal(readdirSync(join(folder, 'b', 'made')).length, 30);
});

test('a thread that ends fails what it was asked for and leaves nothing of it; the next has another one', async (t) => {
  const folder = folderOf(t);
  const files = filesIn(folder, 20_000);
  const kill = async (worker: Worker): Promise<void> => {
    while (!existsSync(files[0]!.path)) await new Promise<void>((resolve) => setImmediate(resolve));
    await worker.terminate();
  };
  process.once('worker', (worker: Worker) => void kill(worker));
  const writer = new FileWriter();
  await assert.rejects(writer.write(files), /the thread that writes files ended/);
  assert.deepEqual(readdirSync(join(folder, 'made')), []);
  await writer.write(filesIn(join(folder, 'again'), 40));
  assert.ok(existsSync(join(folder, 'again', 'made', '39')));
});

test('a process that has nothing else to do ends', async (t) => {
  const folder = folderOf(t);
  const writer = join(import.meta.dirname, '../../src/engine/lance/commit/file-writer.ts');
  const code = `
    import { FileWriter } from ${JSON.stringify(writer)};
    const files = Array.from({ length: 40 }, (_, n) => ({ path: ${JSON.stringify(folder)} + '/' + n, content: Buffer.of(1) }));
    await new FileWriter().write(files);
    console.log('written');`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    timeout: 60_000,
  });
  assert.equal(stdout, 'written\n');
  assert.equal(readdirSync(folder).length, 40);
});
