import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { manifestNames, namesIn, stagingFolder } from '#src/lance-format/manifest/manifest-files.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import type { TableStorage } from '#test/fixtures/table-places.ts';
import { eventually } from '#test/http/eventually.ts';
import { numbersFrom } from '#test/http/wide-table.ts';
import {
  at,
  dev,
  fileOf,
  location,
  replace,
  replacing,
  rowsFrom,
  tablesOn,
  textsOf,
  trackedRows,
  upsert,
} from './stage.ts';

export function failuresLeaveNothing(storage: TableStorage): void {
  const opened = tablesOn(storage);
  describe('manifests named by their version, as early releases of Lance did', () => {
    test('are followed by others named so', async (t) => {
      const { stage, dataset } = await opened(t, rowsFrom(0, 3, 'first'));
      dataset.close();
      const [newName, oldName] = manifestNames(1);
      renameSync(stage.path('_versions', newName), stage.path('_versions', oldName));
      rmSync(stage.path('_versions', 'latest_version_hint.json'), { force: true });
      const reopened = await stage.engine.open({ location });
      t.after(() => reopened.close());
      const tracked = await trackedRows(reopened);
      await replace(reopened, tracked, at(0, 0), rowsFrom(0, 1, 'second'));
      await replace(reopened, tracked, at(0, 1), rowsFrom(1, 1, 'third'));
      const names = readdirSync(stage.path('_versions')).filter((name) => name.endsWith('.manifest'));
      assert.deepEqual(names.sort(), ['1.manifest', '2.manifest', '3.manifest']);
      assert.deepEqual(await stage.contents(), ['second 0', 'third 1', 'first 2']);
      await (await stage.outside()).delete('id = 2');
      await reopened.refresh();
      assert.equal(await reopened.version(), 4);
      assert.deepEqual(await stage.contents(), ['second 0', 'third 1']);
    });
  });

  describe('what fails in the middle leaves the newest version as it was, and no file (P1, P6)', () => {
    /** A file takes the place of the folder while `run` does. */
    const without = async (folder: string, run: () => Promise<void>): Promise<void> => {
      renameSync(folder, `${folder} elsewhere`);
      writeFileSync(folder, '');
      await run().finally(() => {
        rmSync(folder);
        renameSync(`${folder} elsewhere`, folder);
      });
    };

    for (const folder of ['_deletions', 'data', '_transactions', '_versions']) {
      test(`where nothing can be written to ${folder}`, async (t) => {
        const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
        await replace(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'second'));
        const before = stage.files();
        const content = await stage.contents();
        await without(stage.path(folder), async () => {
          await assert.rejects(replacing(dataset, tracked, [...at(0, 1), ...at(1, 0)], rowsFrom(0, 2, 'third')), {
            kind: 'Internal',
          });
        });
        await stage.requireFiles(before);
        assert.deepEqual(await stage.contents(), content);
        assert.equal(await dataset.version(), 2);
        assert.deepEqual([...tracked.rowsOf(0), ...tracked.rowsOf(1)], [...at(0, 1, 2, 3, 4), ...at(1, 0)]);
        await mergeInto(dataset, upsert, fileOf(rowsFrom(0, 1, 'merged')));
        await replace(dataset, await trackedRows(dataset), at(0, 1), rowsFrom(1, 1, 'fourth'));
        assert.deepEqual(await stage.contents(undefined, 'id < 3'), ['merged 0', 'fourth 1', 'first 2']);
      });
    }

    test('where nothing can be staged at first, and later it can', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
      const before = stage.files();
      writeFileSync(stage.path(basename(stagingFolder('/x'))), '');
      await assert.rejects(replacing(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'second')), { kind: 'Internal' });
      rmSync(stage.path(basename(stagingFolder('/x'))));
      await stage.requireFiles(before);
      await replace(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'third'));
      assert.deepEqual(await stage.contents(undefined, 'id = 0'), ['third 0']);
    });

    test('where the file is none that the engine takes', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
      const before = stage.files();
      const chunk = { file: Buffer.from('ARROW1') as IpcFile, rows: 1 };
      await assert.rejects(dataset.replaceRows(tracked, at(0, 0), chunk));
      await stage.requireFiles(before);
      assert.equal(await dataset.countRows(), 5);
      await replace(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'second'));
      assert.equal(await dataset.countRows(), 5);
    });
  });

  describe('rows that were on their way when the process ended', () => {
    const leave = (folder: string): string => {
      const path = join(folder, basename(stagingFolder('/x')), 'x.lance', 'data');
      mkdirSync(path, { recursive: true });
      writeFileSync(join(path, 'x.lance'), 'half a file');
      return join(folder, basename(stagingFolder('/x')));
    };

    test('are removed by recovery, of the table and of a branch', async (t) => {
      const { stage, dataset } = await opened(t, rowsFrom(0, 5, 'first'));
      await dataset.branches.create(dev, { branch: undefined, version: undefined });
      const { storageSession } = stage.engine;
      const [ofMain, ofBranch] = [leave(stage.path()), leave(stage.path('tree', dev))];
      await stage.engine.recover({ location, branch: dev, acknowledgedVersion: 1, storageSession });
      assert.deepEqual([existsSync(ofMain), existsSync(ofBranch)], [true, false]);
      const recovery = await stage.engine.recover({
        location,
        branch: undefined,
        acknowledgedVersion: 1,
        storageSession,
      });
      assert.deepEqual([existsSync(ofMain), recovery.version, recovery.removed], [false, 1, []]);
      assert.deepEqual(await stage.contents(), textsOf(rowsFrom(0, 5, 'first')));
    });

    test('do no harm until then, and those that arrive leave nothing behind', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
      const left = leave(stage.path());
      for (const round of numbersFrom(0, 5))
        await replace(dataset, tracked, at(round, 0), rowsFrom(round, 1, 'second'));
      await eventually('all that was staged is gone', () => namesIn(left).every((name) => name === 'x.lance'));
      const expected = [...rowsFrom(1, 4, 'first'), ...rowsFrom(4, 1, 'second')];
      assert.deepEqual(await stage.contents(), textsOf(expected));
    });

    test('and while they are on their way, a dataset that is opened shows nothing of them', async (t) => {
      const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
      leave(stage.path());
      assert.deepEqual(await (await connect(stage.root)).tableNames(), ['t']);
      await (await stage.outside()).optimize({ cleanupOlderThan: new Date(), deleteUnverified: true });
      tracked.advance(await dataset.version());
      await replace(dataset, tracked, at(0, 0), rowsFrom(0, 1, 'second'));
      assert.equal((await stage.contents()).length, 5);
    });
  });

  test('the hint of the newest version names it', async (t) => {
    const { stage, dataset, tracked } = await opened(t, rowsFrom(0, 5, 'first'));
    const hint = stage.path('_versions', 'latest_version_hint.json');
    await replace(dataset, tracked, at(0, 0), []);
    assert.deepEqual(JSON.parse(readFileSync(hint, 'utf8')), { version: 2 });
    await appendTo(dataset, fileOf(rowsFrom(5, 1, 'engine')));
    assert.deepEqual(JSON.parse(readFileSync(hint, 'utf8')), { version: 3 });
    writeFileSync(hint, '{"version":18446744073709551615}');
    tracked.advance(3);
    await replace(dataset, tracked, at(0, 1), []);
    assert.deepEqual(JSON.parse(readFileSync(hint, 'utf8')), { version: 4 }, 'nothing is left of a longer one');
  });
}
