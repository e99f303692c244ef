/**
 * Holds up all reads of a table's rows, for as long as a test wants: the table's one data file becomes a pipe that nothing
 * writes to, and the engine waits for it as it would for a disk that hangs. A merge that got its turn stays in it, so
 * what waits behind it waits for certain.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, constants, existsSync, openSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import type { TestService } from '#test/fixtures/service.ts';
import { eventually } from './eventually.ts';

interface StalledReads {
  /** The rows are where they were; a request that waits for them waits on. */
  putBack(): void;
  /** The rows can be read again; a request that waited for them gets a failing disk. */
  release(): void;
}

export function stallReads(
  service: Pick<TestService, 'tablesFolder'>,
  table: string,
  after: (clean: () => void) => void,
): StalledReads {
  const folder = join(service.tablesFolder, `${table}.lance`, 'data');
  const [name, ...others] = readdirSync(folder);
  if (name === undefined || others.length > 0) throw new Error(`${table} must have one data file`);
  const file = join(folder, name);
  const rows = `${file}.aside`;
  const pipe = `${file}.pipe`;
  renameSync(file, rows);
  execFileSync('mkfifo', [file]);
  let opened: number | undefined;
  const putBack = (): void => {
    if (!existsSync(rows)) return;
    renameSync(file, pipe);
    renameSync(rows, file);
  };
  const release = (): void => {
    if (opened !== undefined) return;
    putBack();
    opened = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
  };
  after(() => {
    release();
    if (opened !== undefined) closeSync(opened);
  });
  return { putBack, release };
}

/**
 * Sends a merge, and resolves once it has got the table's turn, which it holds until `release`. Only then: who comes before
 * that may share its commit, and the failing disk with it.
 */
export async function holdTurn<Answer>(
  service: TestService,
  table: string,
  after: (clean: () => void) => void,
  send: () => Promise<Answer>,
): Promise<StalledReads & { readonly holder: Promise<Answer> }> {
  const stalled = stallReads(service, table, after);
  const begun = await mergesBegun(service);
  const holder = send();
  await eventually('the merge has the turn', async () => (await mergesBegun(service)) > begun);
  return { ...stalled, holder };
}

/** Merges that no longer wait. */
const mergesBegun = (service: TestService): Promise<number> =>
  metric(service, 'lancegate_write_stage_duration_seconds_count{stage="wait"}');

/** Resolves once the service has read so many bytes of bodies since its start. */
export async function untilReceived(service: TestService, bytes: number): Promise<void> {
  await eventually(`${bytes} bytes received`, async () => (await receivedBytes(service)) >= bytes);
}

export const receivedBytes = (service: TestService): Promise<number> =>
  metric(service, 'lancegate_received_bytes_total');

/** Resolves once so many merges wait for their turn: who asks for the whole table now comes behind them. */
export async function untilQueued(service: TestService, merges: number): Promise<void> {
  await eventually(`${merges} merges wait`, async () => (await metric(service, 'lancegate_queued_writes')) >= merges);
}

/** Resolves once so many drops and replacements of tables wait for the merges before them. */
export async function untilWaitingForTables(service: TestService, changes: number): Promise<void> {
  const waiting = (): Promise<number> => metric(service, 'lancegate_waiting_for_tables');
  await eventually(`${changes} wait for a whole table`, async () => (await waiting()) >= changes);
}

/** 0 where it has never been counted. */
async function metric(service: TestService, name: string): Promise<number> {
  const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
  const metrics = await (await fetch(`${service.url}/metrics`, { headers })).text();
  const line = metrics.split('\n').find((text) => text.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
}

/** What was sent before has come as far as it can: the service answered others several times since. */
export async function settled(service: TestService): Promise<void> {
  for (let round = 0; round < 5; round++) await service.post('/v1/namespace/$/exists');
}
