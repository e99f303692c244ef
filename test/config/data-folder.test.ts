import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { IssuerKeyFile } from '#src/auth/tokens/issuer-key-file.ts';
import { OwnIssuer } from '#src/auth/tokens/own-issuer.ts';
import { makeDataFolder } from '#src/config/data-folder.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { people } from '#test/http/rows.ts';

const folderOf = (t: TestContext): string => temporaryFolder((clean) => t.after(clean));
const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);
const self = process.getuid?.() ?? 0;
/** Neither root, who may do everything, nor the user who runs the tests. */
const anotherUser = self === 4_711 ? 4_712 : 4_711;

function withUmask(t: TestContext, umask: number): void {
  const before = process.umask(umask);
  t.after(() => process.umask(before));
}

describe('the data folder (P9)', () => {
  test('below a folder that takes none is refused at once, and one is made with those above it', (t) => {
    const deep = join(folderOf(t), 'a', 'b', 'data');
    makeDataFolder(deep);
    assert.equal(modeOf(deep), '700');
    if (process.platform === 'linux') assert.throws(() => makeDataFolder('/proc/lancegate/data'), { code: 'ENOENT' });
  });

  for (const umask of [0o000, 0o022]) {
    test(`is private with all that is in it, but for the files of tables, under umask ${umask.toString(8)}`, async (t) => {
      withUmask(t, umask);
      const data = join(folderOf(t), 'data');
      const service = await startTestService((clean) => t.after(clean), { DATA: data });
      assert.equal((await service.post('/v1/table/t/create', people([1, 2], 'x'), await adminOf(data))).status, 200);
      const modes = new Map([['.', modeOf(data)]]);
      for (const name of readdirSync(data)) modes.set(name, modeOf(join(data, name)));
      const folders = ['.', 'tables', 'scratch'];
      for (const [name, mode] of modes) assert.equal(mode, folders.includes(name) ? '700' : '600', name);
      for (const name of [
        'catalog.sqlite',
        'catalog.sqlite-wal',
        'lancegate.holder.json',
        'issuer-key.json',
        'tables',
      ]) {
        assert.ok(modes.has(name), name);
      }
    });
  }

  test('is closed where it was open, and the log says so; a folder of tables outside of it keeps its mode', async (t) => {
    const [data, tables] = [folderOf(t), folderOf(t)];
    chmodSync(data, 0o777);
    chmodSync(tables, 0o755);
    writeFileSync(join(data, 'lancegate.holder.json'), '{}');
    chmodSync(join(data, 'lancegate.holder.json'), 0o666);
    const service = await startTestService((clean) => t.after(clean), { DATA: data, STORAGE_ROOT: tables });
    assert.equal(modeOf(data), '700');
    assert.equal(modeOf(join(data, 'catalog.sqlite')), '600');
    assert.match(service.log.join(''), /other users could access the data folder; the service has closed it/);
    assert.match(service.log.join(''), /"wasOpenAs":"0777"/);
    assert.equal(modeOf(tables), '755');
    await service.close();
    assert.equal(makeDataFolder(data).wasOpenAs, undefined);
    for (const name of ['catalog.sqlite', 'api-keys.sqlite']) assert.equal(modeOf(join(data, name)), '600', name);
  });

  test('closes files that an earlier release left open', (t) => {
    const data = folderOf(t);
    const names = ['catalog.sqlite', 'catalog.sqlite-wal', 'catalog.sqlite-shm', 'lancegate.holder.json'];
    for (const name of names) {
      writeFileSync(join(data, name), '');
      chmodSync(join(data, name), 0o664);
    }
    makeDataFolder(data);
    for (const name of names) assert.equal(modeOf(join(data, name)), '600', name);
  });

  test('that belongs to another user is refused, with what to do; nothing in it is touched', (t) => {
    const data = folderOf(t);
    chmodSync(data, 0o755);
    assert.throws(() => makeDataFolder(data, anotherUser), {
      name: 'DataFolderUnsafe',
      message: new RegExp(`belongs to another user \\(${self}\\).*such as ${data}/lancegate\\.`),
    });
    assert.deepEqual([modeOf(data), readdirSync(data)], ['755', []]);
  });

  const needsRoot = { skip: process.getuid?.() !== 0 && 'only root can give a file away' };
  test('with a file of another user is refused, with what to do about that file', needsRoot, (t) => {
    const [data, user, other] = [folderOf(t), 65_533, 65_534];
    const catalog = join(data, 'catalog.sqlite');
    writeFileSync(catalog, '');
    chownSync(data, user, user);
    chownSync(catalog, other, other);
    const message = /catalog\.sqlite belongs to another user \(65534\).* give it to this user \(65533\)\.$/;
    assert.throws(() => makeDataFolder(data, user), { name: 'DataFolderUnsafe', message });
  });

  test('is not trusted through the symbolic link of another user, and is through one of its own', (t) => {
    const folder = folderOf(t);
    const target = join(folder, 'target');
    mkdirSync(target, { mode: 0o755 });
    const link = join(folder, 'link');
    symlinkSync(target, link);
    assert.throws(() => makeDataFolder(link, anotherUser), { name: 'DataFolderUnsafe' });
    assert.equal(modeOf(target), '755');
    assert.equal(makeDataFolder(link).wasOpenAs, '0755');
    assert.equal(modeOf(target), '700');
  });
});

async function adminOf(data: string): Promise<Record<string, string>> {
  const issuer = await OwnIssuer.open(new IssuerKeyFile(join(data, 'issuer-key.json')), systemClock);
  const token = await issuer.mint({ subject: 'a', scopes: ['lancegate:admin'], expiresAfterMs: 60_000 });
  return { authorization: `Bearer ${token}` };
}
