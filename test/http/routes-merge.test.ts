import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Field, Int32, Schema, Struct, Table, tableToIPC, Utf8, vectorFromArray } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { storedRows, stream } from './rows.ts';

const address = new Struct([new Field('zip.code', new Utf8()), new Field('tick`ed', new Utf8())]);
const person = new Struct([new Field('name', new Utf8()), new Field('address', address)]);

/** Fields whose names need every sort of quoting (Lance has no top-level columns of such names); the value of each is made of `key`. */
const nested = (keys: readonly number[], note: string): Buffer =>
  stream({
    id: keys,
    region: keys.map((key) => `region ${key}`),
    person: vectorFromArray(
      keys.map((key) => ({ name: `name ${key}`, address: { 'zip.code': `zip ${key}`, 'tick`ed': `tick ${key}` } })),
      person,
    ),
    note: keys.map(() => note),
  });

describe('on: the field path by which rows match', () => {
  const later = afterSuite();
  let service: TestService;
  before(async () => {
    service = await startCheckedService(later);
  });
  const create = async (table: string) =>
    succeeded(await service.post(`/v1/table/${table}/create`, nested([1, 2], 'old')));
  const merge = (table: string, on: readonly string[], body = nested([2, 3], 'new')) =>
    service.post(
      `/v1/table/${table}/merge_insert?${on.map((path) => `on=${encodeURIComponent(path)}`).join('&')}`,
      body,
    );

  const paths: readonly (readonly [string, readonly string[]])[] = [
    ['a top-level column', ['id']],
    ['a plain name in quotes it does not need', ['`id`']],
    ['a nested field', ['person.name']],
    ['a name with a backtick two levels down, doubled inside quotes', ['person.address.`tick``ed`']],
    ['a name with a dot, quoted', ['person.address.`zip.code`']],
    ['two columns together', ['id', 'region']],
    ['a column and a nested field together', ['id', 'person.address.`zip.code`']],
    ['three nested fields together', ['person.name', 'person.address.`tick``ed`', 'person.address.`zip.code`']],
  ];
  for (const [index, [what, on]] of paths.entries()) {
    test(`${what}: ${on.join(' and ')}`, async () => {
      const table = `path_${index}`;
      await create(table);
      const answer = succeeded(await merge(table, on));
      assert.deepEqual([answer.num_updated_rows, answer.num_inserted_rows, answer.num_deleted_rows], [1, 1, 0]);
      const rows = (await storedRows(service, table)).map(({ id, note }) => [id, note]);
      assert.deepEqual(rows, [
        [1, 'old'],
        [2, 'new'],
        [3, 'new'],
      ]);
    });
  }

  const mistakes: readonly (readonly [string, readonly string[], number, RegExp])[] = [
    ['none at all', [], 13, /^on: the field path to match rows by is required/],
    ['an empty one', [''], 13, /malformed field path "": it is empty/],
    ['a dot at the end', ['id.'], 13, /malformed field path "id\.": segment 2 is empty/],
    ['a quote that is not closed', ['`id'], 13, /backtick is not closed/],
    ['a quote in the middle', ['a`b'], 13, /may only stand around a whole segment/],
    ['text behind a quote', ['`a`b'], 13, /only a dot may follow/],
    ['the same path twice', ['id', 'id'], 13, /^on: id is given twice/],
    ['the same path twice, quoted once', ['`id`', 'id'], 13, /^on: id is given twice/],
    ['the leaf of a nested field alone', ['address'], 12, /has no column address$/],
    ['a name with a dot, not quoted', ['person.address.zip.code'], 12, /has no column person\.address\.zip\.code$/],
    ['paths joined by a comma', ['id,note'], 12, /has no column id,note$/],
    ['another case', ['ID'], 12, /has no column ID$/],
    ['the canonical path of what was quoted for no reason', ['`person`.`nobody`'], 12, /has no column person\.nobody$/],
    ['the canonical path, with the quotes it needs', ['person.`zip.code`'], 12, /has no column person\.`zip\.code`$/],
    ['a path into a column that is no struct', ['id.x'], 12, /has no column id\.x$/],
  ];
  for (const [what, on, code, says] of mistakes) {
    test(`${what} is refused with code ${code}, and nothing is written (P6)`, async () => {
      refused(await merge('mistakes', on), 400, code, says);
      assert.deepEqual((await service.post<unknown>('/v1/table/mistakes/count_rows')).body, 2);
    });
  }
  before(() => create('mistakes'));

  test('a column that the source has and the table has not is no key either', async () => {
    const body = stream({ id: [1], other: ['x'] });
    refused(await merge('mistakes', ['other'], body), 400, 12, /the table has no column other$/);
    refused(await merge('mistakes', ['note'], stream({ id: [1] })), 400, 12, /the source has no column note$/);
  });

  test('columns that fitted by one key are checked again by another, into another table, and with other flags', async () => {
    await create('again');
    const required = new Schema([new Field('id', new Int32(), true), new Field('must', new Int32(), false)]);
    const rows = new Table(required, {
      id: vectorFromArray([1], new Int32()),
      must: vectorFromArray([1], new Int32()),
    });
    succeeded(await service.post('/v1/table/requires/create', Buffer.from(tableToIPC(rows, 'stream'))));
    const body = stream({ id: [1] });
    succeeded(await merge('again', ['id'], body));
    refused(await merge('again', ['region'], body), 400, 12, /the source has no column region$/);
    refused(await merge('requires', ['id'], body), 400, 20, /column must is missing in the source/);
    const update =
      '/v1/table/requires/merge_insert?on=id&when_matched_update_all=true&when_not_matched_insert_all=false';
    succeeded(await service.post(update, body));
    refused(await merge('requires', ['id'], body), 400, 20, /column must is missing in the source/);
  });

  test('a key that the source holds twice is named with its canonical path (P2)', async () => {
    const on = ['person.address.`zip.code`'];
    refused(
      await merge('mistakes', on, nested([4, 5, 4], 'x')),
      400,
      13,
      /person\.address\.`zip\.code` = .*zip 4.* in rows 1 and 3/,
    );
  });

  test('columns that do not fit are named with code 20', async () => {
    refused(await merge('mistakes', ['id'], stream({ id: [1], shoe: ['x'] })), 400, 20, /shoe/);
    refused(
      await merge('mistakes', ['id'], stream({ id: [1], note: [5] })),
      400,
      20,
      /column note is utf8 in the table and int32/,
    );
  });
});
