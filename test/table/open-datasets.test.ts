import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { Engine, OpenRequest } from '#src/engine/port/engine.ts';
import { OpenDatasets } from '#src/table/open-datasets.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { appendTo } from '#test/fixtures/engine-writes.ts';
import { publishTable } from '#test/fixtures/published-table.ts';
import { replacing } from '#test/fixtures/replacing.ts';

const rows = (...ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });

test('a dataset is kept open and follows its newest version (P8)', async (t) => {
  const { engine, dataset: outside, location } = await publishTable(t, rows(1));
  let opened = 0;
  const open = (request: OpenRequest): Promise<Dataset> => {
    opened += 1;
    return engine.open(request);
  };
  const datasets = new OpenDatasets(replacing<Engine>(engine, { open }), 10);
  const first = await datasets.latest(location, undefined);
  await appendTo(outside, ipcFile(rows(2)));
  assert.equal(await datasets.latest(location, undefined), first);
  assert.equal(await first.countRows(), 2);
  assert.equal(opened, 1);
});

test('a dataset opened after another was forgotten is of another lineage (P4)', async (t) => {
  const { engine, location } = await publishTable(t, rows(1));
  const datasets = new OpenDatasets(engine, 10);
  const first = await datasets.latest(location, undefined);
  datasets.forget(location);
  assert.notEqual((await datasets.latest(location, undefined)).lineage, first.lineage);
});
