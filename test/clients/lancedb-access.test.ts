import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { AuthorizationServer } from '#test/fixtures/authorization-server.ts';
import { startTestService, type TestService } from '#test/fixtures/service.ts';
import { connectByApiKey, connectOver, makeApiKey, openDirectly, refusal, rowsInOrder } from './connections.ts';
import { peopleTable, person } from './people.ts';

const [ann, bob] = [person(1, 'ann', 1), person(2, 'bob', 2)];

describe('the LanceDB SDK shows who it is (P9)', () => {
  const later = afterSuite();
  let service: TestService;
  let issuer: AuthorizationServer;
  before(async () => {
    issuer = await AuthorizationServer.start({ clients: { loader: {} } });
    later(() => issuer[Symbol.asyncDispose]());
    service = await startTestService(later, {
      OWN_ISSUER: 'true',
      OIDC_ISSUER: issuer.issuer,
      OIDC_AUDIENCE: issuer.audience,
      ALLOW_INSECURE_ISSUER: 'true',
    });
  });
  const byOAuth = (...scopes: string[]) =>
    connectOver(service, {
      oauthConfig: {
        issuerUrl: issuer.issuer,
        clientId: 'loader',
        clientSecret: issuer.introspection.clientSecret,
        scopes,
        refreshBufferSecs: 30,
      },
    });

  test('by client credentials of an authorization server: it fetches one token and works with it', async () => {
    const database = await byOAuth('lancegate:write');
    const people = await database.createTable('by_oauth', peopleTable([ann]));
    await people.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute([bob]);
    assert.deepEqual(await rowsInOrder(await openDirectly(service, 'by_oauth'), 'id'), [ann, bob]);
    assert.equal(issuer.requestsTo('/token'), 1);
  });

  test('with such a token, too, scopes decide', async () => {
    const database = await byOAuth('lancegate:read');
    await assert.rejects(database.createTable('not_by_oauth', peopleTable([ann])), refusal(/403/, /CreateTable/));
  });

  test('by a bearer token in a header, together with the API key that the SDK insists on', async () => {
    const token = await service.mint('lancegate:write');
    const database = await connectOver(service, {
      apiKey: 'unused',
      clientConfig: { extraHeaders: { authorization: `Bearer ${token}` } },
    });
    await database.createTable('by_token', peopleTable([ann]));
    assert.deepEqual(await rowsInOrder(await openDirectly(service, 'by_token'), 'id'), [ann]);
  });

  test('an API key that was never made, or that was cut short, is refused before anything happens', async () => {
    const key = await makeApiKey(service, 'lancegate:write');
    for (const apiKey of ['wrong', key.slice(0, -1)]) {
      const database = await connectOver(service, { apiKey });
      await assert.rejects(database.tableNames(), refusal(/401/, /API key/));
      await assert.rejects(database.createTable('by_nobody', peopleTable([ann])), refusal(/401/));
    }
    await assert.rejects(openDirectly(service, 'by_nobody'));
  });

  test('a key for reading counts and describes, and does not write or drop', async () => {
    const writer = await connectByApiKey(service, 'lancegate:write');
    await writer.createTable('read_only', peopleTable([ann]));
    const reader = await connectByApiKey(service, 'lancegate:read');
    const table = await reader.openTable('read_only');
    assert.equal(await table.countRows(), 1);
    assert.equal((await table.schema()).fields.length, 3);
    const merge = table.mergeInsert('id').whenNotMatchedInsertAll();
    await assert.rejects(merge.execute([bob]), refusal(/403/, /MergeInsertIntoTable/, /read_only/));
    await assert.rejects(writer.dropTable('read_only'), refusal(/403/, /DropTable.*needs the scope lancegate:admin/));
    assert.deepEqual(await rowsInOrder(await openDirectly(service, 'read_only'), 'id'), [ann]);
  });

  test('a key for writing overwrites and deletes by source', async () => {
    const writer = await connectByApiKey(service, 'lancegate:write');
    await writer.createTable('rewritten', peopleTable([ann]));
    const table = await writer.createTable('rewritten', peopleTable([ann, bob]), { mode: 'overwrite' });
    await table.mergeInsert('id').whenNotMatchedBySourceDelete().execute([bob]);
    assert.equal(await table.countRows(), 1);
    assert.equal(await table.countRows('id = 1'), 0);
  });

  test('no secret is in a refusal or in the log', async () => {
    const key = await makeApiKey(service, 'lancegate:read');
    const database = await connectOver(service, { apiKey: key });
    const secret = key.split('_').at(-1) ?? key;
    await assert.rejects(
      database.createTable('secretly', peopleTable([ann])),
      (error) => !String(error).includes(secret),
    );
    assert.ok(service.log.every((line) => !line.includes(secret)));
  });
});
