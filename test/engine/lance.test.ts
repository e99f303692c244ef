import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { StorageRoot } from '#src/engine/lance/adapter/storage-root.ts';
import { engineContract } from '#test/contract/engine.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { externalWriterOn } from '#test/fixtures/external-writer.ts';
import { onFolder, onStore } from '#test/fixtures/table-places.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const engineAt = (folder: string) => engineIn(folder, join(folder, 'tables'));

for (const storage of [onFolder, onStore]) {
  engineContract(`Lance on ${storage.kind}`, (t) => {
    const { engine, root } = storage.open(t);
    return {
      engine,
      storage: storage.kind === 'an object store' ? 'object store' : 'file system',
      externalWriter: (location) => externalWriterOn(root, location),
    };
  });
}

test('a link inside the root that points outside is not followed (P9)', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  mkdirSync(join(folder, 'tables'));
  mkdirSync(join(folder, 'elsewhere.lance'));
  symlinkSync(join(folder, 'elsewhere.lance'), join(folder, 'tables', 'x.lance'));
  const engine = engineAt(folder);
  assert.equal(await engine.resolve(engine.locationOf('x.lance')), undefined);
});

test('a link inside the root leads to where the files are; into a dataset, or in a circle, it leads nowhere (P9)', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const tables = join(folder, 'tables');
  mkdirSync(join(tables, 'b', 't.lance', 'tree', 'x.lance'), { recursive: true });
  symlinkSync('b/t.lance', join(tables, 'link.lance'));
  symlinkSync('b/t.lance/tree', join(tables, 'tree'));
  symlinkSync('loop.lance', join(tables, 'loop.lance'));
  const engine = engineAt(folder);
  const resolved = (path: string) => engine.resolve(engine.locationOf(path));
  assert.deepEqual(await resolved('link.lance'), { location: 'b/t.lance', spelling: 'exact' });
  for (const nowhere of ['tree/x.lance', 'loop.lance', 'absent.lance', 'b/none.lance']) {
    assert.equal(await resolved(nowhere), undefined, nowhere);
  }
});

test('a file system on which another spelling finds the same folder is known to spell loosely (P9)', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const tables = join(folder, 'tables');
  mkdirSync(join(tables, 'exact', 't.lance'), { recursive: true });
  mkdirSync(join(tables, 'loose', 't.lance'), { recursive: true });
  symlinkSync('loose', join(tables, 'LOOSE')); // what such a file system shows, on one that tells them apart
  const engine = engineAt(folder);
  const spelling = async (path: string) => (await engine.resolve(engine.locationOf(path)))?.spelling;
  assert.equal(await spelling('exact/t.lance'), 'exact');
  assert.equal(await spelling('loose/t.lance'), 'loose');
});

test('a location whose files would have longer keys than an object store takes is refused (P6)', () => {
  const store = new StorageRoot('s3://bucket/prefix');
  const folders = `${'n'.repeat(99)}/`.repeat(40);
  const ofBytes = (bytes: number) => `${folders.slice(0, bytes - '/t.lance'.length)}/t.lance`;
  const fits = 900 - 'prefix/'.length;
  assert.equal(store.locationOf(ofBytes(fits)).length, fits);
  const says = /^id: all names together take 901 bytes on the object store, which is more than 900$/;
  assert.throws(() => store.locationOf(ofBytes(fits + 1), 'id'), { kind: 'InvalidInput', message: says });
  assert.equal(new StorageRoot('/folder').locationOf(ofBytes(3_000)).length, 3_000);
});
