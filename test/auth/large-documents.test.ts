/** What an authorization server publishes and answers has a limit: else one that is hostile, or broken, takes the service down. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { boundedFetch, maxDocumentBytes } from '#src/auth/remote-document.ts';
import { IntrospectionVerifier, introspectionDefaults } from '#src/auth/tokens/introspection-verifier.ts';
import { JwtVerifier, jwtIssuerDefaults } from '#src/auth/tokens/jwt-verifier.ts';
import { bearer, refusal } from './refusals.ts';
import { StoppedClock } from './stopped-clock.ts';

const MiB = 2 ** 20;

interface Hostile extends AsyncDisposable {
  readonly issuer: string;
  /** Bytes that were taken from it, over the network. */
  readonly sentBytes: () => number;
}

/** An issuer whose metadata are sound but for the path that is to be hostile. */
async function hostileIssuer(path: string, answer: (response: ServerResponse) => void): Promise<Hostile> {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    if (request.url === path) return answer(response);
    const issuer = `http://${request.headers.host}`;
    response.end(
      JSON.stringify({ issuer, jwks_uri: `${issuer}/keys`, introspection_endpoint: `${issuer}/introspect` }),
    );
  });
  const sockets = new Set<{ readonly bytesWritten: number }>();
  server.on('connection', (socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sentBytes: () => [...sockets].reduce((sum, { bytesWritten }) => sum + bytesWritten, 0),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

/** 64 KB. */
const bomb = gzipSync(Buffer.alloc(64 * MiB, ' '));

const answers: Readonly<Record<string, (response: ServerResponse) => void>> = {
  'that is too large': (response) => response.end(Buffer.alloc(64 * MiB, ' ')),
  'that never ends': (response) => {
    const block = Buffer.alloc(MiB, ' ');
    const more = (): void => {
      if (!response.destroyed) response.write(block, more);
    };
    more();
  },
  'that unfolds to 64 MiB': (response) => {
    response.setHeader('content-encoding', 'gzip');
    response.end(bomb);
  },
  'that says half a word and then nothing': (response) => void response.write('{"ke'),
};

const settingsOf = (issuer: string) => ({ issuer, timeoutMs: 1_000, audiences: ['tables'] });
const tokenOf = (issuer: string): string => {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'ES256', kid: 'a', typ: 'at+jwt' })}.${part({ iss: issuer })}.${'A'.repeat(86)}`;
};

const asking: Readonly<Record<string, { path: string; ask: (issuer: string) => Promise<unknown> }>> = {
  'a discovery document': {
    path: '/.well-known/openid-configuration',
    ask: (issuer) => jwtVerifier(issuer).verify(bearer(tokenOf(issuer))),
  },
  'a set of keys': { path: '/keys', ask: (issuer) => jwtVerifier(issuer).verify(bearer(tokenOf(issuer))) },
  'an answer about a token': {
    path: '/introspect',
    ask: (issuer) =>
      new IntrospectionVerifier(
        { ...introspectionDefaults, ...settingsOf(issuer), groupClaims: [], clientId: 'a', clientSecret: 'b' },
        new StoppedClock(),
        { warn: () => undefined },
      ).verify(bearer('opaque')),
  },
};

const jwtVerifier = (issuer: string): JwtVerifier =>
  new JwtVerifier({ ...jwtIssuerDefaults, ...settingsOf(issuer), groupClaims: [] }, new StoppedClock(), {
    warn: () => undefined,
  });

describe('the service goes on without', () => {
  for (const [what, { path, ask }] of Object.entries(asking)) {
    for (const [how, answer] of Object.entries(answers)) {
      test(`${what} ${how}: 503, and little of it was taken (P9, P12)`, async () => {
        await using server = await hostileIssuer(path, answer);
        if (what === 'a discovery document') {
          // The other form of discovery finds the same metadata at another path, whose keys are none.
          await assert.rejects(ask(server.issuer));
        } else await refusal(ask(server.issuer), 'IssuerUnavailable', 'secret');
        assert.ok(server.sentBytes() < 64 * MiB || how === 'that is too large', `${server.sentBytes()}`);
      });
    }
  }

  test('a byte beyond the limit, and no less', async () => {
    let size = maxDocumentBytes;
    await using server = await hostileIssuer('/keys', (response) => response.end(Buffer.alloc(size, ' ')));
    const take = () => boundedFetch(`${server.issuer}/keys`, { method: 'GET' });
    assert.equal((await (await take()).text()).length, maxDocumentBytes);
    size += 1;
    await assert.rejects(take(), /larger than 1048576 bytes/);
  });

  test('a byte beyond the limit of what it unfolds to', async () => {
    await using server = await hostileIssuer('/keys', answers['that unfolds to 64 MiB']!);
    await assert.rejects(boundedFetch(`${server.issuer}/keys`, { method: 'GET' }), /larger than 1048576 bytes/);
  });
});
