/**
 * LanceDB's `connectNamespace("rest")` asks the service only where a table is, then reads and writes the files itself.
 * So it reads well, and must not be used to write: what it writes goes past the gate. These tests hold what it can do,
 * and that nothing is lost where a program writes with it nevertheless.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Connection, connectNamespace } from '@lancedb/lancedb';
import { tableToIPC } from 'apache-arrow';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { allRights, connectByApiKey, makeApiKey, type Row, refusal, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

const [ann, bob, cid] = [person(1, 'ann', 1), person(2, 'bob', 2), person(3, 'cid', 3)];
const stream = (...rows: readonly Row[]): Uint8Array => tableToIPC(peopleTable(rows), 'stream');

describe('connectNamespace("rest") of LanceDB', () => {
  const later = afterSuite();
  let service: TestService;
  let gate: Connection;
  let direct: Connection;
  before(async () => {
    service = await startTestService(later);
    gate = await connectByApiKey(service);
    direct = await connectNamespace('rest', {
      uri: service.url,
      'headers.authorization': `Bearer ${await makeApiKey(service, allRights)}`,
    });
  });

  test('finds and reads the tables of the service, in namespaces too', async () => {
    await gate.createNamespace(['shelf']);
    await gate.createTable('read', peopleTable([ann, bob]), ['shelf']);
    assert.deepEqual(await direct.tableNames(['shelf']), ['read']);
    assert.deepEqual(await rowsInOrder(await direct.openTable('read', ['shelf']), 'id'), [ann, bob]);
  });

  test('takes its errors from the numeric codes', async () => {
    await assert.rejects(direct.openTable('nowhere'), refusal(/Table 'nowhere' was not found/));
    await assert.rejects(direct.describeNamespace(['nowhere']), refusal(/Namespace not found: namespace 'nowhere'/));
    const stranger = await connectNamespace('rest', { uri: service.url, 'headers.authorization': 'Bearer lgk_0' });
    await assert.rejects(stranger.tableNames(), refusal(/Unauthenticated: The API key is malformed/));
  });

  test('rows it writes past the gate are seen by the next merge through the gate (P2)', async () => {
    await gate.createTable('past', peopleTable([ann]));
    const past = await direct.openTable('past');
    await past
      .mergeInsert('id')
      .whenNotMatchedInsertAll()
      .execute(peopleTable([bob]));
    const people = await gate.openTable('past');
    const upsert = people.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll();
    const answer = await upsert.execute([person(2, 'BOB', 20), cid]);
    assert.deepEqual([answer.numUpdatedRows, answer.numInsertedRows], [1, 1]);
    assert.deepEqual(await rowsInOrder(await direct.openTable('past'), 'id'), [ann, person(2, 'BOB', 20), cid]);
  });

  test('a table it creates is taken by the next request that names it', async () => {
    await direct.createTable('own', peopleTable([ann, bob]));
    const described = await service.post('/v1/table/own/describe');
    assert.deepEqual([described.body.is_only_declared, described.body.version], [false, 1]);
    assert.equal((await service.post('/v1/table/own/merge_insert?on=id', stream(cid))).status, 200);
    assert.deepEqual(await rowsInOrder(await direct.openTable('own'), 'id'), [ann, bob, cid]);
  });
});

describe('connectNamespace("rest") of LanceDB, where the service manages versions', () => {
  const later = afterSuite();

  test('commits through the service, in turn with upserts, and none of its versions is made past it (P2, P5)', async () => {
    const service = await startTestService(later, { MANAGED_VERSIONING: 'true' });
    const gate = await connectByApiKey(service);
    const direct = await connectNamespace('rest', {
      uri: service.url,
      'headers.authorization': `Bearer ${await makeApiKey(service, allRights)}`,
    });
    await gate.createTable('managed', peopleTable([ann]));
    const table = await direct.openTable('managed');
    const people = await gate.openTable('managed');
    await table.add(peopleTable([bob]));
    const upsert = people.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll();
    await upsert.execute([person(2, 'BOB', 20), cid]);
    await table.checkoutLatest();
    await table.delete('id = 1');
    await table
      .mergeInsert('id')
      .whenMatchedUpdateAll()
      .execute(peopleTable([person(3, 'CID', 30)]));
    assert.deepEqual(await rowsInOrder(people, 'id'), [person(2, 'BOB', 20), person(3, 'CID', 30)]);
    const created = service.log
      .map((line) => JSON.parse(line))
      .filter(({ route }) => route?.endsWith('/version/create'));
    assert.deepEqual(
      created.map(({ status, version }) => [status, version]),
      [
        [200, 2],
        [200, 4],
        [200, 5],
      ],
    );
  });
});
