import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { ApiKeyFile } from '#src/auth/tokens/api-key-file.ts';
import { ApiKeyStore } from '#src/auth/tokens/api-keys.ts';
import { systemClock } from '#src/kernel/clock.ts';
import { runInProcess } from '#test/cli/in-process.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { AdvancingClock } from '#test/maintenance/advancing-clock.ts';

const otherIssuer = { OIDC_ISSUER: 'https://issuer.example', OIDC_AUDIENCE: 'lancegate' };
const tokenArgs = ['token', '--subject', 'ann', '--scope', 'lancegate:read'];

describe('beside another issuer', () => {
  test('tokens of the own one are refused, and the start says who is let in (P9)', async (t) => {
    const service = await startTestService((clean) => t.after(clean), otherIssuer);
    const answer = await service.get('/v1/namespace/%24/list');
    assert.equal(answer.status, 401);
    assert.match(String(answer.body.error), /No issuer this service trusts/);
    const line = service.log.find((text) => text.includes('accepts these credentials'))!;
    assert.deepEqual((JSON.parse(line) as { accepted: unknown }).accepted, [
      'API keys',
      'JWTs of https://issuer.example',
    ]);
  });

  test('the token command mints nothing that the running service refuses, and says why (P9)', async (t) => {
    const service = await startTestService((clean) => t.after(clean), otherIssuer);
    const { code, stdout, stderr } = await runInProcess([...tokenArgs, '--data', service.dataFolder]);
    assert.deepEqual([code, stdout.toString()], [1, '']);
    assert.match(stderr, new RegExp(`the service at ${service.url} does not accept .* unless --own-issuer is set`));
  });

  test('the own one works where it is asked for, and the token command knows, whatever its own environment says', async (t) => {
    const service = await startTestService((clean) => t.after(clean), { ...otherIssuer, OWN_ISSUER: 'true' });
    assert.equal((await service.get('/v1/namespace/%24/list')).status, 200);
    const env = { LANCEGATE_OIDC_ISSUER: 'https://issuer.example', LANCEGATE_OIDC_AUDIENCE: 'lancegate' };
    const { code, stdout } = await runInProcess([...tokenArgs, '--data', service.dataFolder], {
      env,
      clock: systemClock,
    });
    assert.equal(code, 0);
    const authorization = `Bearer ${stdout.toString().trim()}`;
    assert.equal((await service.get('/v1/namespace/%24/list', { authorization })).status, 200);
  });

  test('maintain takes a credential of the operator from a file', async (t) => {
    const service = await startTestService((clean) => t.after(clean), otherIssuer);
    const args = ['maintain', 't', '--data', service.dataFolder];
    assert.match((await runInProcess(args)).stderr, /does not accept tokens of the own issuer/);
    const file = join(service.dataFolder, 'credential');
    using keyFile = new ApiKeyFile(join(service.dataFolder, 'api-keys.sqlite'));
    const store = new ApiKeyStore(keyFile, systemClock);
    const { key } = await store.create({ subject: 'operator', scopes: ['lancegate:admin'] });
    writeFileSync(file, `${key}\n`);
    const { stderr } = await runInProcess([...args, '--credential-file', file]);
    assert.match(stderr, /table 't' does not exist|not found/i);
  });
});

test('a rotation by the command holds for the running service: old tokens live on, or end, as the command says (P9)', async (t) => {
  const clock = new AdvancingClock();
  const service = await startTestService((clean) => t.after(clean), {}, clock);
  const rotate = async (...args: string[]) => {
    const { code, stdout, stderr } = await runInProcess(
      ['issuer-key', 'rotate', '--data', service.dataFolder, ...args],
      { clock },
    );
    assert.equal(code, 0, stderr);
    return stdout.toString();
  };
  const minted = async () => {
    const { stdout } = await runInProcess([...tokenArgs, '--data', service.dataFolder], { clock: systemClock });
    return { authorization: `Bearer ${stdout.toString().trim()}` };
  };
  const status = async (headers: { authorization: string }) =>
    (await service.get('/v1/namespace/%24/list', headers)).status;
  const first = await minted();
  assert.equal(await status(first), 200);
  assert.match(await rotate('--accept-old-for', '1h'), /^[\w-]{43}\tsigns\n[\w-]{43}\taccepted until .*Z\n$/);
  const second = await minted();
  assert.deepEqual([await status(second), await status(first)], [200, 200]);
  assert.match(await rotate('--accept-old-for', '0s'), /^[\w-]{43}\tsigns\n$/);
  clock.advance(1_000);
  assert.deepEqual([await status(second), await status(first), await status(await minted())], [401, 401, 200]);
});
