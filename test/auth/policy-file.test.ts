import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { PolicyFile } from '#src/auth/policy/policy-file.ts';
import type { Clock } from '#src/kernel/clock.ts';
import type { LogFields, Logger } from '#src/telemetry/logger.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { namespace, request } from './requests.ts';

const closed = 'forbid (principal, action, resource);';
const open = 'permit (principal, action, resource);';
const broken = 'permit (principal, action resource);';

/** Each tick lets what waits for its time run, and ends when it waits again. */
class TickingClock implements Clock {
  #scheduled = Promise.withResolvers<() => void>();

  nowMs(): number {
    return 0;
  }

  schedule(_afterMs: number, run: () => void): () => void {
    this.#scheduled.resolve(run);
    return () => undefined;
  }

  async tick(): Promise<void> {
    const run = await this.#scheduled.promise;
    this.#scheduled = Promise.withResolvers();
    run();
    await this.#scheduled.promise;
  }
}

interface Line {
  readonly level: string;
  readonly fields: LogFields;
  readonly message: string;
}

async function opened(t: TestContext, write: (folder: string) => string) {
  const folder = temporaryFolder((clean) => t.after(clean));
  const path = write(folder);
  const clock = new TickingClock();
  const lines: Line[] = [];
  const to = (level: string) => (fields: LogFields, message: string) => void lines.push({ level, fields, message });
  const logger: Logger = {
    debug: to('debug'),
    info: to('info'),
    warn: to('warn'),
    error: to('error'),
    child: () => logger,
  };
  const file = await PolicyFile.open({ path, clock, logger });
  t.after(() => file.close());
  const principal = request({}).principal;
  return {
    file,
    path,
    folder,
    lines,
    isOpen: () => file.policy.allows(request({ principal, resource: namespace('a') })),
    look: () => clock.tick(),
  };
}

const plainFile = (text: string) => (folder: string) => {
  const path = join(folder, 'policies.cedar');
  writeFileSync(path, text);
  return path;
};

describe('a policy file that changes', () => {
  it('is in force once two looks found the same, for decisions that were remembered, too', async (t) => {
    const { path, isOpen, look } = await opened(t, plainFile(open));
    assert.equal(isOpen(), true);
    writeFileSync(path, closed);
    await look();
    assert.equal(isOpen(), true, 'it may be half written');
    await look();
    assert.equal(isOpen(), false);
  });

  it('is not taken while every look finds another half of it', async (t) => {
    const { path, isOpen, look } = await opened(t, plainFile(closed));
    for (const half of [`${open}\n`, `${open}\n//`, `${open}\n// and`]) {
      writeFileSync(path, half);
      await look();
      assert.equal(isOpen(), false);
    }
    writeFileSync(path, `${open}\n${closed}`);
    for (let looks = 0; looks < 2; looks += 1) await look();
    assert.equal(isOpen(), false, 'what the end forbids was never open');
  });

  it('may be replaced by rename', async (t) => {
    const { path, folder, isOpen, look } = await opened(t, plainFile(open));
    writeFileSync(join(folder, 'new'), closed);
    renameSync(join(folder, 'new'), path);
    for (let looks = 0; looks < 2; looks += 1) await look();
    assert.equal(isOpen(), false);
  });

  it('may be a link to a link, as Kubernetes mounts a ConfigMap', async (t) => {
    const { folder, isOpen, look } = await opened(t, (folder) => {
      for (const [version, text] of [
        ['v1', open],
        ['v2', closed],
      ] as const) {
        mkdirSync(join(folder, version));
        writeFileSync(join(folder, version, 'policies.cedar'), text);
      }
      symlinkSync('v1', join(folder, '..data'));
      symlinkSync('..data/policies.cedar', join(folder, 'policies.cedar'));
      return join(folder, 'policies.cedar');
    });
    assert.equal(isOpen(), true);
    symlinkSync('v2', join(folder, '..data_tmp'));
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
    for (let looks = 0; looks < 2; looks += 1) await look();
    assert.equal(isOpen(), false);
  });

  it('and is broken changes nothing, and the log says once where it is broken and what is in force', async (t) => {
    const { path, isOpen, look, lines } = await opened(t, plainFile(open));
    writeFileSync(path, broken);
    for (let looks = 0; looks < 4; looks += 1) await look();
    assert.equal(isOpen(), true);
    const [inForce, refused, ...more] = lines;
    assert.deepEqual(inForce, {
      level: 'info',
      fields: { policyFile: 'policies.cedar', sha256: sha256(open) },
      message: 'these policies are in force',
    });
    assert.equal(refused?.level, 'error');
    assert.deepEqual([refused.fields.sha256, refused.fields.sha256InForce], [sha256(broken), sha256(open)]);
    assert.match(String(refused.fields.problems), /^policies\.cedar:1:27: unexpected token/);
    assert.deepEqual(more, []);
    writeFileSync(path, closed);
    for (let looks = 0; looks < 2; looks += 1) await look();
    assert.equal(isOpen(), false, 'a mended one counts');
    assert.equal(lines.at(-1)?.fields.sha256, sha256(closed));
  });

  it('and vanishes, or holds no policy, changes nothing', async (t) => {
    const { path, isOpen, look, lines } = await opened(t, plainFile(open));
    rmSync(path);
    for (let looks = 0; looks < 3; looks += 1) await look();
    assert.equal(isOpen(), true);
    assert.equal(lines.length, 2);
    assert.match(lines[1]!.message, /cannot be read; the policies stay/);
    writeFileSync(path, '');
    for (let looks = 0; looks < 3; looks += 1) await look();
    assert.equal(isOpen(), true);
    assert.match(String(lines[2]!.fields.problems), /^policies\.cedar:1:1: the file holds no policy/);
  });
});

describe('what is no policy file', () => {
  it('a pipe is not waited for, and changes nothing', async (t) => {
    const { file, path, isOpen, look, lines } = await opened(t, plainFile(open));
    rmSync(path);
    execFileSync('mkfifo', [path]);
    for (let looks = 0; looks < 2; looks += 1) await look();
    await file.reload();
    assert.equal(isOpen(), true);
    assert.match(String(lines.at(-1)?.fields.error), /policies\.cedar is not a file/);
  });

  it('what is larger than any policies is not read, and changes nothing (P7)', async (t) => {
    const { file, path, isOpen, lines } = await opened(t, plainFile(open));
    writeFileSync(path, `${closed}\n//${'x'.repeat(2 ** 20)}`);
    await file.reload();
    assert.equal(isOpen(), true);
    assert.match(String(lines.at(-1)?.fields.error), /has more than 1048576 bytes/);
  });
});

describe('a policy file that is read again on demand', () => {
  it('is read once for all who ask before that, and not after the end', async (t) => {
    const { file, path, isOpen, lines } = await opened(t, plainFile(open));
    const first = file.reload();
    await Promise.resolve(); // the first reading has begun
    writeFileSync(path, closed);
    await Promise.all([first, ...Array.from({ length: 200 }, () => file.reload())]);
    assert.equal(isOpen(), false);
    assert.equal(lines.length, 3, 'at the start, the first, and one for all others');
    const late = file.reload();
    await Promise.all([file.close(), late, file.reload()]);
    assert.equal(lines.length, 3);
  });

  it('is in force at once', async (t) => {
    const { file, path, isOpen, lines } = await opened(t, plainFile(open));
    writeFileSync(path, closed);
    await file.reload();
    assert.equal(isOpen(), false);
    assert.deepEqual(
      lines.map(({ fields }) => fields.sha256),
      [sha256(open), sha256(closed)],
    );
  });

  it('and is nested so deeply that Cedar dies of it changes nothing, now and afterwards', async (t) => {
    const { file, path, isOpen, lines } = await opened(t, plainFile(closed));
    const nested = (times: number) => `${'('.repeat(times)}true${')'.repeat(times)}`;
    for (const condition of [nested(400), nested(3_000), `${'['.repeat(3_000)}1${']'.repeat(3_000)} == 1`]) {
      writeFileSync(path, `permit (principal, action, resource) when { ${condition} };`);
      await file.reload();
      assert.match(String(lines.at(-1)?.fields.problems), /^policies\.cedar:1:1: .* nested too deeply/);
      assert.equal(isOpen(), false);
    }
    writeFileSync(path, open);
    await file.reload();
    assert.equal(isOpen(), true);
  });

  it('is judged again each time, so that each operator who asks gets an answer in the log', async (t) => {
    const { file, path, isOpen, lines } = await opened(t, plainFile(open));
    await file.reload();
    writeFileSync(path, broken);
    for (let times = 0; times < 2; times += 1) await file.reload();
    assert.equal(isOpen(), true);
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['info', 'info', 'error', 'error'],
    );
  });
});

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
