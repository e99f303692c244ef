import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import {
  type IntrospectionSettings,
  IntrospectionVerifier,
  introspectionDefaults,
} from '#src/auth/tokens/introspection-verifier.ts';
import { AuthorizationServer } from '#test/fixtures/authorization-server.ts';
import { bearer, refusal } from './refusals.ts';
import { StoppedClock } from './stopped-clock.ts';

const endpointPath = '/token/introspection';

const silent = { warn: () => {} };

describe('opaque tokens, by introspection (P9)', () => {
  let server: AuthorizationServer;
  let clock: StoppedClock;
  let verifier: IntrospectionVerifier;
  let askedBefore: number;

  const verifierWith = (changes: Partial<IntrospectionSettings> = {}) =>
    new IntrospectionVerifier(
      {
        ...introspectionDefaults,
        ...server.introspection,
        issuer: server.issuer,
        audiences: [server.audience],
        ...changes,
      },
      clock,
      silent,
    );
  const asked = () => server.requestsTo(endpointPath) - askedBefore;

  before(async () => {
    server = await AuthorizationServer.start({ clients: { writer: { groups: ['crew'] } } });
  });
  after(() => server[Symbol.asyncDispose]());
  beforeEach(() => {
    server.goUp();
    clock = new StoppedClock();
    verifier = verifierWith();
    askedBefore = server.requestsTo(endpointPath);
  });

  it('lets an active token in, called by its client where it has no subject', async () => {
    const token = await server.opaque({ client: 'writer', scopes: ['lancegate:write'] });
    assert.deepEqual(await verifier.verify(bearer(token)), {
      subject: 'writer',
      scopes: ['lancegate:write'],
      groups: ['crew'],
      issuer: server.issuer,
    });
  });

  it('refuses an unknown token', async () => {
    const message = await refusal(verifier.verify(bearer('made-up')), 'Unauthenticated', 'made-up');
    assert.match(message, /not active/);
  });

  it('leaves to others: API keys, however they are sent, and JWTs', async () => {
    const jwt = await server.jwt({ client: 'writer' });
    assert.equal(await verifier.verify(bearer(jwt)), undefined);
    assert.equal(await verifier.verify(bearer(`lgk_${'0'.repeat(16)}_${'0'.repeat(64)}`)), undefined);
    assert.equal(await verifier.verify({ kind: 'api-key', secret: 'made-up' }), undefined);
    assert.equal(asked(), 0);
  });

  it('notices a revocation once the answer is no longer believed', async () => {
    const token = await server.opaque({ client: 'writer' });
    assert.ok(await verifier.verify(bearer(token)));
    await server.revoke(token, 'writer');
    clock.advance(introspectionDefaults.cacheForMs - 1);
    assert.ok(await verifier.verify(bearer(token)));
    clock.advance(1);
    await refusal(verifier.verify(bearer(token)), 'Unauthenticated', token);
  });

  it('believes an answer no longer than the token is valid', async () => {
    verifier = verifierWith({ cacheForMs: 3_600_000 });
    const token = await server.opaque({ client: 'writer' });
    assert.ok(await verifier.verify(bearer(token)));
    clock.advance(299_000 - 5_000);
    assert.ok(await verifier.verify(bearer(token)));
    assert.equal(asked(), 1);
    clock.advance(10_000);
    assert.ok(await verifier.verify(bearer(token)), 'the server, by its own clock, still calls it active');
    assert.equal(asked(), 2);
  });

  it('asks once for many requests with one token, good or bad (P7)', async () => {
    const token = await server.opaque({ client: 'writer' });
    await Promise.all(Array.from({ length: 8 }, () => verifier.verify(bearer(token))));
    assert.equal(asked(), 1);
    const bad = Array.from({ length: 8 }, () => refusal(verifier.verify(bearer('made-up')), 'Unauthenticated'));
    await Promise.all(bad);
    await refusal(verifier.verify(bearer('made-up')), 'Unauthenticated');
    assert.equal(asked(), 2);
    clock.advance(2_000);
    await refusal(verifier.verify(bearer('made-up')), 'Unauthenticated');
    assert.equal(asked(), 3);
  });

  it('looks up a bounded number of tokens at once (P7)', async () => {
    const tokens = Array.from({ length: 65 }, (_, index) => verifier.verify(bearer(`made-up-${index}`)));
    const kinds = tokens.map((_, index) => (index < 64 ? 'Unauthenticated' : 'SlowDown'));
    await Promise.all(tokens.map((token, index) => refusal(token, kinds[index] ?? 'Internal')));
    await refusal(verifier.verify(bearer('made-up-64')), 'Unauthenticated');
  });

  it('refuses a token made out to another service', async () => {
    verifier = verifierWith({ audiences: ['https://other.test'] });
    const token = await server.opaque({ client: 'writer' });
    assert.match(await refusal(verifier.verify(bearer(token)), 'Unauthenticated', token), /claim aud/);
    verifier = verifierWith({ audiences: [] });
    assert.ok(await verifier.verify(bearer(token)));
  });

  it('cannot tell while the server is down, and says so; an answer it has goes on serving', async () => {
    const known = await server.opaque({ client: 'writer' });
    const unknown = await server.opaque({ client: 'writer' });
    assert.ok(await verifier.verify(bearer(known)));
    server.goDown();
    assert.ok(await verifier.verify(bearer(known)));
    await refusal(verifier.verify(bearer(unknown)), 'IssuerUnavailable', unknown);
    server.goUp();
    assert.ok(await verifier.verify(bearer(unknown)));
  });

  it('cannot tell when the server does not accept the service as its client', async () => {
    verifier = verifierWith({ clientSecret: 'wrong' });
    const token = await server.opaque({ client: 'writer' });
    await refusal(verifier.verify(bearer(token)), 'IssuerUnavailable', token);
  });

  it('needs no discovery where the endpoint is set', async () => {
    const discoveries = server.requestsTo('/.well-known/openid-configuration');
    verifier = verifierWith({ issuer: 'the company login', endpoint: `${server.issuer}${endpointPath}` });
    const principal = await verifier.verify(bearer(await server.opaque({ client: 'writer' })));
    assert.equal(principal?.issuer, 'the company login');
    assert.equal(server.requestsTo('/.well-known/openid-configuration'), discoveries);
  });
});

describe('what other servers answer to an introspection (P9)', () => {
  const audience = 'https://tables.test';
  const answered: unknown[] = [];
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(answered.shift()));
  });
  let endpoint: string;

  before(async () => {
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/introspect`;
  });
  after(() => server.close());

  const verify = (answer: unknown, changes: Partial<IntrospectionSettings> = {}) => {
    const client = { clientId: 'lancegate', clientSecret: 'secret' };
    const settings = { ...introspectionDefaults, ...client, issuer: 'login', endpoint, audiences: [audience] };
    answered.push(answer);
    return new IntrospectionVerifier({ ...settings, ...changes }, new StoppedClock(), silent).verify(bearer('token'));
  };
  const active = { active: true, sub: 'ann', aud: audience };

  it('counts where it says active, and names one of several audiences', async () => {
    assert.equal((await verify(active))?.subject, 'ann');
    assert.equal((await verify({ ...active, aud: ['https://other.test', audience] }))?.subject, 'ann');
  });

  it('is refused without an audience, unless that is forgiven', async () => {
    const answer = { active: true, sub: 'ann' };
    await refusal(verify(answer), 'Unauthenticated');
    assert.ok(await verify(answer, { audienceRequired: false }));
    await refusal(verify({ ...answer, aud: 'https://other.test' }, { audienceRequired: false }), 'Unauthenticated');
  });

  it('is refused for a token that is not for presenting to a service', async () => {
    for (const sort of [{ token_type: 'refresh_token' }, { token_type: 7 }, { token_use: 'refresh_token' }]) {
      await refusal(verify({ ...active, ...sort }), 'Unauthenticated');
    }
    for (const sort of [{ token_type: 'Bearer' }, { token_type: 'access_token' }, { token_use: 'access_token' }]) {
      assert.ok(await verify({ ...active, ...sort }));
    }
  });

  it('is no answer at all in another form', async () => {
    for (const answer of ['active', { active: 'true' }, { error: 'server_error' }, null]) {
      await refusal(verify(answer), 'IssuerUnavailable');
    }
  });
});
