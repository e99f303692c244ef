/** `version/create` on an object store: the files and the staged manifest are objects that the client has uploaded. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { before, describe, test } from 'node:test';
import { openStore } from '#src/engine/lance/store/open-store.ts';
import { manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { propose } from '#test/fixtures/proposed-version.ts';
import { type S3Gateway, startS3Gateway, withoutS3Gateway } from '#test/fixtures/s3-gateway.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { refused, startCheckedService, succeeded } from '#test/http/checked-service.ts';
import { people } from '#test/http/rows.ts';

describe('a version that a program of Lance proposes on an object store', { skip: withoutS3Gateway ?? false }, () => {
  const after = afterSuite();
  let gateway: S3Gateway;
  let root: string;
  let service: TestService;
  before(async () => {
    gateway = await startS3Gateway(after);
    root = gateway.newRoot();
    service = await startCheckedService(after, {
      ...{ STORAGE_ROOT: root, STORAGE_OPTIONS: JSON.stringify(gateway.storageOptions) },
      MANAGED_VERSIONING: 'true',
    });
    succeeded(await service.post('/v1/table/t/create', people([1, 2], 'x')));
  });

  /** One more row, as objects of the table. */
  const proposed = async (id: number) => {
    const { store, prefix } = (await openStore(root, gateway.storageOptions)) ?? assert.fail();
    const folder = join(temporaryFolder(after), 't.lance');
    for await (const { key } of store.list({ prefix: `${prefix}t.lance/` })) {
      const path = join(dirname(folder), key.slice(prefix.length));
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, (await store.get(key)) ?? assert.fail());
    }
    const known = new Set(readdirSync(folder, { recursive: true, encoding: 'utf8' }));
    const added: string[] = [];
    const entry = await propose(after, folder, (table) => table.add([{ id, name: 'past the gate' }]));
    for (const file of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      const path = join(file.parentPath, file.name);
      const within = relative(folder, path);
      if (!file.isFile() || known.has(within)) continue;
      added.push(`${prefix}t.lance/${within}`);
      await store.put(added.at(-1) ?? '', readFileSync(path));
    }
    store.close();
    const manifest_path = `${prefix}t.lance/${relative(folder, `/${entry.manifest_path}`)}`;
    return { entry: { ...entry, manifest_path }, added };
  };
  const create = (entry: object) => service.post('/v1/table/t/version/create', entry);

  test('is made by one conditional write, and is listed with its path, size and tag (P1, P5)', async () => {
    const { entry } = await proposed(3);
    const { version } = succeeded(await create(entry)) as { version: Record<string, unknown> };
    const path = entry.manifest_path.replace(/[^/]+$/, manifestNames(2)[0]);
    assert.deepEqual([version.version, version.manifest_path, version.manifest_size], [2, path, entry.manifest_size]);
    assert.ok(String(version.e_tag).length > 2);
    const list = async (query: string) =>
      succeeded(await service.post(`/v1/table/t/version/list?${query}`)).versions as { version: number }[];
    assert.deepEqual(await list('descending=true&limit=1'), [version]);
    assert.deepEqual(
      (await list('descending=false')).map((each) => each.version),
      [1, 2],
    );
    assert.deepEqual(succeeded(await service.post('/v1/table/t/version/describe', { version: 2 })).version, version);
    refused(await service.post('/v1/table/t/version/describe', { version: 3 }), 404, 11);
    refused(await create(entry), 409, 14);
    const { body } = await service.post('/v1/table/t/merge_insert?on=id', people([3, 4], 'gate'));
    assert.deepEqual([body.version, body.num_updated_rows, body.num_inserted_rows], [3, 1, 1]);
  });

  test('beside others is one of them, and leaves no row of those that were not made (P1, P2)', async () => {
    const entries = await Promise.all([10, 11, 12].map(proposed));
    const upsert = service.post('/v1/table/t/merge_insert?on=id', people([1], 'gate'));
    const answers = await Promise.all(entries.map(({ entry }) => create(entry)));
    const { body } = await upsert;
    const made = answers.filter(({ status }) => status === 200).length;
    assert.ok(made <= 1 && answers.every(({ status }) => status === 200 || status === 409));
    assert.equal(Number(body.version), 4 + made);
    assert.equal((await service.post('/v1/table/t/count_rows')).body, 4 + made);
  });

  test('is refused where a file is missing, or its manifest lies elsewhere (P9)', async () => {
    const { entry, added } = await proposed(20);
    const { store } = (await openStore(root, gateway.storageOptions)) ?? assert.fail();
    const manifest = (await store.get(entry.manifest_path)) ?? assert.fail();
    const elsewhere = entry.manifest_path.replace('t.lance', 'u.lance');
    await store.put(elsewhere, manifest);
    refused(await create({ ...entry, manifest_path: elsewhere }), 400, 13, /manifest_path/);
    refused(await create({ ...entry, manifest_path: `${root}/t.lance/_versions/x` }), 400, 13, /manifest_path/);
    refused(await create({ ...entry, manifest_path: `${entry.manifest_path}0` }), 400, 13, /no such file/);
    const newest = succeeded(await service.post('/v1/table/t/describe')).version;
    await store.delete(added.filter((key) => key.includes('/data/')));
    store.close();
    refused(await create(entry), 400, 13, /missing/);
    assert.equal(succeeded(await service.post('/v1/table/t/describe')).version, newest);
  });
});
