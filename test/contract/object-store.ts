import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { ObjectStore } from '#src/engine/lance/store/object-store.ts';
import { requireOneWinner } from '#src/engine/lance/store/open-store.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const racers = 8;

/** What every adapter of the port must do. `store` is empty. */
export function objectStoreContract(name: string, open: () => ObjectStore): void {
  let places = 0;
  const place = () => ({ store: open(), at: `place-${++places}/ä b+c=d` });
  const text = async (content: Promise<Buffer | undefined>) => (await content)?.toString();

  describe(`object store: ${name}`, () => {
    test('of many that make an object at once one does, and its content stays (P1)', async () => {
      const { store, at } = place();
      for (let round = 0; round < 5; round++) {
        const key = `${at}/${round}`;
        const made = await Promise.all(
          Array.from({ length: racers }, (_, racer) => store.putIfAbsent(key, Buffer.from(`racer ${racer}`))),
        );
        assert.equal(made.filter(Boolean).length, 1);
        assert.equal(await text(store.get(key)), `racer ${made.indexOf(true)}`);
        assert.equal(await store.putIfAbsent(key, Buffer.from('late')), false);
      }
    });

    test('passes the probe of a service that starts, and keeps nothing of it', async () => {
      const { store, at } = place();
      await requireOneWinner({ store, prefix: `${at}/` }, 'probe', 'this store');
      assert.deepEqual(await Array.fromAsync(store.list({ prefix: at })), []);
    });

    test('an object that was put is there, whole and in parts, and may be replaced', async () => {
      const { store, at } = place();
      assert.equal(await store.get(at), undefined);
      await store.put(at, Buffer.from('abcdef'));
      assert.equal(await text(store.get(at)), 'abcdef');
      assert.equal(await text(store.get(at, { start: 1, end: 4 })), 'bcd');
      await store.put(at, Buffer.alloc(0));
      assert.equal(await text(store.get(at)), '');
    });

    test('a large file arrives as it is, and is copied', async (t) => {
      const { store, at } = place();
      const path = join(
        temporaryFolder((clean) => t.after(clean)),
        'large',
      );
      const content = randomBytes(20 * 2 ** 20);
      writeFileSync(path, content);
      await store.put(`${at}/large`, { path });
      await store.copy(`${at}/large`, `${at}/copy`);
      assert.ok((await store.get(`${at}/copy`))?.equals(content));
    });

    test('lists what begins with a prefix, in order, and no more than asked for', async () => {
      const { store, at } = place();
      const keys = ['a/1', 'a/2', 'a/b/3', 'ab'].map((key) => `${at}/${key}`);
      for (const key of keys.toReversed()) await store.put(key, Buffer.from(key));
      const listed = await Array.fromAsync(store.list({ prefix: `${at}/a/` }));
      assert.deepEqual(
        listed.map(({ key, bytes }) => ({ key, bytes })),
        keys.slice(0, 3).map((key) => ({ key, bytes: Buffer.byteLength(key) })),
      );
      assert.ok(listed.every(({ modifiedAtMs }) => Math.abs(modifiedAtMs - Date.now()) < 60_000));
      const first = await Array.fromAsync(store.list({ prefix: at, most: 2 }));
      assert.deepEqual(
        first.map(({ key }) => key),
        keys.slice(0, 2),
      );
    });

    test('an object that is replaced has another tag', async () => {
      const { store, at } = place();
      const tag = async () => (await Array.fromAsync(store.list({ prefix: at })))[0]?.tag;
      await store.put(at, Buffer.from('one'));
      const before = await tag();
      await store.put(at, Buffer.from('two'));
      assert.notEqual(await tag(), before);
    });

    test('removes many objects, also some that are not there', async () => {
      const { store, at } = place();
      const keys = Array.from({ length: 20 }, (_, number) => `${at}/${number}`);
      await Promise.all(keys.map((key) => store.put(key, Buffer.from(key))));
      await store.delete([...keys.slice(1), `${at}/never`]);
      const left = await Array.fromAsync(store.list({ prefix: at }));
      assert.deepEqual(
        left.map(({ key }) => key),
        [keys[0]],
      );
      await store.delete([]);
    });
  });
}
