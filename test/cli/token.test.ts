/** What `token` refuses: a folder without a service, and scopes without a policy. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { systemClock } from '#src/kernel/clock.ts';
import { startTestService } from '#test/fixtures/service.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { runInProcess } from './in-process.ts';

const folder = temporaryFolder(after);

async function mint(scope: string, data: string, ...flags: readonly string[]) {
  const args = ['token', '--subject', 'ann', '--scope', scope, '--data', data, ...flags];
  const { code, stdout, stderr } = await runInProcess(args, { clock: systemClock });
  return { code, token: stdout.toString().trim(), stderr };
}

async function refusal(...given: Parameters<typeof mint>): Promise<string> {
  const { code, token, stderr } = await mint(...given);
  assert.deepEqual([code, token], [1, ''], stderr);
  return stderr;
}

/** A policy file with these conditions, one policy each. */
function policiesWith(name: string, ...conditions: readonly string[]): string {
  const path = join(folder, name);
  const policies = conditions.map((condition) => `permit (principal, action, resource) when { ${condition} };`);
  writeFileSync(path, policies.join('\n'));
  return path;
}

test('a folder in which no service ever ran is refused and not made, unless unknown is allowed (P9)', async () => {
  const data = join(folder, 'mistyped');
  const stderr = await refusal('lancegate:read', data);
  assert.match(stderr, /^lancegate: no service ever ran in .*mistyped: .*--allow-unknown/);
  assert.equal(existsSync(data), false);
  assert.equal((await mint('lancegate:read', data, '--allow-unknown')).code, 0);
  // The key that this made is no service.
  await refusal('lancegate:read', data);
});

test('API keys and the issuer key are of a service, too, and their scopes are known (P9)', async (t) => {
  const data = join(folder, 'mistyped-too');
  const run = (...args: readonly string[]) => runInProcess([...args, '--data', data]);
  const create = ['key', 'create', '--subject', 'ada', '--scope', 'lancegate:wirte'];
  for (const args of [
    create,
    ['key', 'list'],
    ['key', 'revoke', 'x'],
    ['issuer-key', 'list'],
    ['issuer-key', 'rotate'],
  ]) {
    const { code, stderr } = await run(...args);
    assert.deepEqual([code, existsSync(data)], [1, false], args.join(' '));
    assert.match(stderr, /^lancegate: no service ever ran in .*mistyped-too: .*--allow-unknown/);
  }
  assert.equal((await run(...create, '--allow-unknown')).code, 0);
  assert.match((await run('key', 'list')).stdout.toString(), /\tada\tlancegate:wirte\t/);
  const service = await startTestService((clean) => t.after(clean));
  const { code, stderr } = await runInProcess([...create, '--data', service.dataFolder]);
  assert.equal(code, 1);
  assert.match(stderr, /no policy knows the scope "lancegate:wirte"; did you mean "lancegate:write"\?/);
});

describe('with the default policies', () => {
  test('their scopes are known, while the service runs and when it has stopped', async (t) => {
    const service = await startTestService((clean) => t.after(clean));
    for (const scope of ['lancegate:read', 'lancegate:write lancegate:admin']) {
      assert.equal((await mint(scope, service.dataFolder)).code, 0, scope);
    }
    const stderr = await refusal('lancegate:wirte lancegate:read ops', service.dataFolder);
    assert.match(stderr, /no policy knows the scope "lancegate:wirte"; did you mean "lancegate:write"\?\n/);
    assert.match(stderr, /no policy knows the scope "ops"\n/);
    assert.match(stderr, /know lancegate:read, lancegate:write, lancegate:admin; --allow-unknown takes any scope\n$/);
    await service.close();
    assert.match(await refusal('lancegate:wirte', service.dataFolder), /--policy-file names other policies/);
    assert.equal((await mint('ops', service.dataFolder, '--allow-unknown')).code, 0);
  });
});

describe('with a policy file', () => {
  test('the scopes that a running service knows are those of its file, whatever this command is told', async (t) => {
    const file = policiesWith(
      'ops.cedar',
      'principal.scopes.contains("ops:read") && context.branch == "main"',
      '["ops:write", "ops:all"].containsAny(principal["scopes"]) || principal.scopes == ["ops:only"]',
    );
    const service = await startTestService((clean) => t.after(clean), { POLICY_FILE: file });
    const { token } = await mint('ops:read ops:write ops:all ops:only', service.dataFolder);
    const authorization = `Bearer ${token}`;
    assert.equal((await service.get('/v1/namespace/%24/list', { authorization })).status, 200);
    assert.match(await refusal('ops:raed', service.dataFolder), /did you mean "ops:read"\?\n/);
    assert.match(await refusal('main', service.dataFolder), /know ops:read, ops:write, ops:all, ops:only; /);
    const others = policiesWith('others.cedar', 'principal.scopes.contains("lancegate:write")');
    await refusal('lancegate:write', service.dataFolder, '--policy-file', others);
    await service.close();
    assert.equal((await mint('lancegate:write', service.dataFolder, '--policy-file', others)).code, 0);
    await refusal('ops:read', service.dataFolder, '--policy-file', others);
  });

  test('any scope can be meant where no policy looks at scopes, or one compares them with names', async (t) => {
    const service = await startTestService((clean) => t.after(clean));
    await service.close();
    const without = policiesWith('subjects.cedar', 'principal.subject == "ann"');
    const named = policiesWith(
      'names.cedar',
      'principal.scopes.contains(context.branch)',
      'principal.scopes.contains("a")',
    );
    for (const file of [without, named]) {
      assert.equal((await mint('dev', service.dataFolder, '--policy-file', file)).code, 0, file);
    }
    const broken = policiesWith('broken.cedar', 'principal.');
    const stderr = await refusal('dev', service.dataFolder, '--policy-file', broken);
    assert.match(stderr, /^lancegate: the scopes cannot be compared with the policies of .*broken\.cedar/);
    await refusal('dev', service.dataFolder, '--policy-file', join(folder, 'missing.cedar'));
    assert.equal((await mint('dev', service.dataFolder, '--policy-file', broken, '--allow-unknown')).code, 0);
  });
});
