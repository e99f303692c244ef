import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Field, Int32, Struct, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { storedRows, stream } from './rows.ts';

const stock = new Struct([new Field('on.hand', new Int32()), new Field('sold', new Int32())]);
const items = (ids: readonly number[], price: number): Buffer =>
  stream({
    id: ids,
    price: ids.map((id) => price + id),
    batch: ids.map(() => price),
    stock: vectorFromArray(
      ids.map((id) => ({ 'on.hand': id, sold: price })),
      stock,
    ),
  });
const old = 10;
const fresh = 20;
const update = 'when_matched_update_all';
const insert = 'when_not_matched_insert_all';
const remove = 'when_not_matched_by_source_delete';

describe('the flags of a merge and their filters', () => {
  const later = afterSuite();
  let service: TestService;
  let tables = 0;
  before(async () => {
    service = await startCheckedService(later);
  });
  /** Merges the items 2, 3, 4 and 5 into 1, 2, 3 and 4. */
  const merge = async (query: string) => {
    tables += 1;
    const table = `flags_${tables}`;
    succeeded(await service.post(`/v1/table/${table}/create`, items([1, 2, 3, 4], old)));
    return {
      table,
      answer: await service.post(`/v1/table/${table}/merge_insert?on=id${query}`, items([2, 3, 4, 5], fresh)),
    };
  };
  /** What each item is afterwards: `-` gone, `o` old, `n` new. */
  const outcome = async (query: string): Promise<string> => {
    const { table, answer } = await merge(query);
    const counts = succeeded(answer);
    const rows = await storedRows(service, table);
    const letters = [1, 2, 3, 4, 5].map((id) => {
      const row = rows.find((candidate) => candidate.id === id);
      if (row === undefined) return '-';
      return row.batch === old ? 'o' : 'n';
    });
    assert.deepEqual(
      [counts.num_updated_rows, counts.num_inserted_rows, counts.num_deleted_rows],
      [
        letters.slice(0, 4).filter((letter) => letter === 'n').length,
        letters[4] === 'n' ? 1 : 0,
        letters.slice(0, 4).filter((letter) => letter === '-').length,
      ],
      'the counts are those of the rows (P4)',
    );
    return letters.join('');
  };

  const combinations: readonly (readonly [string, string])[] = [
    ['', 'onnnn'],
    [`&${update}=true`, 'onnn-'],
    [`&${insert}=true`, 'oooon'],
    [`&${update}=true&${insert}=true`, 'onnnn'],
    [`&${update}=true&${insert}=true&${remove}=false`, 'onnnn'],
    [`&${remove}=true`, '-ooo-'],
    [`&${remove}=true&${update}=true&${insert}=true`, '-nnnn'],
    [`&${insert}=false&${update}=true`, 'onnn-'],
  ];
  for (const [query, expected] of combinations) {
    test(`${query || 'nothing said'}: ${expected}`, async () => {
      assert.equal(await outcome(query), expected);
    });
  }

  for (const spelling of ['=true', '=TRUE', '=True', '=1', '']) {
    test(`a flag is on as "${spelling}"`, async () => {
      assert.equal(await outcome(`&${update}${spelling}`), 'onnn-');
      assert.equal(await outcome(`&${insert}${spelling}`), 'oooon');
      assert.equal(await outcome(`&${remove}${spelling}`), '-ooo-');
    });
  }
  for (const spelling of ['=false', '=FALSE', '=0']) {
    test(`a flag is off as "${spelling}", and a merge whose flags are all off is refused`, async () => {
      assert.equal(await outcome(`&${update}${spelling}&${insert}=true`), 'oooon');
      refused((await merge(`&${update}${spelling}`)).answer, 400, 13, /would do nothing/);
    });
  }
  for (const flag of [update, insert, remove, 'use_index']) {
    test(`${flag} takes no other word`, async () => {
      for (const word of ['yes', '2', ''])
        refused((await merge(`&${flag}=${word}`)).answer, 400, 13, RegExp(`^${flag}: `));
    });
  }

  const sql = (name: string, text: string) => `&${name}=${encodeURIComponent(text)}`;
  const filters: readonly (readonly [string, string, string])[] = [
    ['a filter alone turns its action on', sql(`${update}_filt`, 'target.id > 2'), 'oonn-'],
    ['also beside a flag that is off', `&${update}=false${sql(`${update}_filt`, 'target.id > 2')}`, 'oonn-'],
    ['it may ask both rows', sql(`${update}_filt`, 'source.price > target.price + 9 AND source.id = 3'), 'oono-'],
    ['a nested field', `${sql(`${update}_filt`, 'target.stock.sold = 10 AND source.id < 4')}`, 'onno-'],
    ['a nested field with a dot in its name', sql(`${update}_filt`, 'target.stock.`on.hand` = 2'), 'onoo-'],
    ['a column in quotes', sql(`${update}_filt`, 'source.`batch` = 20 AND target.id = 4'), 'ooon-'],
    ['a filter of deletes asks the target', sql(`${remove}_filt`, 'id < 2'), '-ooo-'],
    ['and deletes nothing that it does not let through', sql(`${remove}_filt`, 'id > 1'), 'oooo-'],
    ['with a nested field', sql(`${remove}_filt`, 'stock.sold = 10'), '-ooo-'],
    ['with a nested field with a dot in its name', sql(`${remove}_filt`, 'stock.`on.hand` = 1'), '-ooo-'],
    ['with a column in quotes', sql(`${remove}_filt`, '`batch` = 10'), '-ooo-'],
    [
      'spaces as plus and plus as %2B',
      `&${update}_filt=source.price+%3D+target.price+%2B+10+AND+target.id+=+2`,
      'onoo-',
    ],
    ['spaces as %20', `&${update}_filt=target.id%20=%202`, 'onoo-'],
    [
      'parentheses in texts and comments do not count',
      sql(`${remove}_filt`, "id < 2 AND 'it''s )' <> ')' -- )"),
      '-ooo-',
    ],
  ];
  for (const [what, query, expected] of filters) {
    test(`${what}: ${expected}`, async () => {
      assert.equal(await outcome(query), expected);
    });
  }

  test('filters that cannot be are refused, and nothing is written (P6)', async () => {
    const refusals: readonly (readonly [string, number, RegExp])[] = [
      [sql(`${update}_filt`, 'target.shoe = 1'), 12, /target\.shoe|shoe/],
      [sql(`${update}_filt`, 'id = '), 13, /_filt: the expression ends where a value should come \(column \d\)/],
      [sql(`${update}_filt`, 'id = 1'), 13, /target\.id.*source\.id/],
      [sql(`${update}_filt`, 'target.id + 1'), 13, /filter/],
      [sql(`${update}_filt`, ' '), 13, /^when_matched_update_all_filt: the expression is empty/],
      [sql(`${remove}_filt`, ''), 13, /^when_not_matched_by_source_delete_filt: the expression is empty/],
      [sql(`${remove}_filt`, 'nope(id)'), 13, /_delete_filt: the function nope is not one that filters may call/],
      [
        sql(`${remove}_filt`, 'id > 1 price = 10'),
        13,
        /_delete_filt: price stands where an operator should come, such as = or AND \(column 8\)/,
      ],
      [sql(`${update}_filt`, 'target.id = 2; target.id = 3'), 13, /";" has no meaning here/],
      [sql(`${remove}_filt`, "id = 2) AND (price = ')'"), 13, /_delete_filt: \) closes what was not opened/],
      [`&${update}_filt=%ZZ`, 13, /^when_matched_update_all_filt: its percent-encoding is broken/],
    ];
    for (const [query, code, says] of refusals) {
      const { table, answer } = await merge(query);
      refused(answer, 400, code, says);
      assert.equal(succeeded(await service.post(`/v1/table/${table}/describe`)).version, 1);
    }
  });

  test('use_index only chooses the way; the rows are the same', async () => {
    for (const word of ['=true', '=false', '']) assert.equal(await outcome(`&use_index${word}`), 'onnnn');
  });

  test('a parameter given twice must mean the same twice', async () => {
    assert.equal(await outcome(`&${update}=true&${update}=1`), 'onnn-');
    refused(
      (await merge(`&${update}=true&${update}=false`)).answer,
      400,
      13,
      RegExp(`^${update}: given more than once`),
    );
  });

  test('the answer has these fields and no others, and its context is the headers the service set', async () => {
    const { answer } = await merge('');
    const { context, transaction_id: transactionId, ...counts } = succeeded(answer);
    assert.deepEqual(counts, {
      version: 2,
      num_updated_rows: 3,
      num_inserted_rows: 1,
      num_deleted_rows: 0,
      num_attempts: 1,
      num_rows: 4,
    });
    assert.deepEqual(context, {
      'header.x-request-id': answer.headers.get('x-request-id'),
      'header.cache-control': answer.headers.get('cache-control'),
      'header.phalanx-version': answer.headers.get('phalanx-version'),
      'header.x-content-type-options': answer.headers.get('x-content-type-options'),
    });
    const transaction = succeeded(await service.post(`/v1/transaction/${transactionId}/describe`));
    assert.equal(transaction.status, 'SUCCEEDED');
    assert.equal((transaction.properties as Record<string, string>).version, '2');
  });

  test('a branch is merged into where it is named; absent, empty and main are main; an unknown one is 404', async () => {
    const { table } = await merge('');
    succeeded(await service.post(`/v1/table/${table}/branches/create`, { name: 'dev/one' }));
    const into = (query: string, id: number) =>
      service.post(`/v1/table/${table}/merge_insert?on=id${query}`, items([id], fresh));
    for (const [index, query] of ['', '&branch=', '&branch=main', '&branch'].entries())
      succeeded(await into(query, 10 + index));
    succeeded(await into('&branch=dev%2Fone', 20));
    const count = async (branch: string) =>
      (await service.post<unknown>(`/v1/table/${table}/count_rows`, { branch })).body;
    assert.deepEqual([await count('main'), await count('dev/one')], [9, 6]);
    refused(await into('&branch=none', 30), 404, 22);
    refused(await into('&branch=..%2F..%2Fother', 30), 400, 13, /^branch: /);
    refused(await into('&branch=dev%2Fone&branch=main', 30), 400, 13, /^branch: given more than once/);
    assert.deepEqual([await count('main'), await count('dev/one')], [9, 6]);
  });
});
