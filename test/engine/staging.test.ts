import assert from 'node:assert/strict';
import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Field, Null, Struct, Table, vectorFromArray } from 'apache-arrow';
import { LanceEngine } from '#src/engine/lance/adapter/lance-engine.ts';
import { isMade } from '#src/engine/port/refusal.ts';
import type { Location } from '#src/kernel/ids.ts';
import { stagingFolder } from '#src/lance-format/manifest/manifest-files.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';

const rows = (count: number) => ipcFile(new Table({ id: vectorFromArray(new Int32Array(count)) }));

/** A table of five rows, and a folder that stands for a file system in memory. */
async function tableOf(t: TestContext) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const memory = join(folder, 'memory');
  const engine = new LanceEngine({
    ...{ root: folder, rootOptions: {}, scratchFolder: join(folder, 'scratch'), memoryFolder: memory },
    ...{ indexCacheBytes: 1 << 24, metadataCacheBytes: 1 << 24 },
  });
  const dataset = await createDataset(engine, 't.lance' as Location, rows(5), {});
  t.after(() => dataset.close());
  const tracked = dataset.liveRows() ?? assert.fail();
  tracked.advance(1);
  const data = join(folder, 't.lance', 'data');
  rmSync(stagingFolder(join(folder, 't.lance')), { recursive: true, force: true });
  const namesIn = (path: string) => (existsSync(path) ? readdirSync(path) : []);
  return {
    ...{ dataset, memory, data },
    inMemory: () => namesIn(memory),
    beside: () => namesIn(stagingFolder(join(folder, 't.lance'))),
    prepare: (count: number, file = rows(count)) => {
      const prepared = dataset.prepareRows({ file, rows: count });
      t.after(() => prepared.discard());
      return { prepared, commit: () => dataset.replaceRows(tracked, [], prepared) };
    },
  };
}

test('new rows are staged in memory, and copied from there to where they belong', async (t) => {
  const { dataset, data, inMemory, beside, prepare } = await tableOf(t);
  const { prepared, commit } = prepare(5);
  await eventually('they are in memory', () => inMemory().length === 1);
  assert.deepEqual(beside(), []);
  assert.ok(isMade(await commit()));
  assert.equal(readdirSync(data).length, 2);
  prepared.discard();
  await eventually('nothing is in memory', () => inMemory().length === 0);
  assert.equal(await dataset.countRows(), 10);
});

test('many bytes are staged where they belong, from where they are renamed (P7)', async (t) => {
  const { dataset, data, inMemory, beside, prepare } = await tableOf(t);
  const { commit } = prepare(300_000);
  await eventually('they are beside the table', () => beside().length === 1);
  assert.deepEqual(inMemory(), []);
  assert.ok(isMade(await commit()));
  assert.deepEqual([readdirSync(data).length, await dataset.countRows()], [2, 300_005]);
});

test('where there is no room in memory, they are staged where they belong', async (t) => {
  const { dataset, memory, beside, prepare } = await tableOf(t);
  writeFileSync(memory, 'in the way');
  const { commit } = prepare(5);
  await eventually('they are beside the table', () => beside().length === 1);
  assert.ok(isMade(await commit()));
  assert.equal(await dataset.countRows(), 10);
  rmSync(memory);
});

test('a copy that fails leaves nothing', async (t) => {
  const { dataset, data, inMemory, prepare } = await tableOf(t);
  const { prepared, commit } = prepare(5);
  await eventually('they are in memory', () => inMemory().length === 1);
  renameSync(data, `${data} elsewhere`);
  writeFileSync(data, 'in the way');
  await assert.rejects(commit(), { kind: 'Internal' });
  rmSync(data);
  renameSync(`${data} elsewhere`, data);
  prepared.discard();
  await eventually('nothing is in memory', () => inMemory().length === 0);
  assert.deepEqual([readdirSync(data).length, await dataset.countRows()], [1, 5]);
});

test('what cannot be stored is refused, and leaves nothing in memory either', async (t) => {
  const { inMemory, beside, prepare } = await tableOf(t);
  const ofNulls = new Struct([new Field('never', new Null(), true)]);
  const file = ipcFile(new Table({ s: vectorFromArray([null, { never: null }], ofNulls) }));
  await assert.rejects(prepare(2, file).commit());
  await eventually('nothing is left', () => inMemory().length + beside().length === 0);
});

test('an overwrite by staged rows shows its own columns at once', async (t) => {
  const engine = engineIn(temporaryFolder((clean) => t.after(clean)));
  const dataset = await createDataset(engine, 't.lance' as Location, rows(5), {});
  t.after(() => dataset.close());
  const namesOf = async () => (await dataset.columns()).schema.fields.map(({ name }) => name);
  assert.deepEqual(await namesOf(), ['id']);
  const source = dataset.stageSource(undefined) ?? assert.fail('nothing can be staged');
  await source.append(ipcFile(new Table({ other: vectorFromArray(new Int32Array(3)) })));
  assert.deepEqual(await dataset.insertRows(source, 'overwrite'), { version: 2, fragments: [] });
  source.discard();
  assert.deepEqual([await namesOf(), await dataset.countRows()], [['other'], 3]);
});
