import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { AccessSetupError } from '#src/auth/challenge.ts';
import { type JwtIssuerSettings, JwtVerifier, jwtIssuerDefaults } from '#src/auth/tokens/jwt-verifier.ts';
import { AuthorizationServer } from '#test/fixtures/authorization-server.ts';
import { bearer, refusal } from './refusals.ts';
import { StoppedClock } from './stopped-clock.ts';

const minute = 60_000;
const nowSeconds = () => Math.floor(Date.now() / 1_000);

describe('JWT access tokens of an authorization server (P9)', () => {
  let server: AuthorizationServer;
  let clock: StoppedClock;
  let verifier: JwtVerifier;
  let warnings: string[];
  const logger = { warn: (_fields: unknown, message: string) => void warnings.push(message) };

  const verifierWith = (changes: Partial<JwtIssuerSettings> = {}) =>
    new JwtVerifier(
      { ...jwtIssuerDefaults, issuer: server.issuer, audiences: [server.audience], ...changes },
      clock,
      logger,
    );
  const refused = (token: string) => refusal(verifier.verify(bearer(token)), 'Unauthenticated', token);

  before(async () => {
    server = await AuthorizationServer.start({ clients: { writer: { groups: ['crew', 'writers'] } } });
  });
  after(() => server[Symbol.asyncDispose]());
  beforeEach(() => {
    server.goUp();
    warnings = [];
    clock = new StoppedClock();
    verifier = verifierWith();
  });

  it('lets a token in, with its subject, scopes and groups', async () => {
    const token = await server.jwt({ client: 'writer', scopes: ['lancegate:read', 'lancegate:write'] });
    assert.deepEqual(await verifier.verify(bearer(token)), {
      subject: 'writer',
      scopes: ['lancegate:read', 'lancegate:write'],
      groups: ['crew', 'writers'],
      issuer: server.issuer,
    });
  });

  it('leaves to others: API keys, opaque tokens, tokens of issuers it does not know', async () => {
    const foreign = await server.sign({ iss: 'https://elsewhere.test' });
    const own = await server.sign();
    assert.equal(await verifier.verify(bearer(foreign)), undefined);
    assert.equal(await verifier.verify(bearer('opaque')), undefined);
    assert.equal(await verifier.verify(bearer('a.b.c')), undefined);
    assert.equal(await verifier.verify({ kind: 'api-key', secret: own }), undefined);
  });

  it('refuses a token made out to another service, or to none', async () => {
    assert.match(await refused(await server.sign({ aud: 'https://other.test' })), /claim aud/);
    assert.match(await refused(await server.sign({ aud: undefined })), /claim aud/);
    assert.match(await refused(await server.sign({ aud: [] })), /claim aud/);
  });

  it('takes a token made out to several services, if this is one', async () => {
    const token = await server.sign({ aud: ['https://other.test', server.audience] });
    assert.equal((await verifier.verify(bearer(token)))?.subject, 'somebody');
  });

  it('refuses an expired token beyond the forgiven difference of clocks, and one that never expires', async () => {
    const expiring = await server.sign({ exp: nowSeconds() - 20 });
    assert.ok(await verifier.verify(bearer(expiring)));
    clock.advance(15_000);
    assert.match(await refused(expiring), /has expired/);
    assert.match(await refused(await server.sign({ exp: undefined })), /claim exp/);
  });

  it('refuses a token that is not valid yet', async () => {
    assert.match(await refused(await server.sign({ nbf: nowSeconds() + 120 })), /claim nbf/);
    assert.ok(await verifier.verify(bearer(await server.sign({ nbf: nowSeconds() + 20 }))));
  });

  it('refuses alg none, whatever stands for the signature', async () => {
    await refused(server.unsigned());
    await refused(server.unsigned('c2ln'));
  });

  it('refuses HS256 with the public key as the secret', async () => {
    assert.match(await refused(await server.signWithPublicKeyAsSecret()), /algorithm/);
  });

  it('refuses an algorithm outside the allow-list', async () => {
    verifier = verifierWith({ algorithms: ['RS256'] });
    assert.match(await refused(await server.sign()), /algorithm/);
  });

  it('refuses a changed payload and a changed signature', async () => {
    const [header, , signature] = (await server.sign()).split('.');
    const [, otherPayload] = (await server.sign({ sub: 'root' })).split('.');
    assert.match(await refused(`${header}.${otherPayload}.${signature}`), /signature/);
    assert.match(await refused(`${header}.${otherPayload}.${'A'.repeat(86)}`), /signature/);
  });

  it('refuses a token that is no access token by its type', async () => {
    assert.match(await refused(await server.sign({}, { typ: 'logout+jwt' })), /not an access token/);
    assert.ok(await verifier.verify(bearer(await server.sign({}, { typ: 'JWT' }))));
    assert.ok(await verifier.verify(bearer(await server.sign({}, { typ: 'application/at+jwt' }))));
    verifier = verifierWith({ tokenTypes: ['at+jwt'] });
    assert.match(await refused(await server.sign({}, { typ: 'JWT' })), /not an access token/);
  });

  it('reads scopes and groups from where the issuer puts them', async () => {
    verifier = verifierWith({ groupClaims: ['https://example.test/groups', 'realm_access.roles'] });
    const token = await server.sign({
      scope: undefined,
      scp: ['lancegate:read'],
      'https://example.test/groups': ['a', 7, 'b'],
      realm_access: { roles: ['b', 'c'] },
    });
    const principal = await verifier.verify(bearer(token));
    assert.deepEqual(principal?.scopes, ['lancegate:read']);
    assert.deepEqual(principal?.groups, ['a', 'b', 'c']);
  });

  it('calls a token without sub by its client, and refuses one without either', async () => {
    const token = await server.sign({ sub: undefined, client_id: 'robot' });
    assert.equal((await verifier.verify(bearer(token)))?.subject, 'robot');
    assert.match(await refused(await server.sign({ sub: undefined })), /no subject/);
  });

  it('takes tokens of a rotated key without a restart, and drops those of the old one', async () => {
    const old = await server.sign();
    assert.ok(await verifier.verify(bearer(old)));
    await server.rotateKey();
    const fresh = await server.sign();
    assert.match(await refused(fresh), /key its issuer does not publish/);
    clock.advance(30_000);
    assert.ok(await verifier.verify(bearer(fresh)));
    clock.advance(minute);
    assert.match(await refused(old), /key its issuer does not publish/);
  });

  it('asks for unknown keys once per cooldown, however many tokens name one (P7)', async () => {
    assert.ok(await verifier.verify(bearer(await server.sign())));
    clock.advance(30_000);
    const before = server.requestsTo('/jwks');
    const tokens = await Promise.all(['a', 'b', 'c', 'd'].map((kid) => server.sign({}, { kid })));
    await Promise.all(tokens.map(refused));
    await Promise.all(tokens.map(refused));
    assert.equal(server.requestsTo('/jwks') - before, 1);
  });

  it('asks for metadata and keys once for many first tokens (P7)', async () => {
    const before = server.requestsTo('/jwks');
    const tokens = await Promise.all(Array.from({ length: 8 }, () => server.sign()));
    await Promise.all(tokens.map((token) => verifier.verify(bearer(token))));
    assert.equal(server.requestsTo('/jwks') - before, 1);
  });

  it('lets known keys in while the issuer is down, and says of unknown ones that it cannot tell', async () => {
    assert.ok(await verifier.verify(bearer(await server.sign())));
    server.goDown();
    clock.advance(60 * minute);
    const inAnHour = { exp: nowSeconds() + 7_200 };
    assert.ok(await verifier.verify(bearer(await server.sign(inAnHour))));
    assert.deepEqual(
      warnings,
      ['metadata', 'keys'].map((what) => `no answer: ${what} of the issuer ${server.issuer}`),
    );
    const unknown = await server.sign(inAnHour, { kid: 'unknown' });
    await refusal(verifier.verify(bearer(unknown)), 'IssuerUnavailable', unknown);
  });

  it('backs off from an issuer that is down, and recovers when it is back', async () => {
    server.goDown();
    const token = await server.sign();
    await refusal(verifier.verify(bearer(token)), 'IssuerUnavailable');
    const asked = server.requestsTo('/.well-known/openid-configuration');
    await refusal(verifier.verify(bearer(token)), 'IssuerUnavailable');
    assert.equal(server.requestsTo('/.well-known/openid-configuration'), asked);
    server.goUp();
    clock.advance(1_000);
    assert.ok(await verifier.verify(bearer(token)));
  });

  it('finds an issuer that publishes RFC 8414 metadata only', async () => {
    await using oauthOnly = await AuthorizationServer.start({ clients: { writer: {} } });
    oauthOnly.hide('/.well-known/openid-configuration');
    verifier = verifierWith({ issuer: oauthOnly.issuer });
    assert.ok(await verifier.verify(bearer(await oauthOnly.jwt({ client: 'writer' }))));
  });

  it('is not set up with what would let others in', () => {
    const unsafe: readonly Partial<JwtIssuerSettings>[] = [
      { algorithms: ['HS256'] },
      { algorithms: ['none'] },
      { algorithms: [] },
      { audiences: [] },
      { clockSkewMs: 300_001 },
      { issuer: 'http://login.example.test' },
      { issuer: 'not a URL' },
    ];
    for (const changes of unsafe) assert.throws(() => verifierWith(changes), AccessSetupError, JSON.stringify(changes));
    assert.ok(verifierWith({ issuer: 'http://login.example.test', allowHttp: true }));
  });
});
