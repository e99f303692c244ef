import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { constants, existsSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { AuditRecord } from '#src/telemetry/audit.ts';
import { AuditFile } from '#src/telemetry/audit-file.ts';
import { createLogger } from '#src/telemetry/logger.ts';
import { temporaryFolder } from '#test/fixtures/temporary-folder.ts';
import { eventually } from '#test/http/eventually.ts';
import { AdvancingClock } from '#test/maintenance/advancing-clock.ts';

const record = (requestId: string, subject = 'ann'): AuditRecord => ({
  requestId,
  method: 'POST',
  route: '/v1/table/:id/describe',
  status: 200,
  durationMs: 1,
  receivedBytes: 0,
  subject,
  issuer: 'lancegate',
  keyId: undefined,
  address: '127.0.0.1',
  proxy: undefined,
  decision: 'allowed',
  actions: ['DescribeTable'],
  namespace: undefined,
  table: 't',
  branch: 'main',
  refusal: undefined,
  clientLeft: undefined,
});

interface Opened {
  readonly audit: AuditFile;
  readonly clock: AdvancingClock;
  readonly log: string[];
  readonly counted: { written: number; lost: number };
}

async function openAt(path: string, maxWaitingBytes?: number): Promise<Opened> {
  const log: string[] = [];
  const logger = createLogger({ level: 'warn', format: 'json', destination: { write: (line) => log.push(line) } });
  const counted = { written: 0, lost: 0 };
  const metrics = {
    auditWritten(records: number) {
      counted.written += records;
    },
    auditLost(records: number) {
      counted.lost += records;
    },
  };
  const clock = new AdvancingClock();
  const limit = maxWaitingBytes === undefined ? {} : { maxWaitingBytes };
  return { audit: await AuditFile.open({ path, clock, logger, metrics, ...limit }), clock, log, counted };
}

interface Line {
  readonly requestId: string;
  readonly lostBefore?: number;
}

const linesOf = (path: string): Line[] => {
  const text = readFileSync(path, 'utf8');
  assert.ok(text === '' || text.endsWith('\n'));
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
};
const idsOf = (path: string): string[] => linesOf(path).map(({ requestId }) => requestId);

/** A disk that is full until `free` is called. */
function fullDisk(t: TestContext): { readonly path: string; readonly free: () => string } {
  const folder = temporaryFolder((clean) => t.after(clean));
  const path = join(folder, 'audit.jsonl');
  symlinkSync('/dev/full', path);
  return {
    path,
    free: () => {
      writeFileSync(join(folder, 'real.jsonl'), '', { mode: 0o600 });
      symlinkSync(join(folder, 'real.jsonl'), `${path}.new`);
      renameSync(`${path}.new`, path);
      return path;
    },
  };
}

test('records wait in memory while the disk is full, and none is lost when it is free again', async (t) => {
  const { path, free } = fullDisk(t);
  const { audit, clock, log, counted } = await openAt(path);
  const ids = Array.from({ length: 5_000 }, (_, index) => `r${index}`);
  for (const id of ids) audit.requestEnded(record(id));
  await eventually('the fault is said', () => log.some((line) => line.includes('ENOSPC')));
  for (let round = 0; round < 20; round++) clock.advance(1_000);
  free();
  await eventually('all are written', () => {
    clock.advance(1_000);
    return counted.written === ids.length;
  });
  await audit.close();
  assert.deepEqual(idsOf(path), ids);
  assert.equal(log.length, 1, log.join(''));
});

test('beyond its limit records are lost, which is counted, logged now and then, and said in the next record (P7)', async (t) => {
  const { path, free } = fullDisk(t);
  const { audit, clock, log, counted } = await openAt(path, 10_000);
  for (let index = 0; index < 2_000; index++) audit.requestEnded(record(`r${index}`));
  await eventually('the fault is said', () => log.some((line) => line.includes('ENOSPC')));
  assert.ok(counted.lost > 1_900, String(counted.lost));
  free();
  await eventually('what waited is written', () => {
    clock.advance(1_000);
    return counted.written === 2_000 - counted.lost;
  });
  audit.requestEnded(record('after'));
  await audit.close();
  const lines = linesOf(path);
  assert.deepEqual(lines.at(-1) && [lines.at(-1)!.requestId, lines.at(-1)!.lostBefore], ['after', counted.lost]);
  assert.equal(lines.length, 2_001 - counted.lost);
  assert.equal(log.filter((line) => line.includes('being lost')).length, 1);
});

test('a reader that stands still delays no request, gets every line whole, and does not keep a stop waiting', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  await assert.rejects(openAt(path), /no process reads the pipe/);
  const reader = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  t.after(() => reader.close());
  const { audit, clock, counted } = await openAt(path);
  const ids = Array.from({ length: 3_000 }, (_, index) => `r${index}`);
  for (const id of ids) audit.requestEnded(record(id));
  let received = '';
  const buffer = Buffer.alloc(8_192);
  await eventually('all came through', async () => {
    clock.advance(1_000);
    const read = await reader.read(buffer).catch(() => ({ bytesRead: 0 }));
    received += buffer.toString('utf8', 0, read.bytesRead);
    return received.split('\n').length === ids.length + 1;
  });
  assert.deepEqual(
    received
      .split('\n')
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as Line).requestId),
    ids,
  );
  for (const id of ids) audit.requestEnded(record(id));
  const closing = audit.close();
  await audit.close();
  await closing;
  assert.ok(counted.lost > 0 && counted.written + counted.lost === 2 * ids.length, JSON.stringify(counted));
});

test('a stop writes what waits; the file is private, whatever the umask', async (t) => {
  const path = join(
    temporaryFolder((clean) => t.after(clean)),
    'audit.jsonl',
  );
  const umask = process.umask(0);
  t.after(() => process.umask(umask));
  const { audit } = await openAt(path);
  audit.requestEnded(record('last'));
  await audit.close();
  assert.deepEqual(idsOf(path), ['last']);
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test('a file that was moved is followed by a new one; where none can be made, the old one goes on', async (t) => {
  const folder = join(
    temporaryFolder((clean) => t.after(clean)),
    'logs',
  );
  execFileSync('mkdir', [folder]);
  const path = join(folder, 'audit.jsonl');
  const { audit, clock, log, counted } = await openAt(path);
  const written = async (id: string) => {
    const before = counted.written;
    audit.requestEnded(record(id));
    clock.advance(1_000);
    await eventually(`${id} is written`, () => counted.written > before);
  };
  await written('one');
  renameSync(path, `${path}.1`);
  await written('two');
  renameSync(folder, `${folder}.moved`);
  await written('three');
  assert.ok(!existsSync(folder));
  assert.match(log.join(''), /a new one cannot be created/);
  await audit.close();
  assert.deepEqual(idsOf(join(`${folder}.moved`, 'audit.jsonl.1')), ['one']);
  assert.deepEqual(idsOf(join(`${folder}.moved`, 'audit.jsonl')), ['two', 'three']);
  rmSync(`${folder}.moved`, { recursive: true });
});

test('a line that a file got in part before it was moved is whole in the new file', async (t) => {
  const folder = temporaryFolder((clean) => t.after(clean));
  const path = join(folder, 'audit.jsonl');
  execFileSync('mkfifo', [path]);
  const reader = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  t.after(() => reader.close());
  const { audit, clock, log } = await openAt(path);
  const ids = Array.from({ length: 500 }, (_, index) => `r${index}`);
  for (const id of ids) audit.requestEnded(record(id));
  await eventually('the pipe is full', () => {
    clock.advance(1_000);
    return log.some((line) => line.includes('EAGAIN'));
  });
  renameSync(path, `${path}.1`);
  clock.advance(1_000);
  await eventually('there is a new file', () => existsSync(path));
  await audit.close();
  const { buffer, bytesRead } = await reader.read(Buffer.alloc(2 ** 17));
  const [cut, ...whole] = buffer.toString('utf8', 0, bytesRead).split('\n').reverse();
  assert.notEqual(cut, '');
  assert.deepEqual(idsOf(path), ids.slice(whole.length));
});
