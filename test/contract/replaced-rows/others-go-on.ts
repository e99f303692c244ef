import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, type TestContext, test } from 'node:test';
import type { Table as LanceTable } from '@lancedb/lancedb';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { manifestNames } from '#src/lance-format/manifest/manifest-files.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import type { TableStorage } from '#test/fixtures/table-places.ts';
import {
  addressedRows,
  at,
  dev,
  expectReplaced,
  indexOn,
  isRefused,
  replace,
  replacing,
  rowsFrom,
  tablesOn,
  textsOf,
  trackedRows,
} from './stage.ts';

export function othersGoOn(storage: TableStorage): void {
  const opened = tablesOn(storage);
  describe('what is committed is as the engine makes it: others go on from it', () => {
    const grown = async (t: TestContext) => {
      const table = await opened(t, rowsFrom(0, 20, 'first'));
      const { dataset, tracked } = table;
      await replace(dataset, tracked, at(0, 1, 2), [...rowsFrom(1, 2, 'second'), ...rowsFrom(20, 2, 'second')]);
      await replace(
        dataset,
        tracked,
        [...at(0, 3), ...at(1, 0)],
        [...rowsFrom(3, 1, 'third'), ...rowsFrom(1, 1, 'third')],
      );
      const kept = [...rowsFrom(0, 1, 'first'), ...rowsFrom(1, 1, 'third'), ...rowsFrom(2, 1, 'second')];
      const rest = [...rowsFrom(3, 1, 'third'), ...rowsFrom(4, 16, 'first'), ...rowsFrom(20, 2, 'second')];
      return { ...table, content: textsOf([...kept, ...rest]) };
    };

    test('they merge', async (t) => {
      const { stage, content } = await grown(t);
      const outside = await stage.outside();
      const rows = new Table({
        id: vectorFromArray([1, 30], new Int32()),
        text: vectorFromArray(['theirs', 'theirs'], new Utf8()),
      });
      await outside.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(rows);
      assert.deepEqual(await stage.contents(), [...content.with(1, 'theirs'), 'theirs']);
    });

    test('they delete and update', async (t) => {
      const { stage, content } = await grown(t);
      const outside = await stage.outside();
      await outside.delete('id = 21 OR id = 19');
      await outside.update({ where: 'id IN (0, 2)', values: { text: 'theirs' } });
      const expected = content.with(0, 'theirs').with(2, 'theirs').toSpliced(19, 1).toSpliced(20, 1);
      assert.deepEqual(await stage.contents(), expected);
    });

    test('they compact fragments', async (t) => {
      const { stage, content } = await grown(t);
      const { compaction } = await (await stage.outside()).optimize();
      assert.equal(compaction.fragmentsRemoved, 3);
      assert.deepEqual(await stage.contents(), content);
    });

    test('they remove what no version needs any more, and nothing else', async (t) => {
      const { stage, dataset, content } = await grown(t);
      await (await stage.outside()).optimize({ cleanupOlderThan: new Date(), deleteUnverified: true });
      assert.deepEqual(await stage.contents(), content);
      assert.ok(!existsSync(stage.path('_versions', manifestNames(2)[0])));
      await dataset.refresh();
      const tracked = await trackedRows(dataset);
      const [{ id = 0 } = {}] = (await dataset.layout()).fragments;
      await replace(dataset, tracked, at(id, 0), []);
      assert.equal((await stage.contents()).length, content.length - 1);
    });

    test('they add a column; then what has none of it is refused, and what has it is taken', async (t) => {
      const { stage, dataset, tracked, content } = await grown(t);
      await (await stage.outside()).addColumns([{ name: 'twice', valueSql: 'CAST(id * 2 AS INT)' }]);
      assert.deepEqual(await stage.contents(), content);
      await dataset.refresh();
      assert.equal(tracked.advance(await dataset.version()).isKnown, false);
      const [address] = await stage.rows(undefined, 'id = 4').then((rows) => rows.map((row) => row.address));
      assert.ok(isRefused(await replacing(dataset, tracked, [address!], rowsFrom(4, 1, 'fourth'))));
      const file = ipcFile(
        new Table({
          id: vectorFromArray([4], new Int32()),
          text: vectorFromArray(['fourth 4'], new Utf8()),
          twice: vectorFromArray([-1], new Int32()),
        }),
      );
      expectReplaced(await dataset.replaceRows(tracked, [address!], { file, rows: 1 }));
      assert.deepEqual(await stage.contents(undefined, 'twice = -1'), ['fourth 4']);
      assert.deepEqual(await stage.contents(), content.with(4, 'fourth 4'));
    });

    test('they restore an older version and come back', async (t) => {
      const { stage, content } = await grown(t);
      const outside = await stage.outside();
      await outside.checkout(2);
      await outside.restore();
      const second = [...rowsFrom(0, 1, 'first'), ...rowsFrom(1, 2, 'second'), ...rowsFrom(3, 17, 'first')];
      assert.deepEqual(await stage.contents(), textsOf([...second, ...rowsFrom(20, 2, 'second')]));
      await outside.checkout(3);
      await outside.restore();
      assert.deepEqual(await stage.contents(), content);
    });

    test('they tag it and branch from it', async (t) => {
      const { stage, dataset, tracked, content } = await grown(t);
      const outside = await stage.outside();
      await (await outside.tags()).create('mine', 3);
      await (await outside.branches()).create('dev');
      await replace(dataset, tracked, tracked.rowsOf(0), []);
      assert.deepEqual(await stage.contents(dev), content);
      await outside.checkout('mine');
      assert.deepEqual(await addressedRows(outside).then(textsOf), content);
    });

    const stale: readonly (readonly [
      string,
      (outside: LanceTable) => Promise<unknown>,
      (texts: string[]) => string[],
    ])[] = [
      ['deletes another row of the fragment', (outside) => outside.delete('id = 0'), (texts) => texts.slice(1)],
      [
        'updates the same row and another',
        (outside) => outside.update({ where: 'id IN (4, 5)', values: { text: 'theirs' } }),
        (texts) => texts.with(4, 'theirs').with(5, 'theirs'),
      ],
      ['adds rows', (outside) => outside.add([{ id: 40, text: 'theirs' }]), (texts) => [...texts, 'theirs']],
      ['makes an index', (outside) => indexOn(outside, 'id'), (texts) => texts],
    ];
    for (const [what, commit, change] of stale) {
      test(`a program at the version before ${what}, and both commits are there`, async (t) => {
        const { stage, dataset, tracked, content } = await grown(t);
        const outside = await stage.outside();
        await replace(dataset, tracked, at(0, 4, 10), [...rowsFrom(4, 1, 'fourth'), ...rowsFrom(10, 1, 'fourth')]);
        await commit(outside);
        const expected = change(content.with(4, 'fourth 4').with(10, 'fourth 10'));
        assert.deepEqual(await stage.contents(), expected);
        for (const id of [4, 10]) assert.equal((await stage.rows(undefined, `id = ${id}`)).length, 1);
      });
    }

    test('a program that compacts fragments of the version before loses no row of it (P1)', async (t) => {
      const { stage, dataset, tracked, content } = await grown(t);
      const outside = await stage.outside();
      await replace(dataset, tracked, at(0, 4, 10), [...rowsFrom(4, 1, 'fourth'), ...rowsFrom(10, 1, 'fourth')]);
      await outside.optimize().catch((error: unknown) => assert.match(String(error), /conflict/i));
      assert.deepEqual(await stage.contents(), content.with(4, 'fourth 4').with(10, 'fourth 10'));
    });
  });
}
