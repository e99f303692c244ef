import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createBare } from './bare-engine.ts';
import { runClosedLoop } from './closed-loop.ts';
import { shownMs } from './many-writers.ts';
import { median, type Row } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { bytesOnDisk } from './stored-keys.ts';
import { bareUpserters, floatsPerRow, httpUpserters, type Upserters } from './upserters.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const targetRows = 100_000;
const firstUpserts = 100;
const size = { clients: 1, rowsPerRequest: 1 };

/** One client, one row at a time: what the first hundred cost, and whether it stays so. */
export async function compareOneWriter(
  service: ServiceProcess,
  folder: string,
  upserts: number,
): Promise<readonly Row[]> {
  const table = 'one';
  const first = bodyOf(vectorTable({ keys: range(0, targetRows), floatsPerRow }));
  await service.post(`/v1/table/${table}/create`, first.stream);
  const bare = bareUpserters(await createBare(join(folder, 'bare'), table, first.file), size);
  const ours = httpUpserters(service, table, size);
  const tableFolder = await service.folderOf(table);
  const diskAtStart = await bytesOnDisk(tableFolder);
  const { our, their } = await firstOfBoth(ours, bare);
  const residentAtStart = await service.residentBytes();
  const later = await latenciesOf(ours, upserts - firstUpserts, firstUpserts);
  ours.close();
  const last = median(later.slice(-firstUpserts));
  const resident = await service.residentBytes();
  const busyDisk = await bytesOnDisk(tableFolder);
  await pause(untilOldVersionsAreGoneMs);
  const disk = await bytesOnDisk(tableFolder);
  return [
    versus('1 client x 1 row, first 100', our, their),
    flat(`- after ${upserts.toLocaleString('en')}`, shownMs(last), shownMs(our), last / our, 1.25),
    flat(
      '- disk, when the versions of the last minute are gone',
      shownBytes(disk),
      shownBytes(diskAtStart),
      disk / diskAtStart,
      3,
    ),
    flat('- disk, with them', shownBytes(busyDisk), shownBytes(diskAtStart), busyDisk / diskAtStart, undefined),
    flat('- resident memory', shownBytes(resident), shownBytes(residentAtStart), resident / residentAtStart, 1.2),
  ];
}

/** The default retention, and as much as its bookkeeping may be late. */
const untilOldVersionsAreGoneMs = 75_000;

/** Turn about, so that both meet the same machine. */
async function firstOfBoth(ours: Upserters, bare: Upserters): Promise<{ our: number; their: number }> {
  const our: number[] = [];
  const their: number[] = [];
  for (let turn = 0; turn < firstUpserts; turn++) {
    our.push(...(await latenciesOf(ours, 1, turn)));
    their.push(...(await latenciesOf(bare, 1, turn)));
  }
  return { our: median(our), their: median(their) };
}

/** Every second row is new. */
async function latenciesOf(upserters: Upserters, count: number, from: number): Promise<readonly number[]> {
  let turn = from;
  const keyOf = (i: number): number => (i % 2 === 0 ? targetRows + i : (i * 7_919) % targetRows);
  const { acceptedMs } = await runClosedLoop({
    clients: 1,
    durationMs: Number.POSITIVE_INFINITY,
    maxRequestsPerClient: count,
    request: () => upserters.upsert(0, [keyOf(turn++)]),
  });
  return acceptedMs;
}

const versus = (what: string, our: number, their: number): Row => ({
  what,
  lancegate: `p50 ${shownMs(our)}`,
  bareEngine: `p50 ${shownMs(their)}`,
  ratio: `${(our / their).toFixed(2)}x`,
  goal: 'at most 1.5x',
});

const flat = (what: string, now: string, before: string, ratio: number, atMost: number | undefined): Row => ({
  what,
  lancegate: `${now} (at first ${before})`,
  bareEngine: '',
  ratio: `${ratio.toFixed(2)}x`,
  goal: atMost === undefined ? '' : `at most ${atMost}x`,
});

const shownBytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
