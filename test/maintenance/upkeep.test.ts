import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Int32, Table, vectorFromArray } from 'apache-arrow';
import type { Dataset, Engine, OpenRequest, OptimizeRequest } from '#src/engine/port.ts';
import { Upkeep } from '#src/maintenance/upkeep.ts';
import { TableGates } from '#src/table/gates.ts';
import { OpenBranches } from '#src/table/open-branches.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { publishTable } from '#test/fixtures/published-table.ts';
import { replacing } from '#test/fixtures/replacing.ts';

const never = new AbortController().signal;
const rows = (...ids: readonly number[]): Table => new Table({ id: vectorFromArray(ids, new Int32()) });

interface Job {
  /** Fragments of one row beside the first one. */
  readonly appends: number;
}

/** Tidies a table that has old versions, with a writer that comes when the engine is called. */
async function tidy(t: TestContext, { appends }: Job) {
  const { catalog, engine, dataset, ref, tableId, location } = await publishTable(t, rows(0));
  await dataset.addNullColumn('more');
  await dataset.dropColumn('more');
  for (let id = 1; id <= appends; id += 1) await dataset.append(ipcFile(rows(id)));
  const gates = new TableGates(10);
  let isIn = false;
  let wasLetIn = false;
  const writing: Promise<void>[] = [];
  const write = async (): Promise<void> => {
    const leave = await gates.enterBranch(ref, undefined, never);
    isIn = true;
    leave();
  };
  const optimize = async (opened: Dataset, request: OptimizeRequest) => {
    writing.push(write());
    await new Promise<void>((resolve) => setImmediate(resolve));
    wasLetIn = isIn;
    return opened.optimize(request);
  };
  const open = async (request: OpenRequest): Promise<Dataset> => {
    const opened = await engine.open(request);
    return replacing(opened, { optimize: (asked: OptimizeRequest) => optimize(opened, asked) });
  };
  const openBranches = new OpenBranches({ catalog, engine });
  const upkeep = new Upkeep({ catalog, engine: replacing<Engine>(engine, { open }), gates, openBranches });
  let rewritten = 0;
  const report = await upkeep.optimize({
    target: { table: ref, tableId, branch: undefined, location },
    reason: 'by hand',
    extent: 'all',
    pruneBeforeMs: Date.now() + 3_600_000,
    onRewritten: () => rewritten++,
  });
  await Promise.all(writing);
  await dataset.refresh();
  const { fragments } = await dataset.layout();
  const versions = (await dataset.versions()).length;
  return { wasLetIn, rewritten, fragments: fragments.length, versions, removedVersions: report?.removedVersions };
}

describe('while the engine removes old versions (P8)', () => {
  test('writers go on where there is nothing to put together', async (t) => {
    const found = await tidy(t, { appends: 0 });
    assert.deepEqual(found, { wasLetIn: true, rewritten: 0, fragments: 1, versions: 1, removedVersions: 2 });
  });

  test('writers wait where there is, until it is done', async (t) => {
    const { wasLetIn, rewritten, fragments } = await tidy(t, { appends: 2 });
    assert.deepEqual({ wasLetIn, rewritten, fragments }, { wasLetIn: false, rewritten: 1, fragments: 1 });
  });
});
