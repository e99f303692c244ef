/** What a reader makes of the rows that differ between two versions, a part of them at a time. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Int32, Table, Utf8, vectorFromArray } from 'apache-arrow';
import type { IpcFile } from '#src/arrow/format/ipc-file.ts';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import { noLimits } from '#src/engine/port/change-limits.ts';
import type { Dataset, RowsOfFragment } from '#src/engine/port/dataset.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { Location } from '#src/kernel/ids.ts';
import { changedRows } from '#src/query/row-changes.ts';
import { ipcFile, rowsOf } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';
import { numbersFrom } from '#test/http/wide-table.ts';

const location = 't.lance' as Location;
const mebibyte = 2 ** 20;

const texts = (ids: readonly number[], text: string): IpcFile =>
  ipcFile(
    new Table({
      id: vectorFromArray([...ids], new Int32()),
      text: vectorFromArray(
        ids.map(() => text),
        new Utf8(),
      ),
    }),
  );

/** A table of so many rows: one in ten was deleted, and of the others those of the first half were updated. */
async function changedTable(t: TestContext, count: number, text: string) {
  const engine = engineIn(temporaryFolder((clean) => t.after(clean)));
  const later = await createDataset(engine, location, texts(numbersFrom(0, count), text), {});
  t.after(() => later.close());
  const earlier = await engine.open({ location, version: await later.version() });
  t.after(() => earlier.close());
  const updated = numbersFrom(0, count / 2).filter((id) => id % 10 > 0);
  await mergeInto(later, upsertOn('id'), texts(updated, `${text}!`));
  await later.change({ kind: 'delete', where: ownSql('id % 10 = 0') }, undefined, noLimits);
  return { earlier, later };
}

async function changesOf(later: Dataset, earlier: Dataset, after: number, keysAtOnce?: number): Promise<string[]> {
  const { removed, added } = (await later.rowsBetween(after, await later.version())) ?? assert.fail('no rows');
  const listed = (rows: RowsOfFragment & { readonly version?: number }) => ({
    fragment: rows.fragment,
    count: rows.count,
    isListed: rows.offsets !== undefined,
    version: rows.version ?? 0,
  });
  const sent = Buffer.concat(
    [...removed, ...added].map(({ offsets }) => new Uint8Array(offsets?.slice().buffer ?? new ArrayBuffer(0))),
  );
  const on = [parseFieldPath('id')];
  const spec = { after, columns: undefined, on, removed: removed.map(listed), added: added.map(listed) };
  const files = await Array.fromAsync(changedRows(later, earlier, spec, sent, keysAtOnce));
  return files.flatMap((file) => rowsOf(file)).map(({ _change, id }) => `${_change} ${id}`);
}

describe('changed rows in a reader', () => {
  test('are the same whether their keys are compared at once or a part at a time (P7)', async (t) => {
    const { later, earlier } = await changedTable(t, 1_000, 'x');
    const first = await earlier.version();
    const at = async (keysAtOnce?: number) => (await changesOf(later, earlier, first, keysAtOnce)).sort();
    const all = await at();
    const expected = numbersFrom(0, 1_000).flatMap((id) => {
      if (id % 10 === 0) return `delete ${id}`;
      return id < 500 ? `update ${id}` : [];
    });
    assert.deepEqual(all, expected.sort());
    assert.deepEqual(await at(70), all);
  });

  test('are read a few at a time where they are long (P7)', async (t) => {
    const { later } = await changedTable(t, 40, 'x'.repeat(mebibyte));
    const parts: number[] = [];
    const watched = replacing<Dataset>(later, {
      take: (rows, columns) => {
        parts.push(rows.length);
        return later.take(rows, columns);
      },
    });
    assert.equal((await changesOf(watched, later, 0)).length, 36);
    assert.ok(Math.max(...parts) <= 16, `${parts.join(', ')} rows at once`);
  });
});
