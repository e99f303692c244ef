/** Every index that a client can ask for, in the real engine: built from its spec, lifted, and read back as that spec. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import {
  type DataType,
  Field,
  FixedSizeList,
  Float32,
  Int32,
  List,
  Struct,
  Table,
  Utf8,
  vectorFromArray,
} from 'apache-arrow';
import type { Dataset } from '#src/engine/port/dataset.ts';
import type { IndexOptions, IndexSpec, TextOptions } from '#src/engine/port/index-spec.ts';
import { isMade } from '#src/engine/port/refusal.ts';
import { ownSql } from '#src/kernel/checked-sql.ts';
import type { Location } from '#src/kernel/ids.ts';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createDataset } from '#test/fixtures/create-dataset.ts';
import { engineIn } from '#test/fixtures/engine-in.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

const location = 't.lance' as Location;
const vectorType = new FixedSizeList(8, new Field('item', new Float32(), true));
const tagsType = new List(new Field('item', new Utf8(), true));
const nestedType = new Struct([new Field('w', vectorType, true), new Field('text', new Utf8(), true)]);

function rows(count: number, from = 0): Table {
  const ids = Array.from({ length: count }, (_, at) => from + at);
  const vectorOf = (id: number) => Array.from({ length: 8 }, (_, at) => Math.sin(8 * id + at * at));
  const column = <T extends DataType>(type: T, value: (id: number) => unknown) =>
    vectorFromArray(ids.map(value) as never, type);
  return new Table({
    id: column(new Int32(), (id) => id),
    text: column(new Utf8(), (id) => `text ${id} of cats`),
    tags: column(tagsType, (id) => [`tag ${id % 3}`]),
    vector: column(vectorType, vectorOf),
    nested: column(nestedType, (id) => ({ w: vectorOf(id), text: `text ${id}` })),
  });
}

async function opened(t: TestContext, count = 300): Promise<Dataset> {
  const engine = engineIn(temporaryFolder((clean) => t.after(clean)));
  return createDataset(engine, location, ipcFile(rows(count)), {});
}

const text: TextOptions = {
  baseTokenizer: 'ngram',
  language: 'German',
  withPosition: true,
  maxTokenLength: 12,
  lowerCase: false,
  stem: false,
  removeStopWords: true,
  customStopWords: ['of', 'the'],
  asciiFolding: false,
  minNgramLength: 2,
  maxNgramLength: 4,
  prefixOnly: true,
  blockSize: 128,
};
const trained = { distance: 'cosine', numPartitions: 3, sampleRate: 100, maxIterations: 7 } as const;
const unset = { numSubVectors: undefined, numBits: undefined, m: undefined, efConstruction: undefined };

const specs: readonly (readonly [column: string, options: IndexOptions])[] = [
  ['id', { type: 'BTREE' }],
  ['id', { type: 'BITMAP' }],
  ['tags', { type: 'LABEL_LIST' }],
  ['text', { type: 'FM' }],
  ['nested.text', { type: 'FTS', text }],
  ['vector', { type: 'IVF_FLAT', vector: { ...unset, ...trained } }],
  ['vector', { type: 'IVF_PQ', vector: { ...unset, ...trained, numSubVectors: 4, numBits: 4 } }],
  ['nested.w', { type: 'IVF_RQ', vector: { ...unset, ...trained, numBits: 2 } }],
  ['vector', { type: 'IVF_HNSW_PQ', vector: { ...unset, ...trained, numSubVectors: 2, m: 8, efConstruction: 40 } }],
  ['vector', { type: 'IVF_HNSW_SQ', vector: { ...unset, ...trained, m: 9, efConstruction: 50 } }],
];

describe('an index', () => {
  for (const [column, options] of specs) {
    test(`${options.type} of ${column} keeps its options, also when it is built again`, async (t) => {
      const dataset = await opened(t);
      const spec: IndexSpec = { name: 'mine', column, options };
      await commit(dataset, spec);
      const [first] = (await dataset.layout()).indexes;
      assert.deepEqual([first?.spec, first?.rows, first?.unindexedRows], [spec, 300, 0]);
      await appended(dataset, rows(20, 300));
      assert.equal((await dataset.layout()).indexes[0]?.unindexedRows, 20);
      await commit(dataset, first?.spec ?? assert.fail('no spec'));
      const [second, ...others] = (await dataset.layout()).indexes;
      assert.deepEqual([second?.spec, second?.rows, second?.unindexedRows, others], [spec, 320, 0, []]);
      assert.equal(await dataset.countRows(ownSql('id >= 290')), 30);
    });
  }

  test('is committed after other columns were added and dropped, and not after its own was', async (t) => {
    const dataset = await opened(t);
    const [byText, byId] = [
      await dataset.prepareIndex({ name: 'a', column: 'nested.text', options: { type: 'BITMAP' } }),
      await dataset.prepareIndex({ name: 'b', column: 'id', options: { type: 'BTREE' } }),
    ];
    const shadow = await dataset.shadow();
    await shadow.change({ kind: 'drop columns', columns: ['id'] }, undefined, { timeoutMs: undefined, principal: '' });
    assert.notEqual(await shadow.commit(), 'overtaken');
    const other = await dataset.shadow();
    const columns = [{ name: 'more', value: ownSql('1') }];
    await other.change({ kind: 'add columns', columns }, undefined, { timeoutMs: undefined, principal: '' });
    assert.notEqual(await other.commit(), 'overtaken');
    assert.ok(isMade(await byText.commit()));
    assert.equal(await byId.commit(), 'overtaken');
    assert.deepEqual(
      (await dataset.layout()).indexes.map(({ name }) => name),
      ['a'],
    );
  });

  test('with too few rows to be trained is refused in our words', async (t) => {
    const dataset = await opened(t, 10);
    const options = { type: 'IVF_PQ', vector: { distance: 'l2' } } as const;
    const build = dataset.prepareIndex({ name: 'mine', column: 'vector', options });
    await assert.rejects(build, { kind: 'InvalidInput', message: /at least 256 rows/ });
  });
});

async function commit(dataset: Dataset, spec: IndexSpec): Promise<void> {
  const prepared = await dataset.prepareIndex(spec);
  assert.ok(isMade(await prepared.commit()));
  prepared.discard();
}

async function appended(dataset: Dataset, more: Table): Promise<void> {
  const shadow = await dataset.shadow();
  await shadow.change({ kind: 'append', rows: more.numRows }, ipcFile(more), { timeoutMs: undefined, principal: '' });
  assert.notEqual(await shadow.commit(), 'overtaken');
}
