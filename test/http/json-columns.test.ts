/** A table of another program with a column of Lance's own JSON: it is read and compacted, and nothing is written into that column. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Field, LargeBinary, Schema, Table, Utf8, vectorFromArray } from 'apache-arrow';
import { ipcFile } from '#test/fixtures/arrow-files.ts';
import { createNative } from '#test/fixtures/native-lance.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { storedRows, stream } from './rows.ts';

const json = new Map([['ARROW:extension:name', 'lance.json']]);
const schema = new Schema([new Field('id', new Utf8(), true), new Field('j', new LargeBinary(), true, json)]);

/** Bytes that are no JSON: the engine takes them as they are. */
const file = (id: string, text: string) =>
  ipcFile(
    new Table(schema, {
      id: vectorFromArray([id], new Utf8()),
      j: vectorFromArray([Buffer.from(text)], new LargeBinary()),
    }),
  );

test('a table with JSON that is none can be compacted, and its other columns written', async (t) => {
  const service = await startCheckedService((clean) => t.after(clean), { AUTO_MAINTENANCE: 'false' });
  const table = await createNative(service.tablesFolder, 'j', file('a', 'no json'));
  for (const id of ['b', 'c', 'd']) await table.append(file(id, ''));
  const post = (path: string, body: object | Buffer = {}) => service.post(`/v1/table/j/${path}`, body);
  succeeded(await post('register', { location: 'j.lance' }));
  const before = await storedRows(service, 'j');
  assert.deepEqual(before[0], { id: 'a', j: 'no json' });

  const { jobs } = succeeded(await post('maintain')) as { jobs: readonly { removed_fragments?: number }[] };
  assert.equal(jobs[0]?.removed_fragments, 3);
  assert.deepEqual(await storedRows(service, 'j'), before);

  const rows = stream({ id: ['e'], j: vectorFromArray([Buffer.from('{}')], new LargeBinary()) });
  for (const path of ['insert', 'merge_insert?on=id']) {
    refused(await post(path, rows), 400, 20, /^column j holds lance\.json in the table, .*leave the column out$/);
    succeeded(await post(path, stream({ id: ['e'] })));
  }
  succeeded(await post('maintain'));
  assert.deepEqual(await storedRows(service, 'j'), [...before, { id: 'e', j: null }]);
});
