/** What each storage must do with the files of a table that was dropped and may come back. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Location, TableId } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { mergeInto } from '#test/fixtures/engine-writes.ts';
import { upsertOn } from '#test/fixtures/upsert.ts';

const table = (...ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });

interface Opened {
  readonly engine: LanceEngine;
  readonly storage: 'file system' | 'object store';
}

export function setAsideContract(
  open: (t: { after(clean: () => void): void }) => Opened | Promise<Opened>,
  place: () => Location,
): void {
  test('a dataset that is set aside leaves its folder where files can be moved, and comes back whole, once', async (t) => {
    const { engine, storage } = await open(t);
    const at = place();
    const id = randomUUID() as TableId;
    (await createDataset(engine, at, ipcFile(table(1, 2)), {})).close();
    const aside = await engine.setAside(at, id);
    assert.equal(await engine.setAside(at, id), aside);
    assert.deepEqual(
      [aside === at, await engine.isVacant(at)],
      storage === 'file system' ? [false, true] : [true, false],
    );
    await engine.bringBack(at, id);
    await engine.bringBack(at, id);
    const dataset = await engine.open({ location: at });
    assert.equal(await dataset.countRows(), 2);
    await mergeInto(dataset, upsertOn('id'), ipcFile(table(2, 3)));
    assert.equal(await dataset.countRows(), 3);
    dataset.close();
    await engine.remove(await engine.setAside(at, id));
    assert.ok((await engine.isVacant(at)) && (await engine.isVacant(aside)));
  });
}
