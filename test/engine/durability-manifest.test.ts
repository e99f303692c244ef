import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { connect, Index, type Table } from '@lancedb/lancedb';
import {
  indexFolders,
  listVersions,
  manifestNames,
  readManifest,
  storedFiles,
  versionOfManifestName,
} from '#src/lance-format/manifest/manifest-files.ts';
import { parseManifest } from '#src/lance-format/manifest/parse-manifest.ts';
import { MalformedFile, WireReader } from '#src/lance-format/protobuf.ts';
import { bytesOfBitmap } from '#src/lance-format/roaring.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { Random } from '#test/model/random.ts';

const rows = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: from + index, name: `row ${from + index}`, group: index % 7 }));

/** A table that has been through everything that puts files into a version. */
async function eventfulTable(folder: string): Promise<Table> {
  const database = await connect(folder);
  const table = await database.createTable('t', rows(0, 20_000));
  await table.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(rows(19_990, 20));
  await table.delete('id % 3 = 0');
  await table.createIndex('id', { config: Index.btree() });
  await table.addColumns([{ name: 'twice', valueSql: 'id * 2' }]);
  await table.add(rows(30_000, 5).map((row) => ({ ...row, twice: 1 })));
  await table.dropColumns(['group']);
  await table.optimize();
  await table.delete('id < 100');
  return table;
}

const filesBelow = (folder: string, name: string): string[] =>
  readdirSync(join(folder, name), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

function namedBy(folder: string): Set<string> {
  const versions = listVersions(join(folder, '_versions'));
  return new Set(
    versions.flatMap((version) => {
      const manifest = parseManifest(readManifest(join(folder, '_versions'), version)?.bytes as Buffer);
      assert.equal(manifest.version, version);
      assert.deepEqual(indexFolders(manifest, folder), []);
      const files = storedFiles(manifest, folder);
      for (const { kind, path, sizeBytes } of files) {
        assert.ok(existsSync(path), path);
        if (kind === 'data' || kind === 'index') assert.equal(statSync(path).size, sizeBytes, path);
        if (kind === 'transaction') assert.ok(manifest.transaction && readFileSync(path).equals(manifest.transaction));
        if (path.endsWith('.bin')) assert.equal(bytesOfBitmap(readFileSync(path)), statSync(path).size);
      }
      return files.map(({ path }) => path);
    }),
  );
}

describe('a manifest', () => {
  test('names every file that is there, by its size, and no other, over all versions of a table', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    await eventfulTable(folder);
    const dataset = join(folder, 't.lance');
    const there = ['data', '_deletions', '_transactions', '_indices'].flatMap((name) => filesBelow(dataset, name));
    const named = namedBy(dataset);
    assert.deepEqual([...named].sort(), there.sort());
    for (const ending of ['.lance', '.arrow', '.bin', '.txn']) {
      assert.ok(
        there.some((path) => path.endsWith(ending)),
        `the table has a file ${ending}`,
      );
    }
  });

  test('of a branch names files of its own and those of the table it comes from', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    const table = await eventfulTable(folder);
    const branch = await (await table.branches()).create('a/b');
    await branch.add([{ id: -1, name: 'x', twice: 0 }]);
    await branch.delete('id < 200');
    const named = [...namedBy(join(folder, 't.lance', 'tree', 'a', 'b'))];
    const own = named.filter((path) => path.includes('/tree/a/b/'));
    assert.ok(own.some((path) => path.endsWith('.lance')) && named.length > own.length);
  });

  test('that is cut short or altered is malformed or names other files, and nothing worse', async (t) => {
    const folder = temporaryFolder((clean) => t.after(clean));
    await eventfulTable(folder);
    const versions = join(folder, 't.lance', '_versions');
    const whole = readManifest(versions, listVersions(versions).at(-1) ?? 0)?.bytes as Buffer;
    for (let length = 0; length < whole.length; length += 7) {
      assert.throws(() => parseManifest(whole.subarray(0, length)), MalformedFile);
    }
    const random = new Random(1);
    for (let nth = 0; nth < 3_000; nth += 1) {
      const altered = Buffer.from(whole);
      for (let change = 0; change <= random.int(4); change += 1) altered[random.int(whole.length)] = random.int(256);
      try {
        storedFiles(parseManifest(altered), folder);
      } catch (error) {
        assert.ok(error instanceof MalformedFile, String(error));
      }
    }
  });

  test('has its version in its name, in either of two ways', () => {
    for (const version of [1, 2, 1_000_000, Number.MAX_SAFE_INTEGER]) {
      assert.deepEqual(manifestNames(version).map(versionOfManifestName), [version, version]);
    }
    for (const other of [
      'latest_version_hint.json',
      '1.manifest#1',
      'd1.manifest',
      '.tmp1',
      '99999999999999999999.manifest',
    ]) {
      assert.equal(versionOfManifestName(other), undefined, other);
    }
  });
});

describe('a protobuf message', () => {
  test('gives its numbers exactly, up to 64 bits', () => {
    const largest = Buffer.from('08ffffffffffffffffff01', 'hex');
    const reader = new WireReader(largest);
    assert.equal(reader.next(), 1);
    assert.equal(reader.uint64(), 2n ** 64n - 1n);
    assert.equal(reader.next(), undefined);
    const tooLarge = new WireReader(largest);
    tooLarge.next();
    assert.throws(() => tooLarge.number(), /out of range/);
  });

  test('with a length past its end, an endless number or a group is malformed', () => {
    for (const [hex, why] of [
      ['0a05ab', /longer than/],
      ['0affffffffffffff7f', /longer than/],
      ['08ffffffffffffffffffff01', /does not end/],
      ['08ff', /ends early/],
      ['0b', /wire type 3/],
      ['00', /without a number/],
      ['0d0000', /longer than/],
    ] as const) {
      const read = () => {
        const reader = new WireReader(Buffer.from(hex, 'hex'));
        while (reader.next() !== undefined) reader.skip();
      };
      assert.throws(read, why, hex);
    }
  });
});
