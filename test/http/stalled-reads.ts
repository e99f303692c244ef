/**
 * Holds up whoever reads a table's rows, for as long as a test wants: the table's one data file becomes a pipe that nobody
 * writes to, and the engine waits for it as it would for a disk that hangs. A merge that got its turn stays in it, so
 * what waits behind it waits for certain.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import type { TestService } from '#test/fixtures/service.ts';
import { eventually } from './eventually.ts';

export interface StalledReads {
  /** The rows can be read again; who waited for them gets a failing disk. */
  release(): void;
}

export function stallReads(service: TestService, table: string, after: (clean: () => void) => void): StalledReads {
  const folder = join(service.tablesFolder, `${table}.lance`, 'data');
  const [name, ...others] = readdirSync(folder);
  if (name === undefined || others.length > 0) throw new Error(`${table} must have one data file`);
  const file = join(folder, name);
  const rows = `${file}.aside`;
  const pipe = `${file}.pipe`;
  renameSync(file, rows);
  execFileSync('mkfifo', [file]);
  let opened: number | undefined;
  const release = (): void => {
    if (opened !== undefined) return;
    renameSync(file, pipe);
    renameSync(rows, file);
    opened = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
  };
  after(() => {
    release();
    if (opened !== undefined) closeSync(opened);
  });
  return { release };
}

/** Resolves once the service has read so many bytes of bodies since its start. */
export async function untilReceived(service: TestService, bytes: number): Promise<void> {
  await eventually(`${bytes} bytes received`, async () => (await receivedBytes(service)) >= bytes);
}

export async function receivedBytes(service: TestService): Promise<number> {
  const headers = { authorization: `Bearer ${await service.mint('lancegate:admin')}` };
  const metrics = await (await fetch(`${service.url}/metrics`, { headers })).text();
  return Number(/^lancegate_received_bytes_total (\d+)$/m.exec(metrics)?.[1]);
}

/** What was sent before has come as far as it can: the service answered others several times since. */
export async function settled(service: TestService): Promise<void> {
  for (let round = 0; round < 5; round++) await service.post('/v1/namespace/$/exists');
}
