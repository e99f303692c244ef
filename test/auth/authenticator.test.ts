import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Authenticator, type CredentialHeaders } from '#src/auth/authenticator.ts';
import { challengeFor, invalidToken, PermissionDeniedError } from '#src/auth/challenge.ts';
import type { Credential, Verifier } from '#src/auth/tokens/verifier.ts';
import { LancegateError } from '#src/kernel/errors.ts';
import type { Principal } from '#src/kernel/request-scope.ts';

const principal = (subject: string): Principal => ({ subject, scopes: [], groups: [], issuer: 'test' });

/** Vouches for one credential, and for that only. */
const vouchingFor = (kind: Credential['kind'], secret: string): Verifier => ({
  verify: async (credential) =>
    credential.kind === kind && credential.secret === secret ? principal(`${kind} ${secret}`) : undefined,
});

const authenticator = new Authenticator([vouchingFor('bearer', 'token'), vouchingFor('api-key', 'key')]);

async function challenge(headers: CredentialHeaders): Promise<string> {
  const error = await authenticator.authenticate(headers).then(
    () => assert.fail('let in'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof LancegateError);
  assert.equal(error.entry.status, 401);
  return challengeFor(error);
}

describe('who is let in by a request head (P9)', () => {
  it('takes a bearer token, its scheme in any case', async () => {
    for (const authorization of ['Bearer token', 'bearer token', 'BEARER   token']) {
      assert.equal((await authenticator.authenticate({ authorization })).subject, 'bearer token');
    }
  });

  it('takes an API key', async () => {
    assert.equal((await authenticator.authenticate({ 'x-api-key': 'key' })).subject, 'api-key key');
  });

  it('challenges a request without credentials, and names no error', async () => {
    for (const headers of [{}, { authorization: '' }, { 'x-api-key': '' }]) {
      assert.equal(await challenge(headers), 'Bearer realm="lancegate"');
    }
  });

  it('calls a malformed Authorization header an invalid request', async () => {
    for (const authorization of [
      'Bearer',
      'Bearer ',
      'Basic dTpw',
      'token',
      'Bearer a b',
      'Bearer tök',
      'Bearer a,b',
    ]) {
      assert.match(
        await challenge({ authorization }),
        /^Bearer realm="lancegate", error="invalid_request", error_desc/,
      );
    }
  });

  it('calls a token that no issuer vouches for an invalid token, and does not repeat it', async () => {
    const said = await challenge({ authorization: 'Bearer s3cret-token' });
    assert.match(said, /error="invalid_token"/);
    assert.doesNotMatch(said, /s3cret/);
  });

  it('lets Authorization win over x-api-key, also when it is refused', async () => {
    const both = { authorization: 'Bearer token', 'x-api-key': 'key' };
    assert.equal((await authenticator.authenticate(both)).subject, 'bearer token');
    assert.match(await challenge({ authorization: 'Bearer wrong', 'x-api-key': 'key' }), /invalid_token/);
    assert.match(await challenge({ authorization: 'Basic dTpw', 'x-api-key': 'key' }), /invalid_request/);
  });

  it('does not ask on after a verifier refused a credential of its sort', async () => {
    const refusing: Verifier = {
      verify: async () => {
        throw invalidToken('no');
      },
    };
    const strict = new Authenticator([refusing, vouchingFor('bearer', 'token')]);
    await assert.rejects(strict.authenticate({ authorization: 'Bearer token' }), { message: 'no' });
  });
});

describe('what WWW-Authenticate says (RFC 6750)', () => {
  it('names the scope that would be enough, where one is known', () => {
    assert.match(challengeFor(new PermissionDeniedError('No', 'lancegate:admin')), /, scope="lancegate:admin"$/);
    assert.doesNotMatch(challengeFor(new PermissionDeniedError('No', undefined)), /scope=/);
  });

  it('says insufficient_scope for a denied request', () => {
    const denied = new LancegateError('PermissionDenied', 'No.');
    assert.equal(challengeFor(denied), 'Bearer realm="lancegate", error="insufficient_scope", error_description="No."');
  });

  it('keeps names of any content inside the quotes', () => {
    const denied = new LancegateError('PermissionDenied', 'Not on a", error="x\\\r\nSet-Cookie: é.');
    assert.match(challengeFor(denied), /error_description="Not on a', error='x\?\?\?Set-Cookie: \?\."$/);
  });

  it('names no error where the refusal gives no reason', () => {
    assert.equal(challengeFor(new LancegateError('Unauthenticated', 'No.')), 'Bearer realm="lancegate"');
  });
});
