/** Credentials in the catalog are those of every replica (P9). */
import assert from 'node:assert/strict';
import { before, beforeEach, describe, type TestContext, test } from 'node:test';
import { ApiKeyStore } from '#src/auth/tokens/api-keys.ts';
import { rotateIssuerKey } from '#src/auth/tokens/issuer-key.ts';
import { OwnIssuer } from '#src/auth/tokens/own-issuer.ts';
import { openPostgresSession } from '#src/catalog/postgres/open-postgres-catalog.ts';
import type { SqlSession } from '#src/catalog/sql-catalog.ts';
import { SqlApiKeys, SqlIssuerKeys } from '#src/catalog/sql-credentials.ts';
import { bearer, refusal } from '#test/auth/refusals.ts';
import { StoppedClock } from '#test/auth/stopped-clock.ts';
import { lastFirst } from '#test/fixtures/after-suite.ts';
import { type PostgresServer, sharedPostgres, withoutPostgres } from '#test/fixtures/postgres.ts';

describe('credentials in a PostgreSQL catalog', { skip: withoutPostgres ?? false }, () => {
  let server: PostgresServer;
  let clock: StoppedClock;
  before(async () => {
    server = await sharedPostgres();
  });
  beforeEach(() => {
    clock = new StoppedClock();
  });

  async function twoReplicas(t: TestContext): Promise<readonly [SqlSession, SqlSession, queries: () => number]> {
    const after = lastFirst((clean) => t.after(clean));
    const url = await server.newDatabase();
    const [one, other] = await Promise.all([openPostgresSession({ url }), openPostgresSession({ url })]);
    after(() => Promise.all([one.close(), other.close()]).then(() => undefined));
    let queries = 0;
    const counted: SqlSession = {
      read(work) {
        queries += 1;
        return other.read(work);
      },
      transact: (work) => other.transact(work),
      transactInRoom: (work) => other.transactInRoom(work),
      insist: (work) => other.insist(work),
      reserveRoom: (records, answers) => other.reserveRoom(records, answers),
      close: () => other.close(),
    };
    return [one, counted, () => queries];
  }

  test('an API key that one replica made is accepted by the other, and not a second after it was revoked', async (t) => {
    const [one, other] = (await twoReplicas(t)).slice(0, 2).map((session) => {
      return new ApiKeyStore(new SqlApiKeys(session as SqlSession, clock), clock);
    }) as [ApiKeyStore, ApiKeyStore];
    const request = { subject: 'loader', scopes: ['lancegate:write'], groups: ['crew'] };
    const { key, record } = await one.create(request);
    const credential = { kind: 'api-key', secret: key } as const;
    assert.deepEqual(await other.verify(credential), { ...request, issuer: 'api-key', keyId: record.id });
    assert.equal(await other.verify(credential), await other.verify(credential), 'one principal');
    assert.deepEqual(await other.list(), [record]);
    assert.equal(await one.revoke(record.id), true);
    const revokedAtMs = clock.nowMs();
    clock.advance(1_000);
    assert.match(await refusal(other.verify(credential), 'Unauthenticated', key), /revoked/);
    assert.equal(await one.revoke(record.id), true);
    assert.deepEqual(await other.list(), [{ ...record, revokedAtMs }], 'it keeps the time of its revocation');
    assert.equal(await one.revoke('0'.repeat(16)), false);
  });

  test('only the hash of a secret is in the database', async (t) => {
    const [session] = await twoReplicas(t);
    const { key } = await new ApiKeyStore(new SqlApiKeys(session, clock), clock).create({ subject: 's', scopes: [] });
    const rows = await session.read((db) => db.selectFrom('api_keys').selectAll().execute());
    assert.doesNotMatch(JSON.stringify(rows), new RegExp(key.split('_')[2]!));
  });

  test('a thousand requests with keys, known or tried, take one connection and a few queries (P7)', async (t) => {
    const [one, other, queries] = await twoReplicas(t);
    const { key } = await new ApiKeyStore(new SqlApiKeys(one, clock), clock).create({ subject: 's', scopes: [] });
    const store = new ApiKeyStore(new SqlApiKeys(other, clock), clock);
    const tried = (number: number) => `lgk_${number.toString(16).padStart(16, '0')}_${'0'.repeat(64)}`;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 1_000 }, (_, number) =>
        store.verify({ kind: 'api-key', secret: number % 2 === 0 ? key : tried(number) }),
      ),
    );
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 500);
    assert.equal(queries(), 2, 'the first request is asked for alone, the others together');
  });

  test('a token that one replica minted is accepted by the other, and so is a rotation within a second', async (t) => {
    const sessions = await twoReplicas(t);
    const [one, other] = [new SqlIssuerKeys(sessions[0], 'own'), new SqlIssuerKeys(sessions[1], 'own')];
    const [minting, verifying] = await Promise.all([OwnIssuer.open(one, clock), OwnIssuer.open(other, clock)]);
    const request = { subject: 'ann', scopes: ['lancegate:read'], expiresAfterMs: 3_600_000 };
    const token = await minting.mint(request);
    assert.equal((await verifying.verify(bearer(token)))?.subject, 'ann');
    await rotateIssuerKey(one, { clock, acceptOldForMs: 0 });
    clock.advance(1_000);
    await refusal(verifying.verify(bearer(token)), 'Unauthenticated', token);
    const next = await (await OwnIssuer.open(one, clock)).mint(request);
    assert.ok(await verifying.verify(bearer(next)));
  });

  test('of rotations at once none loses the key of another', async (t) => {
    const sessions = await twoReplicas(t);
    const [one, other] = [new SqlIssuerKeys(sessions[0], 'own'), new SqlIssuerKeys(sessions[1], 'own')];
    await OwnIssuer.open(one, clock);
    const rotate = (records: SqlIssuerKeys) => rotateIssuerKey(records, { clock, acceptOldForMs: 60_000 });
    await Promise.all([rotate(one), rotate(other), rotate(one), rotate(other)]);
    const { accepted } = await rotate(one);
    assert.equal(accepted.length, 6);
  });

  test('keys that are known are accepted while the database is gone', async (t) => {
    const [session] = await twoReplicas(t);
    const records = new SqlIssuerKeys(session, 'own');
    const isGone = { yes: false };
    const issuer = await OwnIssuer.open(
      {
        name: records.name,
        signature: () => (isGone.yes ? Promise.reject(new Error('gone')) : records.signature()),
        read: () => (isGone.yes ? Promise.reject(new Error('gone')) : records.read()),
        create: (document) => records.create(document),
        replace: (next) => records.replace(next),
      },
      clock,
    );
    const token = await issuer.mint({ subject: 'ann', scopes: [], expiresAfterMs: 60_000 });
    isGone.yes = true;
    clock.advance(2_000);
    assert.equal((await issuer.verify(bearer(token)))?.subject, 'ann');
  });
});
