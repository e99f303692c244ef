/** SIGHUP, as an operator sends it. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { listeningUrl, mintToken, serveArguments } from '#test/fixtures/service-process.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';

async function lineWith(output: Readable | null, text: string): Promise<string> {
  for await (const line of createInterface({ input: output as Readable })) if (line.includes(text)) return line;
  throw new Error(`the service ended without a word of ${text}`);
}

const serve = (dataFolder: string, ...flags: readonly string[]): ChildProcess =>
  spawn(process.execPath, [...serveArguments(dataFolder, 'info'), ...flags], {
    env: { PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
  });

describe('SIGHUP', () => {
  test('makes the service read its policies again', async (t) => {
    const data = temporaryFolder((clean) => t.after(clean));
    const authorization = `Bearer ${await mintToken(data)}`;
    const policies = join(data, 'policies.cedar');
    writeFileSync(policies, 'permit (principal, action, resource);');
    const service = serve(data, '--policy-file', policies);
    t.after(() => service.kill('SIGKILL'));
    const url = await listeningUrl(service);
    const status = async () => (await fetch(`${url}/v1/table`, { headers: { authorization } })).status;
    assert.equal(await status(), 200);
    const closed = 'forbid (principal, action, resource);';
    writeFileSync(policies, closed);
    const inForce = lineWith(service.stderr, hash('sha256', closed));
    service.kill('SIGHUP');
    assert.match(await inForce, /"policyFile":"policies.cedar".*"these policies are in force"/);
    assert.equal(await status(), 403);
  });

  test('does not end a service that has no policy file', async (t) => {
    const data = temporaryFolder((clean) => t.after(clean));
    const authorization = `Bearer ${await mintToken(data)}`;
    const service = serve(data);
    t.after(() => service.kill('SIGKILL'));
    const url = await listeningUrl(service);
    const said = lineWith(service.stderr, 'no policy file');
    service.kill('SIGHUP');
    await said;
    assert.equal((await fetch(`${url}/v1/table`, { headers: { authorization } })).status, 200);
    const ended = once(service, 'exit');
    service.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });
});
