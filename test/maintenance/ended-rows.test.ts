import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Schema, TimeUnit } from '#src/arrow/schema/schema.ts';
import type { TableRecord } from '#src/catalog/port.ts';
import type { ComputedStep } from '#src/change/change-request.ts';
import type { Shadow } from '#src/engine/port/shadow.ts';
import { keepDeletingEndedRows } from '#src/operations/ended-rows.ts';
import { field, schemaOf } from '#test/fixtures/ipc-writer.ts';
import { AdvancingClock } from './advancing-clock.ts';

type Parts = Parameters<typeof keepDeletingEndedRows>[0];

const properties = { 'lancegate.ttl_column': 'at', 'lancegate.ttl': '1h' };
const tables = ['first', 'second'].map(
  (name) => ({ ref: { namespace: [], name }, state: 'created', location: name, properties }) as unknown as TableRecord,
);
const columnsOf = (unit: TimeUnit): Schema =>
  schemaOf([field('at', { kind: 'timestamp', unit, timezone: undefined }, { nullable: true })]);

/** One row of each table has ended. `deleted` gets the table of each delete, and its step. */
function partsOf(clock: AdvancingClock, deleted: (name: string, step: ComputedStep) => void, given: object): Parts {
  const dataset = {
    columns: async () => ({ schema: columnsOf('ms') }),
    version: async () => 1,
    branches: { list: async () => [] },
  };
  const parts = {
    access: {
      latest: async () => dataset,
      readFilesOf: (_: unknown, read: () => unknown) => read(),
      onFilesOf: (_: unknown, write: () => unknown) => write(),
    },
    catalog: { listTables: async () => tables },
    owners: { ownerOf: async () => ({ kind: 'self' }) },
    queries: { count: async () => 1 },
    writer: {
      write: async ({ table, steps: [step] }: { table: TableRecord; steps: readonly [ComputedStep] }) => {
        deleted(table.ref.name, step);
        return { numDeletedRows: 1, version: 2 };
      },
    },
    audit: { requestEnded: () => undefined },
    logger: { info: () => undefined, warn: () => undefined },
    metrics: { rowsEnded: () => undefined },
    newId: () => 'id',
    clock,
    ...given,
  };
  return parts as unknown as Parts;
}

test('rows end in each table, also where another one does not answer (P10)', async () => {
  const clock = new AdvancingClock();
  const { promise, resolve } = Promise.withResolvers<string>();
  const { promise: isAsked, resolve: asked } = Promise.withResolvers<void>();
  const count = async ({ location }: { location: string }) => {
    if (location !== 'first') return 1;
    asked();
    return new Promise<number>(() => undefined);
  };
  const stop = keepDeletingEndedRows(partsOf(clock, resolve, { queries: { count } }));
  clock.advance(1);
  await isAsked;
  clock.advance(60_001);
  assert.equal(await promise, 'second');
  await stop();
});

test('rows end in each table, also where another one cannot be looked at (P10)', async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const count = async ({ location }: { location: string }) => {
    if (location === 'first') throw new Error('broken');
    return 1;
  };
  const stop = keepDeletingEndedRows(partsOf(new AdvancingClock(), resolve, { queries: { count } }));
  assert.equal(await promise, 'second');
  await stop();
});

test('rows end in no table that another replica owns', async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const owners = { ownerOf: async ({ name }: { name: string }) => ({ kind: name === 'first' ? 'replica' : 'self' }) };
  const stop = keepDeletingEndedRows(partsOf(new AdvancingClock(), resolve, { owners }));
  assert.equal(await promise, 'second');
  await stop();
});

test('rows end in each table of a catalog that is read in pages', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const all = Array.from({ length: 600 }, (_, i) => ({
    ...tables[0],
    ref: { namespace: [], name: `${i}` },
    cursor: i,
  }));
  const listTables = async (_: unknown, { after = -1, limit }: { after?: number; limit: number }) =>
    all.slice(after + 1, after + 1 + limit);
  const names = new Set<string>();
  const deleted = (name: string): void => {
    if (names.add(name).size === all.length) resolve();
  };
  const stop = keepDeletingEndedRows(partsOf(new AdvancingClock(), deleted, { catalog: { listTables } }));
  await promise;
  await stop();
});

test('a look that is stopped is waited for, and no further table is looked at', async () => {
  const { promise: isWritten, resolve: written } = Promise.withResolvers<void>();
  const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>();
  const names: string[] = [];
  const write = async ({ table }: { table: TableRecord }) => {
    written();
    await mayEnd;
    names.push(table.ref.name);
    return { numDeletedRows: 1, version: 2 };
  };
  const stop = keepDeletingEndedRows(partsOf(new AdvancingClock(), () => undefined, { writer: { write } }));
  await isWritten;
  const stopped = stop();
  setImmediate(end);
  await stopped;
  assert.deepEqual(names, ['first']);
});

test('rows end by the unit that their column has when they are deleted: no row goes before its end', async () => {
  const { promise, resolve } = Promise.withResolvers<ComputedStep>();
  const clock = new AdvancingClock();
  const stop = keepDeletingEndedRows(partsOf(clock, (_, step) => resolve(step), {}));
  const step = await promise;
  const { promise: condition, resolve: asked } = Promise.withResolvers<string>();
  const shadow = {
    columns: async () => ({ schema: columnsOf('s') }),
    change: async ({ where }: { where: string }) => asked(where),
  };
  await step.run(shadow as unknown as Shadow, { timeoutMs: undefined, principal: 'p' });
  const [, ended] = /<= (\d+)$/.exec(await condition) ?? [];
  const nowSeconds = clock.nowMs() / 1_000;
  assert.ok(Math.abs(nowSeconds - 3_600 - Number(ended)) < 60, String(ended));
  await stop();
});
