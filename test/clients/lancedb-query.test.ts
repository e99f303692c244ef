import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import {
  BooleanQuery,
  BoostQuery,
  Index,
  MatchQuery,
  MultiMatchQuery,
  makeArrowTable,
  Occur,
  PhraseQuery,
  type Table,
} from '@lancedb/lancedb';
import { Dictionary, Field, FixedSizeList, Float32, Int32, Schema, tableFromIPC, Utf8 } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, openDirectly, refusal } from './connections.ts';

const schema = new Schema([
  new Field('id', new Int32()),
  new Field('text', new Utf8(), true),
  new Field('Odd name', new Utf8(), true),
  new Field('v', new FixedSizeList(4, new Field('item', new Float32(), true)), true),
]);
const rows = Array.from({ length: 3_000 }, (_, id) => ({
  id,
  text: `word${id % 7} and the lazy ${id % 3 === 0 ? 'dog' : 'cat'}`,
  'Odd name': id % 5 === 0 ? null : `n${id % 11}`,
  v: [id, 1, 2, 3],
}));
const nearby = [500.4, 1, 2, 3];

/** Asks the same of a table over the service and of the table on disk. */
type Asked = (table: Table) => Promise<unknown>;

const asked: Readonly<Record<string, Asked>> = {
  'all rows': (table) => table.query().toArray(),
  'head, by a limit': (table) => table.query().limit(5).toArray(),
  'a page': (table) => table.query().limit(5).offset(2_997).toArray(),
  'an offset beyond the end': (table) => table.query().offset(5_000).toArray(),
  'a filter': (table) => table.query().where("id > 10 AND text LIKE '%dog' AND `Odd name` IS NULL").toArray(),
  'a filter that finds nothing': (table) => table.query().where('id < 0').toArray(),
  columns: (table) => table.query().select(['Odd name', 'id']).limit(3).toArray(),
  'columns of expressions, in order': (table) =>
    table.query().select({ twice: 'id * 2', loud: "concat(upper(text), '!')", id: 'id' }).limit(3).toArray(),
  'the row id': (table) => table.query().select(['id']).withRowId().limit(3).toArray(),
  'rows in order': (table) => table.query().orderBy({ columnName: 'id', ascending: false }).limit(3).toArray(),
  'rows in the order of two columns': (table) =>
    table
      .query()
      .orderBy([
        { columnName: 'Odd name', nullsFirst: true },
        { columnName: 'id', ascending: false },
      ])
      .limit(3)
      .toArray(),
  'the nearest to a vector': (table) => table.query().nearestTo(nearby).limit(3).toArray(),
  'the nearest by default': (table) => table.search(nearby).toArray(),
  'the nearest to two vectors': (table) =>
    table.query().nearestTo(nearby).addQueryVector([7, 1, 2, 3]).select(['id']).limit(2).toArray(),
  'the nearest by cosine, among some rows': (table) =>
    table.query().nearestTo(nearby).column('v').distanceType('cosine').where('id > 900').limit(3).toArray(),
  'the nearest, of which some are taken': (table) =>
    table.query().nearestTo(nearby).where('id > 500').postfilter().limit(4).toArray(),
  'the nearest within bounds, with every knob': (table) =>
    table
      .query()
      .nearestTo(nearby)
      .distanceRange(0.2, 10)
      .nprobes(4)
      .ef(50)
      .refineFactor(2)
      .bypassVectorIndex()
      .withRowId()
      .limit(9)
      .toArray(),
  'the nearest, more than there are': (table) => table.query().nearestTo(nearby).select(['id']).limit(50_000).toArray(),
  'words in all columns': (table) => table.query().fullTextSearch('word3').limit(4).toArray(),
  'words in one column': (table) =>
    table
      .query()
      .fullTextSearch('dog', { columns: ['text'] })
      .limit(4)
      .toArray(),
  'words among some rows': (table) => table.query().fullTextSearch('word3').where('id > 1000').limit(4).toArray(),
  'words, misspelt': (table) =>
    table
      .query()
      .fullTextSearch(new MatchQuery('wrod3', 'text', { fuzziness: 2 }))
      .limit(4)
      .toArray(),
  'a phrase': (table) => table.query().fullTextSearch(new PhraseQuery('lazy dog', 'text')).limit(4).toArray(),
  'words that push others down': (table) =>
    table
      .query()
      .fullTextSearch(new BoostQuery(new MatchQuery('word3', 'text'), new MatchQuery('dog', 'text')))
      .limit(4)
      .toArray(),
  'words in several columns': (table) =>
    table
      .query()
      .fullTextSearch(new MultiMatchQuery('dog', ['text']))
      .limit(4)
      .toArray(),
  'words with and without': (table) =>
    table
      .query()
      .fullTextSearch(
        new BooleanQuery([
          [Occur.Must, new MatchQuery('word3', 'text')],
          [Occur.MustNot, new MatchQuery('dog', 'text')],
        ]),
      )
      .limit(4)
      .toArray(),
  'a hybrid search': (table) => table.query().nearestTo(nearby).fullTextSearch('word3').limit(4).toArray(),
  takeOffsets: (table) => table.takeOffsets([5, 1, 2_999]).toArray(),
  'takeOffsets of some columns': (table) => table.takeOffsets([5, 1]).select(['id']).toArray(),
  takeRowIds: (table) => table.takeRowIds([5n, 1n, 2_999n]).withRowId().toArray(),
  'the count of a filter': (table) => table.countRows('id % 3 = 1'),
  'the schema of the result': async (table) => `${await table.query().nearestTo(nearby).select(['id']).outputSchema()}`,
};

describe('a query of the LanceDB SDK finds through the service what it finds in the files themselves', () => {
  const later = afterSuite();
  let service: TestService;
  let table: Table;
  let direct: Table;
  before(async () => {
    service = await startTestService(later);
    table = await (await connectByApiKey(service, 'lancegate:write')).createTable(
      'docs',
      makeArrowTable(rows, { schema }),
    );
    direct = await openDirectly(service, 'docs');
    await direct.createIndex('text', { config: Index.fts({ withPosition: true }) });
  });

  for (const [what, ask] of Object.entries(asked)) {
    test(what, async () => {
      const expected = plain(await ask(direct));
      assert.deepEqual(plain(await ask(table)), expected);
    });
  }

  test('a version and a branch of the table', async () => {
    const branch = await (await table.branches()).create('draft');
    await branch
      .mergeInsert('id')
      .whenNotMatchedInsertAll()
      .execute([{ ...rows[1], id: 9_000 }]);
    const found = (from: Table) => from.query().where('id = 9000').select(['id']).toArray();
    assert.deepEqual(plain(await found(branch)), [{ id: 9_000 }]);
    assert.deepEqual(await found(table), []);
    await table
      .mergeInsert('id')
      .whenNotMatchedInsertAll()
      .execute([{ ...rows[1], id: 9_000 }]);
    assert.deepEqual(plain(await found(table)), [{ id: 9_000 }]);
    await table.checkout(1);
    assert.deepEqual(await found(table), []);
    await table.checkoutLatest();
  });

  test('dictionary columns, whose batches have dictionaries of their own', async () => {
    const of = (...kinds: readonly string[]) =>
      makeArrowTable(
        kinds.map((kind, id) => ({ id, kind })),
        {
          schema: new Schema([
            new Field('id', new Int32()),
            new Field('kind', new Dictionary(new Utf8(), new Int32())),
          ]),
        },
      );
    const database = await connectByApiKey(service, 'lancegate:write');
    const encoded = await database.createTable('encoded', of('a', 'b', 'a'));
    const onDisk = await openDirectly(service, 'encoded');
    await onDisk.add(of('c', 'b', 'c', 'd'));
    const found = await encoded.query().toArrow();
    assert.deepEqual(
      found.toArray().map((row) => (row as { kind: string }).kind),
      ['a', 'b', 'a', 'c', 'b', 'c', 'd'],
    );
    assert.match(`${found.schema.fields[1]?.type}`, /^Dictionary/);
  });

  describe('a search that names no column is in all that have a full-text index', () => {
    const texts = [
      { id: 1, title: 'river', text: 'stone', note: 'lamp', vector: [1, 0, 0, 0] },
      { id: 2, title: 'stone', text: 'the river lantern', note: 'river', vector: [2, 0, 0, 0] },
      { id: 3, title: 'lamp', text: 'lamp', note: 'river', vector: [3, 0, 0, 0] },
      { id: 4, title: 'river', text: 'river', note: 'lamp', vector: [4, 0, 0, 0] },
    ];
    let sides: readonly Table[];
    before(async () => {
      const database = await connectByApiKey(service, 'lancegate:write');
      const served = await database.createTable('texts', texts);
      const onDisk = await openDirectly(service, 'texts');
      for (const column of ['title', 'text']) await onDisk.createIndex(column, { config: Index.fts() });
      sides = [served, onDisk];
    });
    const sorted = (found: readonly { readonly id: unknown }[]) =>
      plain([...found].sort((a, b) => Number(a.id) - Number(b.id)));

    for (const [what, search] of Object.entries({
      words: (side: Table) => side.query().fullTextSearch('river'),
      'a search by its kind': (side: Table) => side.search('river', 'fts') as ReturnType<Table['query']>,
      'words among some rows': (side: Table) => side.query().fullTextSearch('river').where('id > 1'),
    })) {
      test(what, async () => {
        const [served, onDisk] = await Promise.all(sides.map(async (side) => sorted(await search(side).toArray())));
        assert.deepEqual(served, onDisk);
        assert.ok((served as readonly unknown[]).length >= 2);
      });
    }

    test('a hybrid search', async () => {
      const hybrid = (side: Table) => side.query().nearestTo([1, 0, 0, 0]).fullTextSearch('river').limit(4).toArray();
      const [served, onDisk] = await Promise.all(sides.map(async (side) => sorted(await hybrid(side))));
      assert.deepEqual(served, onDisk);
    });

    const match = (terms: string, others: object = {}) => ({ match: { terms, ...others } });
    for (const [what, query, ids] of [
      ['in a boolean query', { boolean: { must: [match('river')], must_not: [match('lantern')] } }, [1, 4]],
      ['in a boost query', { boost: { positive: match('river'), negative: match('stone') } }, [1, 2, 4]],
      ['of terms that are nearly there', match('rivar', { fuzziness: 1 }), [1, 2, 4]],
    ] as const) {
      test(`a match ${what}`, async () => {
        const body = { full_text_query: { query }, columns: ['id'], k: 10 };
        const { status, body: file } = await service.post<Uint8Array>('/v1/table/texts/query', body);
        assert.equal(status, 200);
        const found = tableFromIPC(file).getChild('id')?.toArray() ?? [];
        assert.deepEqual([...found].map(Number).sort(), ids);
      });
    }
  });

  test('the plan, without the folder that it reads', async () => {
    await direct.checkoutLatest();
    const explain = (from: Table) => from.query().nearestTo(nearby).where('id > 3').explainPlan(true);
    const expected = (await explain(direct)).replaceAll(/uri=[^,]+,/g, 'uri=(hidden),');
    assert.equal(await explain(table), expected);
    const analysis = await table.query().where('id > 3').analyzePlan();
    assert.match(analysis, /output_rows=/);
    assert.ok(!analysis.includes('docs.lance'), analysis);
  });

  test('what is wrong with a query is said', async () => {
    const query = () => table.query().limit(1);
    await assert.rejects(query().select(['nope']).toArray(), refusal(/a column that does not exist: nope/));
    await assert.rejects(query().where('nope = 1').toArray(), refusal(/a column that does not exist: nope/));
    await assert.rejects(query().nearestTo([1, 2]).toArray(), refusal(/has 2 numbers, and the table has vectors of 4/));
    await assert.rejects(
      query().fullTextSearch(new MatchQuery('x', 'nope')).toArray(),
      refusal(/full_text_query: the table has no column nope/),
    );
  });
});

/** Rows as plain data. */
const plain = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part)));
