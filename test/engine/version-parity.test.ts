/**
 * Versions that this service makes without the engine are what the engine makes: of a restore, an append and an overwrite of
 * several fragments, and of metadata. With `LANCEGATE_PARITY` set to a folder, the tables stay there for
 * `test/clients/shadow_parity.py`.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connectNative, newSession } from '#src/engine/lance/native/native.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import { restoredVersion, schemaMetadataVersion } from '#src/lance-format/manifest/manifest-changes.ts';
import { branchFolder, listVersions, manifestNames, readManifest } from '#src/lance-format/manifest/manifest-files.ts';
import { type NewVersion, nextManifest } from '#src/lance-format/manifest/next-manifest.ts';
import { parseManifest, sectionsOf } from '#src/lance-format/manifest/parse-manifest.ts';
import { NotReplaceable } from '#src/lance-format/manifest/replaceable.ts';
import { manifest, mapEntry } from '#src/lance-format/messages.ts';
import { decode } from '#src/lance-format/protobuf.ts';
import { type LiftedFile, overwriteVersion } from '#src/lance-format/shadow/lifted-version.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { type AnyTable, build, contentOf, file, kinds, newestOf, open, partial, upsert } from './parity-tables.ts';
import { plainManifest } from './plain-manifest.ts';

const identity = () => ({ transactionId: randomUUID(), committedAtMs: Date.now() });

function commit(dataset: string, next: NewVersion): void {
  mkdirSync(join(dataset, '_transactions'), { recursive: true });
  writeFileSync(join(dataset, '_transactions', next.transactionFile), next.transaction);
  writeFileSync(join(dataset, '_versions', manifestNames(next.version)[0]), next.bytes, { flag: 'wx' });
}

function move(from: string, to: string, files: readonly LiftedFile[]): void {
  for (const each of files) {
    mkdirSync(dirname(join(to, each.to)), { recursive: true });
    renameSync(join(from, each.from), join(to, each.to));
  }
}

/** Of one fragment for each file. */
async function staged(folder: string, files: readonly Buffer[]): Promise<{ path: string; bytes: Buffer }> {
  const [first = Buffer.of(), ...others] = files;
  const table = await (await connectNative(folder, {}, newSession(0, 0), true)).createTable(
    'staged',
    first,
    'create',
    [],
  );
  for (const each of others) await table.add(each, 'append');
  const path = join(folder, 'staged.lance');
  return { path, bytes: newestOf(path) };
}

const manifestOf = (dataset: string, version: number): Buffer =>
  readManifest(join(dataset, '_versions'), version)?.bytes ?? assert.fail(`no version ${version}`);

const schemaMetadataOf = (bytes: Buffer) =>
  Object.fromEntries(
    (decode(manifest, sectionsOf(bytes).message).schemaMetadata ?? []).map((each) => {
      const { key = '', value = '' } = decode(mapEntry, each);
      return [key, value];
    }),
  );

const keptFolder = process.env.LANCEGATE_PARITY;

for (const [name, kind] of Object.entries(kinds)) {
  describe(`on ${name}`, () => {
    const saved = join(temporaryFolder(after), 'saved');
    const folder = keptFolder === undefined ? join(dirname(saved), 'ö %') : join(keptFolder, name);
    const dataset = branchFolder(join(folder, 't.lance'), kind.branch);
    before(async () => {
      mkdirSync(folder, { recursive: true });
      await build(folder, kind);
      cpSync(folder, saved, { recursive: true });
    });

    async function resultOf(run: (dataset: string, table: AnyTable) => Promise<unknown>, kept?: string) {
      rmSync(folder, { recursive: true });
      cpSync(saved, folder, { recursive: true });
      const base = kind.hasRowIds ? parseManifest(newestOf(dataset)).version : undefined;
      await run(dataset, await open(folder, kind.branch));
      const table = await open(folder, kind.branch);
      const all = await contentOf(table, undefined, base);
      const found = await contentOf(table, ownSql('id < 20 OR id IN (1500, 9000)'), base);
      if (keptFolder !== undefined && kept !== undefined)
        cpSync(folder, join(keptFolder, 'results', name, kept), { recursive: true });
      return { all, found, bytes: newestOf(dataset), ...plainManifest(newestOf(dataset)) };
    }

    test('a restore is what the engine makes of it', async () => {
      const versions = await resultOf(async () => {}).then(() => listVersions(join(dataset, '_versions')));
      assert.ok(versions.length > 1);
      for (const version of versions) {
        const title = `a restore of version ${version}`;
        const { bytes: _, ...ofEngine } = await resultOf(async (__, table) => {
          await table.checkout(version);
          await table.restore();
        }, `${title}/engine`);
        const { bytes: __, ...ours } = await resultOf(async (at) => {
          commit(at, restoredVersion(newestOf(at), manifestOf(at, version), identity()));
        }, `${title}/shadow`);
        assert.deepEqual(ours, ofEngine, title);
      }
    });

    test('after a restore no fragment gets an id that a later version has used', async () => {
      const { bytes } = await resultOf(async (at, table) => {
        const [first = 0] = listVersions(join(at, '_versions'));
        await table.add(file([70_000], 'later'), 'append');
        const used = parseManifest(newestOf(at)).fragments.map(({ id }) => id);
        commit(at, restoredVersion(newestOf(at), manifestOf(at, first), identity()));
        const restored = parseManifest(newestOf(at)).fragments.map(({ id }) => id);
        await (await open(folder, kind.branch)).add(file([80_000], 'on top'), 'append');
        const added = parseManifest(newestOf(at)).fragments.filter(({ id }) => !restored.includes(id));
        assert.equal(added.length, 1);
        assert.ok(!used.includes(added[0]!.id), `fragment ${added[0]!.id}`);
      });
      assert.equal(parseManifest(bytes).version, listVersions(join(dataset, '_versions')).at(-1));
    });

    const changes: Readonly<Record<string, (table: AnyTable) => Promise<unknown>>> = {
      'an append of several fragments': async () => {},
      'an append to a table with a primary key': (table) => table.setUnenforcedPrimaryKey(['id']),
      'an append after columns came and went': async (table) => {
        await table.alterColumns([{ path: 'v', dataType: 'large_string' }]);
        await table.alterColumns([{ path: 'v', dataType: 'string' }]);
        await table.addColumns([{ name: 'twice', valueSql: 'n * 2' }]);
        await table.dropColumns(['n']);
        await table.alterColumns([{ path: 'twice', rename: 'n' }]);
        await table.updateFieldMetadata([{ path: 'n', metadata: { unit: 'm' } }]);
      },
    };
    for (const [title, change] of Object.entries(changes)) {
      test(`${title} is what the engine makes of it`, async () => {
        const files = [file([70_000, 70_001], 'a'), file([70_002], 'b')];
        const { bytes: _, ...ofEngine } = await resultOf(async (__, table) => {
          await change(table);
          for (const each of files) await table.add(each, 'append');
        }, `${title}/engine`);
        const { bytes, ...ours } = await resultOf(async (at, table) => {
          await change(table);
          const { path, bytes: rows } = await staged(folder, files);
          const append = { deletions: new Map(), staged: rows, isAppend: true };
          const next = nextManifest(newestOf(at), { ...append, ...identity() });
          if (title.endsWith('a primary key'))
            assert.throws(
              () => nextManifest(newestOf(at), { ...append, isAppend: false, ...identity() }),
              NotReplaceable,
            );
          const data = parseManifest(rows).files.filter(({ kind: of }) => of === 'data');
          const moved = data.map((each) => `data/${each.path}`);
          move(
            path,
            at,
            moved.map((each) => ({ from: each, to: each })),
          );
          commit(at, next);
          assert.equal(next.fragments.length, 2);
        }, `${title}/shadow`);
        assert.deepEqual([ours.all, ours.found, ours.indexes], [ofEngine.all, ofEngine.found, ofEngine.indexes]);
        // Fragments say which version created their rows.
        const ofVersions = kind.hasRowIds ? /^[23]:/ : /^3:/;
        const withoutVersion = (fields: readonly string[]) => fields.filter((field) => !ofVersions.test(field));
        assert.deepEqual(withoutVersion(ours.manifest), withoutVersion(ofEngine.manifest));
        assert.match(String(ours.transaction), /100: /);
        assert.equal(parseManifest(bytes).version, listVersions(join(dataset, '_versions')).at(-1));
      });
    }

    for (const [title, files] of Object.entries({
      'an overwrite of two fragments': [file([1, 2, 9_000], 'a'), file([3], 'b')],
      'an overwrite of other columns': [partial(1, 2, 9_000), partial(3)],
    })) {
      test(`${title} is what the engine makes of one, save for the ids of fragments`, async () => {
        const ofEngine = await resultOf(async (_, table) => {
          await table.add(files[0]!, 'overwrite');
          await (await open(folder, kind.branch)).add(files[1]!, 'append');
        }, `${title}/engine`);
        const usedIds: number[] = [];
        const ours = await resultOf(async (at) => {
          const rows = await staged(folder, files);
          usedIds.push(...parseManifest(newestOf(at)).fragments.map(({ id }) => id));
          const { files: moved, ...next } = overwriteVersion(newestOf(at), rows.bytes, identity());
          move(rows.path, at, moved);
          commit(at, next);
        }, `${title}/shadow`);
        assert.deepEqual([ours.all, ours.found, ours.indexes], [ofEngine.all, ofEngine.found, ofEngine.indexes]);
        const columnsAndFlags = (fields: readonly string[]) =>
          fields.filter((each) => /^(1|5|9|10|14|15|16|18|19|20):/.test(each));
        assert.deepEqual(columnsAndFlags(ours.manifest), columnsAndFlags(ofEngine.manifest));
        const ids = parseManifest(ours.bytes).fragments.map(({ id }) => id);
        assert.equal(ids.length, 2);
        assert.ok(Math.min(...ids) > Math.max(...usedIds));
        assert.match(String(ours.transaction), /102: /);
      });
    }

    test('metadata of the schema is changed as a whole, and the engine keeps it', async () => {
      const { bytes } = await resultOf(async (at) => {
        commit(at, schemaMetadataVersion(newestOf(at), { a: '1', b: 'ö' }, identity()));
        commit(at, schemaMetadataVersion(newestOf(at), { only: 'ö', '': 'empty' }, identity()));
        await upsert(await open(folder, kind.branch)).execute(file([5, 9_000], 'kept'));
        await (await open(folder, kind.branch)).delete(ownSql('id = 5'));
      });
      assert.deepEqual(schemaMetadataOf(bytes), { only: 'ö', '': 'empty' });
    });
  });
}
