import { before, describe } from 'node:test';
import { connectionOf } from '#src/catalog/postgres/connection.ts';
import { openPostgresCatalog } from '#src/catalog/postgres/open-postgres-catalog.ts';
import { catalogContract } from '#test/contract/catalog.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type PostgresServer, startPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';

describe('on PostgreSQL', { skip: withoutPostgres ?? false }, () => {
  const after = afterSuite();
  let server: PostgresServer;
  before(async () => {
    server = await startPostgres(after);
    const template = await server.newDatabase();
    await (await openPostgresCatalog(connectionOf(template))).close();
  });
  const open = async () => openPostgresCatalog(connectionOf(await server.newDatabase('database_1')));

  catalogContract('the PostgreSQL catalog', open);
});
