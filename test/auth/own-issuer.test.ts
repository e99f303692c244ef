import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { OwnIssuer } from '#src/auth/own-issuer.ts';
import { bearer, refusal } from './refusals.ts';
import { StoppedClock } from './stopped-clock.ts';

const minute = 60_000;

describe("the service's own issuer (P9)", () => {
  let folder: string;
  let path: string;
  let clock: StoppedClock;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lancegate-own-issuer-'));
    path = join(folder, 'data', 'issuer-key.json');
    clock = new StoppedClock();
  });
  afterEach(() => rm(folder, { recursive: true }));

  const request = { subject: 'ann', scopes: ['lancegate:read', 'lancegate:write'], expiresAfterMs: minute };

  it('lets in whom it minted a token for, and remembers neither more nor less', async () => {
    const issuer = await OwnIssuer.open(path, clock);
    const token = await issuer.mint({ ...request, groups: ['crew'] });
    assert.deepEqual(await issuer.verifier.verify(bearer(token)), {
      subject: 'ann',
      scopes: ['lancegate:read', 'lancegate:write'],
      groups: ['crew'],
      issuer: 'lancegate',
    });
  });

  it('lets a token in until it expires and not after, also one it has seen before', async () => {
    const issuer = await OwnIssuer.open(path, clock);
    const seen = await issuer.mint(request);
    const unseen = await issuer.mint(request);
    clock.advance(minute - 1_000);
    assert.ok(await issuer.verifier.verify(bearer(seen)));
    clock.advance(1_000);
    assert.match(await refusal(issuer.verifier.verify(bearer(seen)), 'Unauthenticated', seen), /has expired/);
    assert.match(await refusal(issuer.verifier.verify(bearer(unseen)), 'Unauthenticated', unseen), /has expired/);
  });

  it('shares its key with every process that opens the folder, before and after the start', async () => {
    const first = await OwnIssuer.open(path, clock);
    const second = await OwnIssuer.open(path, clock);
    const token = await second.mint(request);
    assert.equal((await first.verifier.verify(bearer(token)))?.subject, 'ann');
  });

  it('ends with one key when processes create it at once', async () => {
    const module = JSON.stringify(import.meta.resolve('#src/auth/own-issuer.ts'));
    const clockModule = JSON.stringify(import.meta.resolve('#src/kernel/clock.ts'));
    const program = `
      const { OwnIssuer } = await import(${module});
      const { systemClock } = await import(${clockModule});
      const issuer = await OwnIssuer.open(process.argv[1], systemClock);
      console.log(await issuer.mint({ subject: 'ann', scopes: [], expiresAfterMs: 600000 }));`;
    const run = () => promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, path]);
    const tokens = (await Promise.all([run(), run(), run()])).map(({ stdout }) => stdout.trim());
    const issuer = await OwnIssuer.open(path, clock);
    for (const token of tokens) assert.ok(await issuer.verifier.verify(bearer(token)));
    assert.deepEqual(await readdir(join(folder, 'data')), ['issuer-key.json'], 'no draft is left');
  });

  it('keeps its key from other users, and refuses one that was not kept', async () => {
    await OwnIssuer.open(path, clock);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    await chmod(path, 0o640);
    await assert.rejects(OwnIssuer.open(path, clock), { name: 'AccessSetupError', message: /mode 0640.*0600/ });
  });

  it('refuses a damaged key file without quoting it', async () => {
    await OwnIssuer.open(path, clock);
    const text = await readFile(path, 'utf8');
    const damaged = [text.slice(0, -20), '{}', 'null', '{"issuer":"urn:lancegate:x","key":{"kty":"oct","k":"AAAA"}}'];
    for (const content of damaged) {
      await writeFile(path, content);
      await assert.rejects(OwnIssuer.open(path, clock), (error: Error) => {
        assert.match(error.message, /damaged/);
        assert.equal(error.cause, undefined);
        return error.name === 'AccessSetupError';
      });
    }
  });

  it("refuses another installation's token under its own name, and leaves alone what is not its own", async () => {
    const issuer = await OwnIssuer.open(path, clock);
    const other = await OwnIssuer.open(join(folder, 'other', 'issuer-key.json'), clock);
    const foreign = await other.mint(request);
    assert.equal(await issuer.verifier.verify(bearer(foreign)), undefined);
    const [, ownPayload] = (await issuer.mint(request)).split('.');
    const [header, , signature] = foreign.split('.');
    const forged = `${header}.${ownPayload}.${signature}`;
    assert.match(await refusal(issuer.verifier.verify(bearer(forged)), 'Unauthenticated', forged), /signature/);
  });

  it('refuses to mint what no token can carry', async () => {
    const issuer = await OwnIssuer.open(path, clock);
    const misfits = [{ subject: '' }, { scopes: ['two words'] }, { scopes: [''] }, { expiresAfterMs: 999 }];
    for (const misfit of [...misfits, { expiresAfterMs: Number.NaN }]) {
      await refusal((async () => issuer.mint({ ...request, ...misfit }))(), 'InvalidInput');
    }
  });
});
