import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { SignJWT } from 'jose';
import { ReplicaTokens } from '#src/auth/tokens/replica-tokens.ts';
import { systemClock } from '#src/kernel/clock.ts';

test('a token of a replica that names no principal is no credential (P9)', async () => {
  const secret = 'a'.repeat(43);
  const document = JSON.stringify([{ id: 'key', secret, createdAtMs: systemClock.nowMs() }]);
  const keys = { read: async () => document, create: async () => undefined, replace: async () => undefined };
  const tokens = new ReplicaTokens({ keys, replica: 'one', clock: systemClock, newId: () => 'new' });
  const principal = { subject: 'ann', issuer: 'api-key', scopes: ['s'], groups: [] };
  const verify = async (claims: Record<string, unknown>) => {
    const token = await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', typ: 'replica+jwt', kid: 'key' })
      .setIssuer('lancegate-replica')
      .setAudience('one')
      .setExpirationTime('1m')
      .sign(Buffer.from(secret, 'base64url'));
    return tokens.verify({ kind: 'bearer', secret: token, digest: hash('sha256', token) });
  };
  assert.deepEqual(await verify({ principal, replica: 'two' }), { ...principal, vouchedBy: 'two' });
  const { subject: _, ...withoutSubject } = principal;
  const wrong = [
    undefined,
    null,
    'ann',
    {},
    withoutSubject,
    { ...principal, scopes: 's' },
    { ...principal, groups: [1] },
  ];
  for (const claim of wrong) {
    await assert.rejects(
      verify({ principal: claim, replica: 'two' }),
      { kind: 'Unauthenticated' },
      JSON.stringify(claim),
    );
  }
  await assert.rejects(verify({ principal }), { kind: 'Unauthenticated' });
});
