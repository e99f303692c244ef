import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { TableRecord } from '#src/catalog/port.ts';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import type { Location, ObjectName } from '#src/kernel/ids.ts';
import { describeTable } from '#src/operations/tables/describe-table.ts';
import { OpenDatasets } from '#src/table/open-datasets.ts';
import { TableAccess } from '#src/table/table-access.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

test('a table is described at one version, also if another program changes its columns meanwhile (P11)', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const engine = new LanceEngine({
    root: join(folder, 'tables'),
    rootOptions: {},
    scratchFolder: join(folder, 'scratch'),
    indexCacheBytes: 1 << 24,
    metadataCacheBytes: 1 << 24,
  });
  const location = 't.lance' as Location;
  const dataset = await createDataset(
    engine,
    location,
    ipcFile(new Table({ id: vectorFromArray([1], new Int32()) })),
    {},
  );
  t.after(() => dataset.close());
  let isChanged = false;
  const changing = replacing(dataset, {
    schema: async () => {
      if (!isChanged) {
        isChanged = true;
        const table = await (await connect(join(folder, 'tables'))).openTable('t');
        await table.addColumns([{ name: 'more', valueSql: 'id + 1' }]);
        await dataset.refresh();
      }
      return dataset.schema();
    },
  });
  const record = {
    ref: { namespace: [], name: 't' as ObjectName },
    state: 'created',
    location,
  } as unknown as TableRecord;
  const datasets = replacing(new OpenDatasets(engine, 1), { latest: async () => changing });
  const access = replacing(new TableAccess({} as never, engine, datasets, (read) => read()), {
    find: async () => record,
  });
  const { created } = await describeTable({ access, managesVersions: false })({
    table: record.ref,
    branch: undefined,
    version: undefined,
  });
  assert.deepEqual([created?.version, created?.schema.fields.map(({ name }) => name)], [2, ['id', 'more']]);
});
