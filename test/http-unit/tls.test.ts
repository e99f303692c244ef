/** The service with a certificate of its own, for clients and for other replicas. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { before, describe, type TestContext, test } from 'node:test';
import tls, { connect as connectTls } from 'node:tls';
import { ReplicaTokens } from '#src/auth/tokens/replica-tokens.ts';
import { CertificateFiles, readCa } from '#src/http/certificate-files.ts';
import { Forwarding } from '#src/http/forwarding/forwarding.ts';
import { ReplicaHop } from '#src/http/forwarding/replica-hop.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { afterSuite } from '#test/fixtures/after-suite.ts';
import { type Certified, newCa, statusOf, type TestCa, withoutOpenssl } from '#test/fixtures/certificates.ts';
import { upload } from './client.ts';
import { startTestService, type TestOptions, type TestService } from './service.ts';
import { silentLogger } from './silent-logger.ts';
import { until } from './until.ts';

/** All that comes until the connection ends, in whatever way. */
async function textFrom(socket: Socket): Promise<string> {
  let text = '';
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1');
  });
  socket.on('error', () => undefined);
  await once(socket, 'close');
  return text;
}

const mergePath = '/v1/table/users/merge_insert?on=id';

describe('TLS', { skip: withoutOpenssl ?? false }, () => {
  let ca: TestCa;
  let own: Certified;
  const after = afterSuite();
  before(() => {
    ca = newCa(after);
    own = ca.certify('own');
  });

  async function filesOf(t: TestContext, paths: Certified) {
    const lines: string[] = [];
    const logger = createLogger({ level: 'debug', format: 'json', destination: { write: (line) => lines.push(line) } });
    const files = await CertificateFiles.open({ ...paths, clock: systemClock, logger });
    t.after(() => files.close());
    return { files, lines };
  }

  async function start(t: TestContext, options: TestOptions = {}) {
    const { files } = await filesOf(t, own);
    const service = await startTestService({ ...options, certificate: files });
    t.after(() => service.close(0));
    return service;
  }

  /** One connection was closed for its handshake, and the log has its address. */
  const wasHandshake = ({ closed, log }: TestService): void => {
    assert.deepEqual(closed, ['handshake']);
    const logged = log.flatMap(({ reason, count, address }) => (reason === 'handshake' ? [[count, address]] : []));
    assert.deepEqual(logged, [[1, '127.0.0.1']]);
  };

  test('a client that trusts the CA is answered, and none that trusts another, or speaks plain HTTP', async (t) => {
    const service = await start(t);
    assert.match(service.url, /^https:/);
    assert.equal(await statusOf(service.url, ca.path), 200);
    await assert.rejects(statusOf(service.url, newCa((clean) => t.after(clean)).path), /certificate/);
    await assert.rejects(fetch(service.url.replace('https', 'http')));
  });

  test('a version of TLS before 1.2 is refused, whatever Node was told to accept', async (t) => {
    const { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS } = tls;
    t.after(() => Object.assign(tls, { DEFAULT_MIN_VERSION, DEFAULT_CIPHERS }));
    Object.assign(tls, { DEFAULT_MIN_VERSION: 'TLSv1', DEFAULT_CIPHERS: 'DEFAULT:@SECLEVEL=0' });
    const service = await start(t);
    const versions = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1' } as const;
    const old = connectTls({ port: service.port, host: '127.0.0.1', rejectUnauthorized: false, ...versions });
    await assert.rejects(once(old, 'secureConnect'), { code: 'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION' });
  });

  test('a client that does not end its handshake holds no connection for longer than a head may take (P12)', async (t) => {
    const service = await start(t, { config: { requestHeaderTimeoutMs: 300 } });
    const silent = connect({ port: service.port, host: '127.0.0.1' });
    t.after(() => silent.destroy());
    await once(silent, 'connect');
    silent.write(Buffer.from([22, 3, 1]));
    await until(() => service.connections() === 1);
    assert.equal(await textFrom(silent), '');
    await until(() => service.connections() === 0);
    wasHandshake(service);
  });

  for (const [what, bytes] of [
    ['plain HTTP', 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n'],
    ['garbage', '\0\0\0 no handshake \0\0\0'],
  ] as const) {
    test(`${what} before a handshake gets no answer of HTTP, and is counted once (P12)`, async (t) => {
      const service = await start(t);
      const client = connect({ port: service.port, host: '127.0.0.1' });
      client.write(bytes);
      assert.doesNotMatch(await textFrom(client), /HTTP/);
      await until(() => service.connections() === 0);
      wasHandshake(service);
    });
  }

  test('after its handshake, a client that sends garbage gets one answer, and its connection ends', async (t) => {
    const service = await start(t);
    const client = connectTls({ port: service.port, host: '127.0.0.1', ca: readFileSync(ca.path) });
    await once(client, 'secureConnect');
    client.write('no HTTP\r\n\r\n');
    assert.deepEqual((await textFrom(client)).match(/HTTP\/1.1 400/g), ['HTTP/1.1 400']);
    await until(() => service.connections() === 0);
    assert.deepEqual(service.closed, []);
  });

  test('a client that closes before its handshake is not counted', async (t) => {
    const service = await start(t);
    const probe = connect({ port: service.port, host: '127.0.0.1' });
    await once(probe, 'connect');
    await until(() => service.connections() === 1);
    probe.end();
    await until(() => service.connections() === 0);
    assert.deepEqual(service.closed, []);
  });

  for (const [trusts, expected] of [
    ['the CA', 200],
    ['another CA', 503],
  ] as const) {
    test(`a replica that trusts ${trusts} gets ${expected} for what it forwards to an owner with a certificate`, async (t) => {
      const trusted = trusts === 'the CA' ? ca : newCa((clean) => t.after(clean));
      let keys: string | undefined;
      const records = {
        read: async () => keys,
        create: async (document: string) => {
          keys ??= document;
        },
        replace: async (next: (document: string) => Promise<string>) => {
          keys = await next(keys!);
        },
      };
      const tokens = (replica: string) =>
        new ReplicaTokens({ keys: records, replica, clock: systemClock, newId: () => `key-${replica}` });
      const [signing, verifying] = [tokens('first'), tokens('owner')];
      const owner = await start(t, { replicaTokens: verifying });
      const hop = new ReplicaHop({
        sign: (principal, audience) => signing.sign(principal, audience),
        clock: systemClock,
        logger: silentLogger,
        ca: await readCa(trusted.path),
      });
      t.after(() => hop.close());
      const ownerOf = async () => ({ kind: 'replica', id: 'owner', address: owner.url }) as const;
      const others = () => [{ id: 'owner', address: owner.url }];
      const forwarding = new Forwarding({ owners: { ownerOf }, others, hop, clock: systemClock });
      const first = await startTestService({ forwarding });
      t.after(() => first.close(0));
      const headers = expected === 200 ? {} : { 'x-request-timeout-ms': '400' };
      assert.equal((await upload(first, mergePath, { headers })).status, expected);
      assert.equal(owner.asked.length, expected === 200 ? 1 : 0);
    });
  }

  test('a changed certificate is shown from the next handshake on, and a broken one changes nothing', async (t) => {
    const changing = newCa((clean) => t.after(clean)).certify('changing');
    const other = newCa((clean) => t.after(clean));
    const next = other.certify('next');
    const { files, lines } = await filesOf(t, changing);
    const service = await startTestService({ certificate: files });
    t.after(() => service.close(0));
    await assert.rejects(statusOf(service.url, other.path));
    copyFileSync(next.certificatePath, changing.certificatePath);
    await files.reload();
    await assert.rejects(statusOf(service.url, other.path), 'the key is still the old one');
    assert.match(lines.join(), /the certificate stays as it is/);
    writeFileSync(changing.keyPath, readFileSync(next.keyPath));
    await files.reload();
    assert.equal(await statusOf(service.url, other.path), 200);
    assert.doesNotMatch(lines.join(), /PRIVATE KEY/);
  });

  test('a start is refused, without a word of the key, where others may read it or it is no key of the certificate', async (t) => {
    const third = newCa((clean) => t.after(clean)).certify('third');
    const refusal = (paths: Certified) =>
      filesOf(t, paths).then(String, (error: Error) => `${error.name}: ${error.message}`);
    const mixed = await refusal({ ...third, keyPath: own.keyPath });
    assert.match(mixed, /^AccessSetupError: .*are no certificate and its key/);
    assert.doesNotMatch(mixed, /PRIVATE/);
    assert.match(
      await refusal({ ...third, certificatePath: '/nowhere' }),
      /^AccessSetupError: \/nowhere cannot be read/,
    );
    assert.match(await refusal({ ...third, keyPath: '/nowhere' }), /^AccessSetupError: \/nowhere is missing/);
    chmodSync(third.keyPath, 0o644);
    assert.match(await refusal(third), /^AccessSetupError: .*other users can get at it/);
    await assert.rejects(readCa(own.keyPath), /has no certificate/);
  });
});
