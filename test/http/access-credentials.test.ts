import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ApiKeyFile } from '#src/auth/tokens/api-key-file.ts';
import { ApiKeyStore } from '#src/auth/tokens/api-keys.ts';
import { IssuerKeyFile } from '#src/auth/tokens/issuer-key-file.ts';
import { OwnIssuer } from '#src/auth/tokens/own-issuer.ts';
import { type Clock, systemClock } from '#src/kernel/clock.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { AuthorizationServer } from '#test/fixtures/authorization-server.ts';
import type { HeaderFields, TestService } from '#test/fixtures/service.ts';
import { refused, startCheckedService, succeeded } from './checked-service.ts';
import { people } from './rows.ts';

/** The machine's clock, put forward where a test does not want to wait. */
class ForwardClock implements Clock {
  forwardMs = 0;
  nowMs = (): number => systemClock.nowMs() + this.forwardMs;
  schedule = systemClock.schedule;
}

describe('credentials of every sort, at the whole service (P9)', () => {
  const later = afterSuite();
  const clock = new ForwardClock();
  const secrets: string[] = [];
  let issuer: AuthorizationServer;
  let service: TestService;
  before(async () => {
    issuer = await AuthorizationServer.start({ clients: { loader: {}, reader: {} } });
    later(() => issuer[Symbol.asyncDispose]());
    const { clientId, clientSecret } = issuer.introspection;
    const settings = {
      OWN_ISSUER: 'true',
      OIDC_ISSUER: issuer.issuer,
      OIDC_AUDIENCE: issuer.audience,
      INTROSPECTION_ISSUER: issuer.issuer,
      INTROSPECTION_CLIENT_ID: clientId,
      INTROSPECTION_CLIENT_SECRET: clientSecret,
      INTROSPECTION_AUDIENCE: issuer.audience,
      ALLOW_INSECURE_ISSUER: 'true',
    };
    service = await startCheckedService(later, settings, clock);
    secrets.push(clientSecret);
    succeeded(await service.post('/v1/table/t/create', people([1], 'x')));
  });

  const merge = (headers: HeaderFields) => service.post('/v1/table/t/merge_insert?on=id', people([1], 'y'), headers);
  const bearing = (token: string): HeaderFields => {
    secrets.push(token);
    return { authorization: `Bearer ${token}` };
  };
  const apiKey = async (...scopes: string[]) => {
    using keyFile = new ApiKeyFile(join(service.dataFolder, 'api-keys.sqlite'));
    const store = new ApiKeyStore(keyFile, systemClock);
    const made = await store.create({ subject: 'key holder', scopes });
    secrets.push(made.key);
    return made;
  };
  const unauthenticated = async (headers: HeaderFields, challenge: RegExp) => {
    const answer = await merge(headers);
    refused(answer, 401, 16);
    assert.match(answer.headers.get('www-authenticate') ?? '', challenge);
  };
  const invalid = /^Bearer realm="lancegate", error="invalid_token", error_description="[^"]+"$/;

  test('none: 401 with a challenge that names no error, also for empty headers', async () => {
    await unauthenticated({ authorization: '' }, /^Bearer realm="lancegate"$/);
    await unauthenticated({ authorization: '', 'x-api-key': '' }, /^Bearer realm="lancegate"$/);
  });

  test('a header that is not Bearer and a token: 401, invalid_request', async () => {
    for (const authorization of ['Basic YTpi', 'Bearer', 'Bearer a b', 'token']) {
      await unauthenticated({ authorization }, /error="invalid_request"/);
    }
  });

  test('a token of the service itself, until its time is over or its key is another', async () => {
    succeeded(await merge(bearing(await service.mint('lancegate:write'))));
    const own = await OwnIssuer.open(new IssuerKeyFile(join(service.dataFolder, 'issuer-key.json')), {
      ...systemClock,
      nowMs: () => Date.now() - 7_200_000,
    });
    const old = await own.mint({ subject: 'late', scopes: ['lancegate:write'], expiresAfterMs: 3_600_000 });
    await unauthenticated(bearing(old), invalid);
    const foreign = await OwnIssuer.open(new IssuerKeyFile(join(service.dataFolder, 'another-key.json')), systemClock);
    const forged = await foreign.mint({ subject: 'forger', scopes: ['lancegate:admin'], expiresAfterMs: 3_600_000 });
    await unauthenticated(bearing(forged), invalid);
  });

  test('a JWT of the authorization server, with the rights of its scopes', async () => {
    succeeded(await merge(bearing(await issuer.jwt({ client: 'loader' }))));
    refused(await merge(bearing(await issuer.jwt({ client: 'reader', scopes: ['lancegate:read'] }))), 403, 15);
  });

  const badTokens: Readonly<Record<string, () => string | Promise<string>>> = {
    'for another audience': () => issuer.sign({ aud: 'https://other.test', scope: 'lancegate:write' }),
    'for no audience': () => issuer.sign({ aud: undefined, scope: 'lancegate:write' }),
    expired: () => issuer.sign({ exp: Math.floor(clock.nowMs() / 1000) - 60, scope: 'lancegate:write' }),
    'that never expires': () => issuer.sign({ exp: undefined, scope: 'lancegate:write' }),
    'not valid yet': () => issuer.sign({ nbf: Math.floor(clock.nowMs() / 1000) + 90, scope: 'lancegate:write' }),
    'of another issuer': () => issuer.sign({ iss: 'https://other.test', scope: 'lancegate:write' }),
    'with alg none': () => issuer.unsigned(),
    'with alg none and a signature': () => issuer.unsigned('c2ln'),
    'signed with the public key as a secret': () => issuer.signWithPublicKeyAsSecret(),
    'of another type': () => issuer.sign({ scope: 'lancegate:write' }, { typ: 'dpop+jwt' }),
    'with its scopes changed': async () => {
      const [head, claims = '', signature] = (await issuer.sign()).split('.');
      const raised = {
        ...(JSON.parse(Buffer.from(claims, 'base64url').toString()) as object),
        scope: 'lancegate:admin',
      };
      return [head, Buffer.from(JSON.stringify(raised)).toString('base64url'), signature].join('.');
    },
  };
  for (const [what, make] of Object.entries(badTokens)) {
    test(`a JWT ${what} is 401`, async () => {
      await unauthenticated(bearing(await make()), invalid);
    });
  }

  test('a JWT whose key the server has just begun to use is let in, and one whose key it gave up is not for long', async () => {
    const before = await issuer.jwt({ client: 'loader' });
    succeeded(await merge(bearing(before)));
    await issuer.rotateKey();
    clock.forwardMs += 31_000;
    succeeded(await merge(bearing(await issuer.jwt({ client: 'loader' }))));
    clock.forwardMs += 61_000;
    await unauthenticated(bearing(before), invalid);
  });

  test('an opaque token, which the server is asked about, until it is revoked', async () => {
    const token = await issuer.opaque({ client: 'loader' });
    succeeded(await merge(bearing(token)));
    refused(await merge(bearing(await issuer.opaque({ client: 'reader', scopes: ['lancegate:read'] }))), 403, 15);
    await issuer.revoke(token, 'loader');
    clock.forwardMs += 31_000;
    await unauthenticated(bearing(token), invalid);
    await unauthenticated(bearing('made-up-opaque-token'), invalid);
  });

  test('503, not 401, while the server that knows the token does not answer', async () => {
    const token = await issuer.opaque({ client: 'loader' });
    issuer.goDown();
    const answer = await merge(bearing(token));
    issuer.goUp();
    refused(answer, 503, 17);
    assert.ok(Number(answer.headers.get('retry-after')) > 0);
  });

  test('an API key in either header, until it is revoked', async () => {
    const { key, record } = await apiKey('lancegate:write');
    succeeded(await merge({ 'x-api-key': key }));
    succeeded(await merge(bearing(key)));
    refused(await merge({ 'x-api-key': (await apiKey('lancegate:read')).key }), 403, 15);
    await unauthenticated({ 'x-api-key': `${key.slice(0, -1)}x` }, invalid);
    using keyFile = new ApiKeyFile(join(service.dataFolder, 'api-keys.sqlite'));
    const store = new ApiKeyStore(keyFile, systemClock);
    await store.revoke(record.id);
    await unauthenticated({ 'x-api-key': key }, invalid);
  });

  test('Authorization counts where both headers are there, and nothing falls back', async () => {
    const { key } = await apiKey('lancegate:write');
    await unauthenticated({ ...bearing('nonsense'), 'x-api-key': key }, invalid);
    succeeded(await merge({ ...bearing(await service.mint('lancegate:write')), 'x-api-key': 'placeholder' }));
  });

  test('a token in the query is no credential', async () => {
    const token = await service.mint('lancegate:admin');
    const path = `/v1/table/t/merge_insert?on=id&access_token=${token}`;
    refused(await service.post(path, people([1], 'y'), { authorization: '' }), 401, 16);
    secrets.push(token);
  });

  after(() => {
    const log = service.log.join('');
    assert.ok(log.includes('"status":401'), 'refusals are logged');
    for (const secret of secrets) {
      assert.ok(!log.includes(secret), 'a secret is in the log');
      const signature = secret.split('.')[2];
      assert.ok(!signature || !log.includes(signature), 'the signature of a token is in the log');
    }
  });
});
