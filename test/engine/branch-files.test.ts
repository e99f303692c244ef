/** What a check reads of files that another program has written, and may still change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoreFiles } from '#src/engine/lance/commit/branch-files.ts';
import type { ListRequest } from '#src/engine/lance/store/object-store.ts';
import { FolderStore } from '#test/fixtures/folder-store.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const [key, small, large] = ['t.lance/2.manifest', Buffer.from('small'), Buffer.alloc(1_000, 'large')];

/** Another program replaces the object when it has been listed. */
class RacedStore extends FolderStore {
  override async *list(request: ListRequest) {
    yield* super.list(request);
    await this.put(key, large);
  }
}

test('of an object that grows after its size was checked, no more is read than was allowed (P7)', async (t) => {
  const store = new RacedStore(temporaryFolder((clean) => t.after(clean)));
  await store.put(key, small);
  const files = new StoreFiles({ store, prefix: 't.lance/' });
  const read = await files.read('2.manifest', small.length);
  assert.equal(read?.length, small.length);
  assert.equal(await files.read('2.manifest', small.length), 'too large');
});

test('an object without content is one of no bytes, and one that is not there is none', async (t) => {
  const store = new FolderStore(temporaryFolder((clean) => t.after(clean)));
  await store.put(key, Buffer.of());
  const files = new StoreFiles({ store, prefix: 't.lance/' });
  assert.deepEqual(await files.read('2.manifest', 10), Buffer.of());
  assert.equal(await files.read('3.manifest', 10), undefined);
});
