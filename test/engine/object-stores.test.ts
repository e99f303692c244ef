import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { putUntilKnown } from '#src/engine/lance/store/conditional-put.ts';
import { openStore, requireOneWinner } from '#src/engine/lance/store/open-store.ts';
import { UploadBudget } from '#src/engine/lance/store/upload-budget.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import { objectStoreContract } from '#test/contract/object-store.ts';
import { BucketFolder } from '#test/fixtures/folder-store.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const folder = () => new BucketFolder(temporaryFolder(after));

const folderStore = folder();
objectStoreContract('a local folder', () => folderStore);

const key = 'version';
const ours = Buffer.from('ours');

test('a conditional write whose answer was lost counts as made if the object is ours (P6)', async () => {
  const store = folder();
  const made = putUntilKnown(store, key, ours, async () => {
    await store.putIfAbsent(key, ours);
    return 'unclear';
  });
  assert.equal(await made, true);
});

test('a refusal counts as ours where the network has sent the write twice (P6)', async () => {
  const store = folder();
  const made = putUntilKnown(store, key, ours, async () => {
    await store.putIfAbsent(key, ours);
    return 'taken';
  });
  assert.equal(await made, true);
});

test('a write that was lost on its way is sent again, and loses to one that came first', async () => {
  const store = folder();
  let attempts = 0;
  const putOnce = async () => {
    attempts += 1;
    if (attempts === 1) return 'unclear';
    await store.put(key, Buffer.from('theirs'));
    return 'taken';
  };
  assert.equal(await putUntilKnown(store, key, ours, putOnce), false);
});

test('a name that another program used and removed is not used again', async () => {
  assert.equal(await putUntilKnown(folder(), key, ours, async () => 'taken'), false);
});

test('a write whose outcome stays unknown is never called unwritten (P6)', async () => {
  const down = { get: () => Promise.reject(new Error('no answer')) };
  await assert.rejects(
    putUntilKnown(down, key, ours, async () => 'unclear'),
    (error) => error instanceof LancegateError && error.kind === 'Internal' && error.entry.written === 'unknown',
  );
});

test('a store that lets several programs make the same object is refused by its name', async () => {
  const store = folder();
  store.putIfAbsent = async () => true;
  await assert.rejects(requireOneWinner({ store, prefix: '' }, 'probe', 's3://careless/tables'), /s3:\/\/careless/);
});

test('any number of files is uploaded with no more than 64 MiB of them in memory, the first first (P7)', async () => {
  const uploads = new UploadBudget();
  let [held, most] = [0, 0];
  const started: number[] = [];
  const upload = (file: number, bytes: number) =>
    uploads.use(bytes, async () => {
      started.push(file);
      held += bytes;
      most = Math.max(most, held);
      await new Promise(setImmediate);
      held -= bytes;
    });
  const sizes = Array.from({ length: 100 }, (_, file) => (file % 4 === 0 ? 2 ** 24 : 2 ** 20));
  const failing = uploads.use(2 ** 26, () => Promise.reject(new Error('no answer')));
  await Promise.all([assert.rejects(failing, /no answer/), ...sizes.map((bytes, file) => upload(file, bytes))]);
  assert.deepEqual([started, held], [sizes.map((_, file) => file), 0]);
  assert.ok(most > 2 ** 25 && most <= 2 ** 26, `${most}`);
});

test('a store that does not answer, or has no such bucket, is refused by its name', async () => {
  const options = { endpoint: 'http://127.0.0.1:1', region: 'x', access_key_id: 'k', secret_access_key: 's' };
  const place = (await openStore('s3://tables/lance', options)) ?? assert.fail();
  await assert.rejects(
    requireOneWinner(place, 'probe', 's3://tables/lance'),
    /^StoreUnusable: s3:\/\/tables\/lance cannot be used: .*ECONNREFUSED/,
  );
});

test('a store that no client reaches is refused before anything else', async () => {
  await assert.rejects(openStore('az://tables/lance', {}), /^StoreUnusable: .*account/);
});
