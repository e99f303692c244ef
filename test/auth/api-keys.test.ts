import assert from 'node:assert/strict';
import { chmod, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { ApiKeyFile } from '#src/auth/tokens/api-key-file.ts';
import { ApiKeyStore } from '#src/auth/tokens/api-keys.ts';
import { bearer, refusal } from './refusals.ts';
import { StoppedClock } from './stopped-clock.ts';

const hour = 3_600_000;
const apiKey = (secret: string) => ({ kind: 'api-key', secret }) as const;

describe('API keys (P9)', () => {
  let folder: string;
  let path: string;
  let clock: StoppedClock;
  let files: readonly ApiKeyFile[];
  let service: ApiKeyStore;
  /** The command line has the same file open in a process of its own. */
  let commandLine: ApiKeyStore;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lancegate-api-keys-'));
    path = join(folder, 'data', 'api-keys.sqlite');
    clock = new StoppedClock();
    files = [new ApiKeyFile(path), new ApiKeyFile(path)];
    [service, commandLine] = files.map((file) => new ApiKeyStore(file, clock)) as [ApiKeyStore, ApiKeyStore];
  });
  afterEach(async () => {
    for (const file of files) file[Symbol.dispose]();
    await rm(folder, { recursive: true });
  });

  const request = { subject: 'loader', scopes: ['lancegate:write'], groups: ['crew'] };
  const refused = (key: string) => refusal(service.verify(apiKey(key)), 'Unauthenticated', key);

  it('lets the holder of a key in at once, as an API key and as a bearer token', async () => {
    const { key, record } = await commandLine.create(request);
    assert.match(key, /^lgk_[0-9a-f]{16}_[0-9a-f]{64}$/);
    const expected = { ...request, issuer: 'api-key', keyId: record.id };
    assert.deepEqual(await service.verify(apiKey(key)), expected);
    assert.deepEqual(await service.verify(bearer(key)), expected);
  });

  it('stays one principal for one key, so that decisions about it can be remembered', async () => {
    const { key } = await commandLine.create(request);
    assert.equal(await service.verify(apiKey(key)), await service.verify(apiKey(key)));
  });

  it('shuts out a revoked key from the next request on', async () => {
    const { key, record } = await commandLine.create(request);
    assert.ok(await service.verify(apiKey(key)));
    assert.equal(await commandLine.revoke(record.id), true);
    assert.match(await refused(key), /revoked/);
  });

  it('shuts out an expired key', async () => {
    const { key } = await commandLine.create({ ...request, expiresAtMs: clock.nowMs() + hour });
    clock.advance(hour - 1);
    assert.ok(await service.verify(apiKey(key)));
    clock.advance(1);
    assert.match(await refused(key), /expired/);
  });

  it('refuses a wrong secret, an unknown id and anything malformed', async () => {
    const { key, record } = await commandLine.create(request);
    assert.match(await refused(`lgk_${record.id}_${'0'.repeat(64)}`), /unknown/);
    assert.match(await refused(key.replace(record.id, 'f'.repeat(16))), /unknown/);
    for (const malformed of [key.slice(0, -1), `${key}0`, key.toUpperCase(), `${key}, ${key}`, 'lgk_', 'placeholder']) {
      assert.match(await refused(malformed), /malformed/);
    }
  });

  it('leaves bearer tokens of another form to others', async () => {
    assert.equal(await service.verify(bearer('opaque')), undefined);
  });

  it('lists keys without their secrets, and says of a revoked one since when', async () => {
    const first = (await commandLine.create(request)).record;
    clock.advance(1_000);
    const second = (await commandLine.create({ subject: 'reader', scopes: [], expiresAtMs: clock.nowMs() + hour }))
      .record;
    await service.revoke(first.id);
    const revokedAtMs = clock.nowMs();
    clock.advance(1_000);
    assert.equal(await service.revoke(first.id), true);
    assert.equal(await service.revoke('0'.repeat(16)), false);
    assert.deepEqual(await commandLine.list(), [{ ...first, revokedAtMs }, second]);
  });

  it('keeps no secret, in files that others cannot read', async () => {
    const { key } = await commandLine.create(request);
    const secret = key.slice(-64);
    for (const name of await readdir(join(folder, 'data'))) {
      const file = join(folder, 'data', name);
      assert.equal((await stat(file)).mode & 0o777, 0o600, name);
      const content = await readFile(file);
      assert.ok(!content.includes(secret) && !content.includes(Buffer.from(secret, 'hex')), name);
    }
  });

  it('refuses a file that others can read', async () => {
    await chmod(path, 0o644);
    assert.throws(() => new ApiKeyFile(path), { name: 'AccessSetupError', message: /mode 0644/ });
  });

  it('refuses to create a key without a subject, or one that has expired', async () => {
    await assert.rejects(commandLine.create({ ...request, subject: '' }), { kind: 'InvalidInput' });
    await assert.rejects(commandLine.create({ ...request, expiresAtMs: clock.nowMs() }), { kind: 'InvalidInput' });
  });
});
