import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import { parseFieldPath } from '#src/arrow/schema/field-path.ts';
import type { Dataset, Engine, OpenRequest } from '#src/engine/port/engine.ts';
import { Upkeep } from '#src/maintenance/act/upkeep.ts';
import { Maintenance } from '#src/maintenance/maintenance.ts';
import { RecoveryMarks } from '#src/table/recovery-marks.ts';
import { TableLocks } from '#src/table/table-locks.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { Metrics } from '#src/telemetry/metrics.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { publishTable } from '#test/fixtures/published-table.ts';
import { replacing } from '#test/fixtures/replacing.ts';
import { eventually } from '#test/http/eventually.ts';
import { AdvancingClock } from './advancing-clock.ts';

const numbers = (count: number, from = 0): number[] => Array.from({ length: count }, (_, i) => from + i);
const rows = (ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });
const onId = [parseFieldPath('id')];

/** A table of 100 rows that is looked after; `beside` is done right after an index was built. */
async function watchedTable(
  t: TestContext,
  beside: (commits: () => Promise<void>) => Promise<void> = async () => undefined,
  hasRoom = true,
) {
  const { catalog, engine, dataset, ref, tableId, location } = await publishTable(t, rows(numbers(100)));
  const inMemory: string[] = [];
  let nextId = 100;
  const commit = async (): Promise<void> => {
    await dataset.refresh();
    await dataset.append(ipcFile(rows([nextId++])));
    const version = await dataset.version();
    maintenance.committed({
      table: ref,
      tableId,
      branch: undefined,
      location,
      on: onId,
      engineMs: 1,
      gainsByIndex: true,
      isPlaced: false,
      mostFragments: Number.POSITIVE_INFINITY,
      version,
    });
  };
  const open = async (request: OpenRequest): Promise<Dataset> => {
    const opened = await engine.open(request);
    return replacing(opened, {
      // As on object stores: nothing is put together beside the writers.
      layout: async () => {
        const layout = await opened.layout();
        return {
          ...layout,
          fragments: layout.fragments.map(({ rows: of, deletedRows }) => ({ rows: of, deletedRows })),
        };
      },
      createScalarIndex: async (column: string) => {
        await opened.createScalarIndex(column);
        await beside(commit);
      },
      warmIndex: async (column: string) => {
        inMemory.push(column);
        return hasRoom && (await opened.warmIndex(column));
      },
    });
  };
  const watchedEngine = replacing<Engine>(engine, { open });
  const recoveryMarks = new RecoveryMarks({ catalog, engine: watchedEngine });
  const log: string[] = [];
  const clock = new AdvancingClock();
  const maintenance = new Maintenance({
    upkeep: new Upkeep({ catalog, engine: watchedEngine, locks: new TableLocks(10), recoveryMarks }),
    clock,
    logger: createLogger({ level: 'info', format: 'json', destination: { write: (line) => log.push(line) } }),
    metrics: new Metrics(),
    limits: { isAutomatic: true, retentionMs: 60_000, maxWaitMs: 60_000, indexFromRows: 100 },
  });
  t.after(() => maintenance.close());
  const reasons = (): unknown[] => log.map((line) => (JSON.parse(line) as { reason?: unknown }).reason);
  return { clock, commit, reasons, dataset, inMemory, log };
}

test('what is committed while the first index is built counts as not in it (P8)', async (t) => {
  let builds = 0;
  const { clock, commit, reasons, inMemory } = await watchedTable(t, async (commitOne) => {
    builds += 1;
    if (builds === 1) for (const _ of numbers(30)) await commitOne();
  });
  for (const _ of numbers(2)) await commit();
  await eventually('the index is built', () => reasons().includes('merges on the column'));
  clock.advance(2_000);
  // Each reads the keys of thirty fragments; without them it would take sixteen commits to be worth another build.
  for (const _ of numbers(4)) await commit();
  await eventually('it is built anew', () => reasons().includes('slower'));
  assert.deepEqual(reasons(), ['merges on the column', 'slower']);
  assert.deepEqual(inMemory, ['id', 'id'], 'each is read into memory at once');
});

test('an index that was there before is read into memory when merges begin, once (P8)', async (t) => {
  const { clock, commit, reasons, dataset, inMemory } = await watchedTable(t);
  await dataset.createScalarIndex('id');
  await commit();
  clock.advance(2_000);
  assert.deepEqual(inMemory, [], 'one merge may be the only one');
  await commit();
  await eventually('it is read', () => inMemory.length > 0);
  for (const _ of numbers(3)) {
    await commit();
    clock.advance(2_000);
  }
  assert.deepEqual(inMemory, ['id']);
  assert.deepEqual(reasons(), [], 'and not built');
});

test('an index that was there before and has no room in memory is told of in the log (P8)', async (t) => {
  const { commit, dataset, log } = await watchedTable(t, undefined, false);
  await dataset.createScalarIndex('id');
  for (const _ of numbers(2)) await commit();
  await eventually('it is in the log', () => log.some((line) => /larger than --engine-index-cache/.test(line)));
  assert.equal(log.length, 1);
});
