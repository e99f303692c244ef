import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { importJWK, type JWK, SignJWT } from 'jose';
import { rotateIssuerKey } from '#src/auth/tokens/issuer-key.ts';
import { IssuerKeyFile } from '#src/auth/tokens/issuer-key-file.ts';
import { OwnIssuer } from '#src/auth/tokens/own-issuer.ts';
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
    const issuer = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const token = await issuer.mint({ ...request, groups: ['crew'] });
    assert.deepEqual(await issuer.verify(bearer(token)), {
      subject: 'ann',
      scopes: ['lancegate:read', 'lancegate:write'],
      groups: ['crew'],
      issuer: 'lancegate',
    });
  });

  it('lets a token in until it expires and not after, also one it has seen before', async () => {
    const issuer = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const seen = await issuer.mint(request);
    const unseen = await issuer.mint(request);
    clock.advance(minute - 1_000);
    assert.ok(await issuer.verify(bearer(seen)));
    clock.advance(1_000);
    assert.match(await refusal(issuer.verify(bearer(seen)), 'Unauthenticated', seen), /has expired/);
    assert.match(await refusal(issuer.verify(bearer(unseen)), 'Unauthenticated', unseen), /has expired/);
  });

  it('shares its key with every process that opens the folder, before and after the start', async () => {
    const first = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const second = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const token = await second.mint(request);
    assert.equal((await first.verify(bearer(token)))?.subject, 'ann');
  });

  it('ends with one key when processes create it at once', async () => {
    const module = JSON.stringify(import.meta.resolve('#src/auth/tokens/own-issuer.ts'));
    const fileModule = JSON.stringify(import.meta.resolve('#src/auth/tokens/issuer-key-file.ts'));
    const clockModule = JSON.stringify(import.meta.resolve('#src/kernel/clock.ts'));
    const program = `
      const { OwnIssuer } = await import(${module});
      const { IssuerKeyFile } = await import(${fileModule});
      const { systemClock } = await import(${clockModule});
      const issuer = await OwnIssuer.open(new IssuerKeyFile(process.argv[1]), systemClock);
      console.log(await issuer.mint({ subject: 'ann', scopes: [], expiresAfterMs: 600000 }));`;
    const run = () => promisify(execFile)(process.execPath, ['--input-type=module', '-e', program, path]);
    const tokens = (await Promise.all([run(), run(), run()])).map(({ stdout }) => stdout.trim());
    const issuer = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    for (const token of tokens) assert.ok(await issuer.verify(bearer(token)));
    assert.deepEqual(await readdir(join(folder, 'data')), ['issuer-key.json'], 'no draft is left');
  });

  it('keeps its key from other users, and refuses one that was not kept', async () => {
    await OwnIssuer.open(new IssuerKeyFile(path), clock);
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    await chmod(path, 0o640);
    await assert.rejects(OwnIssuer.open(new IssuerKeyFile(path), clock), {
      name: 'AccessSetupError',
      message: /mode 0640.*0600/,
    });
  });

  it('refuses a damaged key file without quoting it', async () => {
    await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const text = await readFile(path, 'utf8');
    const damaged = [text.slice(0, -20), '{}', 'null', '{"issuer":"urn:lancegate:x","key":{"kty":"oct","k":"AAAA"}}'];
    for (const content of damaged) {
      await writeFile(path, content);
      await assert.rejects(OwnIssuer.open(new IssuerKeyFile(path), clock), (error: Error) => {
        assert.match(error.message, /damaged/);
        assert.equal(error.cause, undefined);
        return error.name === 'AccessSetupError';
      });
    }
  });

  it("refuses another installation's token under its own name, and leaves alone what is not its own", async () => {
    const issuer = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const other = await OwnIssuer.open(new IssuerKeyFile(join(folder, 'other', 'issuer-key.json')), clock);
    const foreign = await other.mint(request);
    assert.equal(await issuer.verify(bearer(foreign)), undefined);
    const [ownHeader, ownPayload] = (await issuer.mint(request)).split('.');
    const [header, , signature] = foreign.split('.');
    for (const [head, says] of [
      [ownHeader, /signature/],
      [header, /a key that was replaced, or with none/],
    ] as const) {
      const forged = `${head}.${ownPayload}.${signature}`;
      assert.match(await refusal(issuer.verify(bearer(forged)), 'Unauthenticated', forged), says);
    }
  });

  it('refuses to mint what no token can carry', async () => {
    const issuer = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const misfits = [{ subject: '' }, { scopes: ['two words'] }, { scopes: [''] }, { expiresAfterMs: 999 }];
    for (const misfit of [...misfits, { expiresAfterMs: Number.NaN }]) {
      await refusal((async () => issuer.mint({ ...request, ...misfit }))(), 'InvalidInput');
    }
  });

  const accepted = async (issuer: OwnIssuer, token: string): Promise<boolean> => {
    const principal = await issuer.verify(bearer(token)).catch((error: { kind?: string }) => {
      assert.equal(error.kind, 'Unauthenticated');
    });
    return principal !== undefined;
  };
  const lookEveryMs = 1_000;

  it('takes up a rotated key while it runs; tokens of the old one live on for the time that was said', async () => {
    const issuer = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const hour = 60 * minute;
    const long = { ...request, expiresAfterMs: 10 * hour };
    const old = await issuer.mint(long);
    assert.ok(await accepted(issuer, old));
    await rotateIssuerKey(new IssuerKeyFile(path), { clock, acceptOldForMs: hour });
    const fresh = await (await OwnIssuer.open(new IssuerKeyFile(path), clock)).mint(long);
    assert.notEqual(fresh.split('.')[0], old.split('.')[0], 'each names its key');
    assert.ok(await accepted(issuer, fresh), 'at once, though it looks once a second');
    assert.ok(await accepted(issuer, old));
    clock.advance(hour - 1);
    assert.ok(await accepted(issuer, old));
    clock.advance(1);
    assert.deepEqual([await accepted(issuer, old), await accepted(issuer, fresh)], [false, true]);
    await rotateIssuerKey(new IssuerKeyFile(path), { clock, acceptOldForMs: hour });
    assert.equal((JSON.parse(await readFile(path, 'utf8')) as { retired: object[] }).retired.length, 1);
  });

  it('ends all earlier tokens where nothing is said to live on, also those it has seen', async () => {
    const issuer = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const tokens = [await issuer.mint(request)];
    await rotateIssuerKey(new IssuerKeyFile(path), { clock, acceptOldForMs: minute });
    tokens.push(await (await OwnIssuer.open(new IssuerKeyFile(path), clock)).mint(request));
    for (const token of tokens) assert.ok(await accepted(issuer, token));
    await rotateIssuerKey(new IssuerKeyFile(path), { clock, acceptOldForMs: 0 });
    clock.advance(lookEveryMs);
    for (const token of tokens) assert.equal(await accepted(issuer, token), false);
    assert.ok(await accepted(issuer, await issuer.mint(request)), 'who looked also signs with the new one');
    const text = await readFile(path, 'utf8');
    assert.equal(text.split('"d":').length, 2, 'one private key is in the file');
  });

  it('accepts the tokens of earlier releases, which name no key, until their key is gone', async () => {
    const issuer = await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const file = JSON.parse(await readFile(path, 'utf8')) as { issuer: string; key: JWK };
    assert.deepEqual(Object.keys(file), ['issuer', 'key'], 'the file is that of earlier releases until a rotation');
    const nowSeconds = Math.floor(clock.nowMs() / 1_000);
    const unnamed = await new SignJWT({ scope: 'x' })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt' })
      .setIssuer(file.issuer)
      .setAudience('lancegate')
      .setSubject('ann')
      .setExpirationTime(nowSeconds + 3_600)
      .sign(await importJWK(file.key, 'ES256'));
    assert.ok(await accepted(issuer, unnamed));
    await rotateIssuerKey(new IssuerKeyFile(path), { clock, acceptOldForMs: minute });
    clock.advance(lookEveryMs);
    assert.ok(await accepted(issuer, unnamed));
    clock.advance(minute);
    assert.equal(await accepted(issuer, unnamed), false);
  });

  it('keeps its keys where the file is damaged, open to others or gone, and says so once', async () => {
    const warnings: string[] = [];
    const logger = { info: () => undefined, warn: (_: unknown, message: string) => void warnings.push(message) };
    const issuer = await OwnIssuer.open(new IssuerKeyFile(path), clock, logger);
    const token = await issuer.mint(request);
    const spoil = [() => writeFile(path, '{'), () => chmod(path, 0o644), () => rm(path)];
    for (const [index, step] of spoil.entries()) {
      await step();
      for (let look = 0; look < 3; look++) {
        clock.advance(lookEveryMs);
        assert.ok(await accepted(issuer, token));
      }
      assert.equal(warnings.length, index + 1);
    }
  });

  it('is rotated by one command at a time, whole, private and durable; none loses the key of another', async () => {
    await OwnIssuer.open(new IssuerKeyFile(path), clock);
    const rotations = Array.from({ length: 8 }, () =>
      rotateIssuerKey(new IssuerKeyFile(path), { clock, acceptOldForMs: minute }),
    );
    const outcomes = await Promise.allSettled(rotations);
    const done = outcomes.filter(({ status }) => status === 'fulfilled');
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected') assert.match(String(outcome.reason), /Another rotation is under way/);
    }
    assert.ok(done.length > 0);
    const { retired } = JSON.parse(await readFile(path, 'utf8')) as { retired: unknown[] };
    assert.equal(retired.length, done.length);
    assert.deepEqual(await readdir(join(folder, 'data')), ['issuer-key.json'], 'no draft and no lock is left');
    assert.equal((await stat(path)).mode & 0o777, 0o600);
    await writeFile(`${path}.lock`, '');
    await assert.rejects(
      rotateIssuerKey(new IssuerKeyFile(path), { clock, acceptOldForMs: 0 }),
      /remove .*issuer-key\.json\.lock/,
    );
  });
});
