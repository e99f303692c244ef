import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { BranchName } from '#src/kernel/ids.ts';
import { namesIn, stagingFolder } from '#src/lance-format/manifest/manifest-files.ts';
import { appendTo, mergeInto } from '#test/fixtures/engine-writes.ts';
import type { TableStorage } from '#test/fixtures/table-places.ts';
import { at, dev, fileOf, location, replace, rowsFrom, tablesOn, textsOf, trackedRows, upsert } from './stage.ts';

export function branchesAreWrittenTo(storage: TableStorage): void {
  const opened = tablesOn(storage);
  // On a store the live rows of a branch are not known while its parent has deletions: it is merged into in a shadow.
  describe('on a branch', () => {
    const branched = async (t: TestContext) => {
      const { stage, dataset } = await opened(t, rowsFrom(0, 5, 'first'));
      await appendTo(dataset, fileOf(rowsFrom(5, 5, 'first')));
      await mergeInto(dataset, upsert, fileOf(rowsFrom(4, 1, 'second')));
      const content = textsOf([...rowsFrom(0, 4, 'first'), ...rowsFrom(4, 1, 'second'), ...rowsFrom(5, 5, 'first')]);
      await dataset.branches.create(dev, { branch: undefined, version: undefined });
      const onBranch = await stage.engine.open({ location, branch: dev });
      t.after(() => onBranch.close());
      return { stage, main: dataset, onBranch, content };
    };

    test('rows of the parent, whose files stay its own, are replaced, and main is as it was', async (t) => {
      const { stage, main, onBranch, content } = await branched(t);
      const before = stage.files();
      const tracked = await trackedRows(onBranch);
      await replace(
        onBranch,
        tracked,
        [...at(0, 0), ...at(1, 1)],
        [...rowsFrom(0, 1, 'dev'), ...rowsFrom(6, 1, 'dev')],
      );
      await replace(
        onBranch,
        tracked,
        [...at(0, 1), ...at(3, 1)],
        [...rowsFrom(1, 1, 'dev'), ...rowsFrom(10, 1, 'dev')],
      );
      const expected = content.with(0, 'dev 0').with(1, 'dev 1').toSpliced(6, 1);
      assert.deepEqual(await stage.contents(dev), [...expected, 'dev 10']);
      assert.equal(await onBranch.countRows(), 10);
      assert.deepEqual(await stage.contents(), content);
      assert.deepEqual(await main.countRows(ownSql("text LIKE 'dev%'")), 0);
      const mainOnly = (files: string[]) => files.filter((file) => !file.startsWith(stage.path('tree')));
      assert.deepEqual(mainOnly(stage.files()), mainOnly(before));
    });

    test('of a branch, whose rows are of three', async (t) => {
      const { stage, onBranch, content } = await branched(t);
      const inner = 'feature/inner' as BranchName;
      const tracked = await trackedRows(onBranch);
      await replace(onBranch, tracked, at(0, 0), [...rowsFrom(0, 1, 'dev'), ...rowsFrom(10, 2, 'dev')]);
      const onDev = [...content.with(0, 'dev 0'), 'dev 10', 'dev 11'];
      await onBranch.branches.create(inner, { branch: dev, version: undefined });
      const innermost = await stage.engine.open({ location, branch: inner });
      t.after(() => innermost.close());
      const rows = await stage.rows(inner);
      const addresses = [1, 4, 7, 10].map((id) => rows.find((row) => row.id === id)?.address ?? assert.fail());
      const trackedInner = await trackedRows(innermost);
      await replace(
        innermost,
        trackedInner,
        addresses,
        [1, 4, 7, 10].map((id) => ({ id, text: `inner ${id}` })),
      );
      await replace(innermost, trackedInner, at(0, 2), []);
      const expected = [1, 4, 7, 10].reduce((texts, id) => texts.with(id, `inner ${id}`), onDev).toSpliced(2, 1);
      assert.deepEqual(await stage.contents(inner), expected);
      assert.deepEqual(await stage.contents(dev), onDev);
      assert.deepEqual(await stage.contents(), content);
      const merged = await mergeInto(innermost, upsert, fileOf(rowsFrom(3, 1, 'merged')));
      assert.deepEqual([merged.numUpdatedRows, merged.numInsertedRows], [1, 0]);
    });

    test('a whole fragment of the parent goes from it, and others can compact the rest', async (t) => {
      const { stage, onBranch, content } = await branched(t);
      const tracked = await trackedRows(onBranch);
      await replace(onBranch, tracked, tracked.rowsOf(0), rowsFrom(0, 1, 'dev'));
      const expected = ['dev 0', ...content.slice(4)];
      assert.deepEqual(await stage.contents(dev), expected);
      await (await stage.outside(dev)).optimize();
      assert.deepEqual(await stage.contents(dev), expected);
      assert.deepEqual(await stage.contents(), content);
    });

    test('a branch that is made again under its name begins anew', async (t) => {
      const { stage, main, onBranch, content } = await branched(t);
      await replace(onBranch, await trackedRows(onBranch), at(0, 0), rowsFrom(0, 1, 'dev'));
      await main.branches.delete(dev);
      assert.deepEqual(namesIn(stage.path('tree', 'dev')), []);
      await main.branches.create(dev, { branch: undefined, version: undefined });
      const again = await stage.engine.open({ location, branch: dev });
      t.after(() => again.close());
      await replace(again, await trackedRows(again), at(0, 1), rowsFrom(1, 1, 'again'));
      assert.deepEqual(await stage.contents(dev), content.with(1, 'again 1'));
    });

    test('no branch can be in the folder where rows are staged (P1)', async (t) => {
      const { main } = await branched(t);
      const inner = `dev/${basename(stagingFolder('/x'))}` as BranchName;
      await assert.rejects(main.branches.create(inner, { branch: undefined, version: undefined }), {
        kind: 'InvalidInput',
      });
    });
  });
}
