import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Authenticator } from '#src/auth/authenticator.ts';
import type { Resource } from '#src/auth/policy/actions.ts';
import { CedarPolicy } from '#src/auth/policy/cedar-policy.ts';
import { ApiKeyFile } from '#src/auth/tokens/api-key-file.ts';
import { ApiKeyStore } from '#src/auth/tokens/api-keys.ts';
import { IntrospectionVerifier, introspectionDefaults } from '#src/auth/tokens/introspection-verifier.ts';
import { IssuerKeyFile } from '#src/auth/tokens/issuer-key-file.ts';
import { JwtVerifier, jwtIssuerDefaults } from '#src/auth/tokens/jwt-verifier.ts';
import { OwnIssuer } from '#src/auth/tokens/own-issuer.ts';
import { systemClock } from '#src/kernel/clock.ts';
import type { ObjectName } from '#src/kernel/ids.ts';
import { AuthorizationServer } from '#test/fixtures/authorization-server.ts';
import { refusal } from './refusals.ts';

const silent = { warn: () => {}, error: () => {} };
const table = (...names: string[]): Resource => ({
  kind: 'table',
  table: { namespace: names.slice(0, -1) as ObjectName[], name: names.at(-1) as ObjectName },
});

/** As `service.ts` composes it, with every sort of credential at once. */
describe('the whole gate (P9)', () => {
  let folder: string;
  let server: AuthorizationServer;
  let ownIssuer: OwnIssuer;
  let keyFile: ApiKeyFile;
  let apiKeys: ApiKeyStore;
  let authenticator: Authenticator;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lancegate-gate-'));
    server = await AuthorizationServer.start({ clients: { loader: { groups: ['crew'] }, stranger: {} } });
    ownIssuer = await OwnIssuer.open(new IssuerKeyFile(join(folder, 'issuer-key.json')), systemClock);
    keyFile = new ApiKeyFile(join(folder, 'api-keys.sqlite'));
    apiKeys = new ApiKeyStore(keyFile, systemClock);
    const issuer = { issuer: server.issuer, audiences: [server.audience] };
    authenticator = new Authenticator([
      ownIssuer,
      new JwtVerifier({ ...jwtIssuerDefaults, ...issuer }, systemClock, silent),
      new IntrospectionVerifier({ ...introspectionDefaults, ...server.introspection, ...issuer }, systemClock, silent),
      apiKeys,
    ]);
  });
  after(async () => {
    keyFile[Symbol.dispose]();
    await server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  const bearing = (token: string) => authenticator.authenticate({ authorization: `Bearer ${token}` });

  it('knows the holder of every sort of credential', async () => {
    const scopes = ['lancegate:read'];
    const { key } = await apiKeys.create({ subject: 'key holder', scopes });
    const own = await ownIssuer.mint({ subject: 'own', scopes, expiresAfterMs: 60_000 });
    assert.equal((await bearing(own)).subject, 'own');
    assert.equal((await bearing(await server.jwt({ client: 'loader' }))).subject, 'loader');
    assert.equal((await bearing(await server.opaque({ client: 'loader' }))).subject, 'loader');
    assert.equal((await bearing(key)).subject, 'key holder');
    assert.equal((await authenticator.authenticate({ 'x-api-key': key })).subject, 'key holder');
  });

  it('sends no API key to the authorization server', async () => {
    const asked = server.requestsTo('/token/introspection');
    const unknown = `lgk_${'0'.repeat(16)}_${'0'.repeat(64)}`;
    await refusal(bearing(unknown), 'Unauthenticated', unknown);
    assert.equal(server.requestsTo('/token/introspection'), asked);
  });

  it('refuses a JWT of an issuer that is not set up', async () => {
    const token = await server.sign({ iss: 'https://elsewhere.test' });
    assert.match(await refusal(bearing(token), 'Unauthenticated', token), /No issuer/);
  });

  it('lets a group write a table two namespaces away, and nothing next to it', async () => {
    const text = 'permit (principal in Group::"crew", action in Action::"write", resource in Namespace::"eu$prod");';
    const policy = CedarPolicy.load({ source: { name: 'policies.cedar', text }, logger: silent });
    const writes = async (token: string, resource: Resource) =>
      policy.allows({ principal: await bearing(token), action: 'MergeInsertIntoTable', resource, branch: undefined });

    for (const token of [await server.jwt({ client: 'loader' }), await server.opaque({ client: 'loader' })]) {
      assert.equal(await writes(token, table('eu', 'prod', 'users')), true);
      assert.equal(await writes(token, table('eu', 'production', 'users')), false);
      assert.equal(await writes(token, table('eu', 'users')), false);
      assert.equal(await writes(token, table('eu$prod', 'users')), false);
    }
    const stranger = await server.jwt({ client: 'stranger' });
    assert.equal(await writes(stranger, table('eu', 'prod', 'users')), false);
  });
});
