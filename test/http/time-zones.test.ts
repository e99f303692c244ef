/** Timestamps in a zone that the engine does not know are stored by it, and then neither compared nor converted. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { connect } from '@lancedb/lancedb';
import {
  Field,
  Int64,
  List,
  Schema,
  Struct,
  Table,
  Timestamp,
  TimeUnit,
  tableToIPC,
  vectorFromArray,
} from 'apache-arrow';
import { namedZones } from '#src/arrow/schema/time-zones.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import type { TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { part, transact } from './multipart-body.ts';
import { type Row, storedRows, stream } from './rows.ts';

const zoned = (zone: string) => new Timestamp(TimeUnit.MICROSECOND, zone);
const unknown = zoned('Mars/Phobos');
const ofZone = (type: Timestamp) => vectorFromArray([0, 1], type);
const inside = new List(new Field('item', new Struct([new Field('at', unknown, true)]), true));
const says = /^(operation \w+: )?column (at|\w+\.item\.at): type timestamp\(\w+, Mars\/Phobos\) .*time zone/;

describe('a timestamp in a zone that the engine does not know', () => {
  const later = afterSuite();
  let service: TestService;
  let rows: readonly Row[];
  const post = (path: string, body: object | Buffer = {}) => service.post(`/v1/table/${path}`, body);
  before(async () => {
    service = await startCheckedService(later);
    succeeded(await post('t/create', stream({ id: [1, 2], n: ofZone(zoned('UTC')) })));
    rows = await storedRows(service, 't');
  });

  test('is refused with its column where a table is made', async () => {
    const source = stream({ id: [1, 2], at: ofZone(unknown) });
    for (const mode of ['create', 'overwrite', 'exist_ok']) {
      refused(await post(`new/create?mode=${mode}`, source), 400, 20, says);
    }
    succeeded(await post('declared/declare'));
    for (const write of ['insert', 'merge_insert?on=id'])
      refused(await post(`declared/${write}`, source), 400, 20, says);
    refused(await post('new/create', stream({ l: vectorFromArray([null], inside) })), 400, 20, says);
    for (const zone of ['utc', 'Europe/berlin', 'PST', '+24', '+0260', '+2']) {
      refused(await post('new/create', stream({ at: ofZone(zoned(zone)) })), 400, 20, /time zone/);
    }
  });

  test('is refused as a new column, by its schema or by an expression, and as the type of one', async () => {
    const schema = (type: Timestamp | List, name: string) =>
      Buffer.from(tableToIPC(new Table(new Schema([new Field(name, type, true)])), 'stream'));
    for (const body of [schema(unknown, 'at'), schema(inside, 'l')]) {
      refused(await post('t/add_columns', body), 400, 20, says);
    }
    for (const value of ['id', 'n', 'NULL']) {
      const expression = `arrow_cast(${value}, 'Timestamp(Microsecond, Some("Mars/Phobos"))')`;
      const columns = { new_columns: [{ name: 'at', expression }] };
      refused(await post('t/add_columns', columns), 400, 20, says);
      const step = part('a', { operation: 'add_columns', ...columns });
      const erase = part('d', { operation: 'delete', predicate: 'id = 1' });
      refused(await transact(service, 't', [erase, step]), 400, 20, says);
    }
    const alterations = [{ path: 'n', data_type: { type: 'timestamp:us:Mars/Phobos' } }];
    refused(await post('t/alter_columns', { alterations }), 400, 13, /Mars\/Phobos/);
    assert.deepEqual(await storedRows(service, 't'), rows);
  });

  test('stays in a table of another program, whose other columns are read and written', async () => {
    const database = await connect(service.tablesFolder);
    await database.createTable('old', new Table({ id: vectorFromArray([1n, 2n], new Int64()), at: ofZone(unknown) }));
    succeeded(await post('old/register', { location: 'old.lance' }));
    succeeded(await post('old/update', { predicate: 'id = 1', updates: [['id', '3']] }));
    succeeded(await post('old/update_field_metadata', { updates: [{ path: 'at', metadata: { from: 'there' } }] }));
    succeeded(
      await post(
        'old/merge_insert?on=id',
        stream({ id: vectorFromArray([2n], new Int64()), at: vectorFromArray([5], unknown) }),
      ),
    );
    succeeded(await post('old/maintain'));
    assert.equal((await post('old/count_rows', { predicate: 'id = 3' })).body, 1);
  });
});

test('the engine computes with every zone that a table may have', async (t) => {
  const service = await startCheckedService(t.after.bind(t));
  const table = await (await connect(service.tablesFolder)).createTable('t', [{ id: 1 }]);
  const zones = [...namedZones, '+00', '-0530', '+2359'];
  for (let at = 0; at < zones.length; at += 100) {
    const conditions = zones
      .slice(at, at + 100)
      .map((zone) => `arrow_cast('2026-01-01', 'Timestamp(s, Some("${zone}"))') IS NOT NULL`);
    assert.equal(await table.countRows(conditions.join(' AND ')), 1);
  }
});
