import { join } from 'node:path';
import { type BareTable, createBare } from './bare-engine.ts';
import { runClosedLoop } from './closed-loop.ts';
import { KeyFeed } from './key-feed.ts';
import { shownMs } from './many-writers.ts';
import { median, type Row } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { bareUpserters, floatsPerRow, httpUpserters, type Upserters } from './upserters.ts';
import { bodyOf, keyedStream, range, vectorTable } from './workloads.ts';

const size = { clients: 1, rowsPerRequest: 100 };
const smallRows = 100_000;
const measuredUpserts = 60;
const rowsPerAppend = 1_000_000;

/**
 * The same upserts into a large and a small table, turn about, once the large one has had `settleSeconds` of them: by then
 * the service should have seen that the table deserves an index. The peer's tables have one from the start, and are tidy.
 */
export async function compareLargeTable(
  service: ServiceProcess,
  folder: string,
  largeRows: number,
  settleSeconds: number,
): Promise<readonly Row[]> {
  await service.post('/v1/table/large_table/create', keyedStream(largeRows, floatsPerRow));
  const small = bodyOf(vectorTable({ keys: range(0, smallRows), floatsPerRow })).stream;
  await service.post('/v1/table/small_table/create', small);
  const large = client(httpUpserters(service, 'large_table', size), largeRows);
  const other = client(httpUpserters(service, 'small_table', size), smallRows);
  const bareLarge = client(bareUpserters(await indexedBare(folder, 'large', largeRows), size), largeRows);
  const bareSmall = client(bareUpserters(await indexedBare(folder, 'small', smallRows), size), smallRows);
  const early = median(await large.run(measuredUpserts));
  await large.runFor(settleSeconds);
  await other.runFor(2);
  const ours = await turnAbout(large, other);
  const theirs = await turnAbout(bareLarge, bareSmall);
  for (const { upserters } of [large, other, bareLarge, bareSmall]) upserters.close();
  return [rowOf(largeRows, ours, theirs, early)];
}

interface Medians {
  readonly largeMs: number;
  readonly smallMs: number;
}

async function turnAbout(large: Client, small: Client): Promise<Medians> {
  const inLarge: number[] = [];
  const inSmall: number[] = [];
  for (let turn = 0; turn < measuredUpserts; turn++) {
    inLarge.push(...(await large.run(1)));
    inSmall.push(...(await small.run(1)));
  }
  return { largeMs: median(inLarge), smallMs: median(inSmall) };
}

async function indexedBare(folder: string, name: string, rows: number): Promise<BareTable> {
  const fileFrom = (from: number): Buffer =>
    bodyOf(vectorTable({ keys: range(from, Math.min(rowsPerAppend, rows - from)), floatsPerRow })).file;
  const table = await createBare(join(folder, 'bare'), name, fileFrom(0));
  for (let from = rowsPerAppend; from < rows; from += rowsPerAppend) await table.append(fileFrom(from));
  await table.buildIndex();
  return table;
}

interface Client {
  readonly upserters: Upserters;
  run(count: number): Promise<readonly number[]>;
  runFor(seconds: number): Promise<void>;
}

function client(upserters: Upserters, rows: number): Client {
  const feed = new KeyFeed(rows, size.rowsPerRequest);
  const request = () => upserters.upsert(0, feed.next());
  const load = { clients: 1, request };
  const forever = Number.POSITIVE_INFINITY;
  return {
    upserters,
    run: async (count) =>
      (await runClosedLoop({ ...load, durationMs: forever, maxRequestsPerClient: count })).acceptedMs,
    runFor: async (seconds) => {
      await runClosedLoop({ ...load, durationMs: seconds * 1000 });
    },
  };
}

/** The ratio is that of lancegate's two tables; the peer's is next to it. */
const rowOf = (largeRows: number, ours: Medians, theirs: Medians, early: number): Row => ({
  what: `100 rows into ${(largeRows / 1e6).toFixed(0)}M rows`,
  lancegate: `p50 ${shownMs(ours.largeMs)} (100k rows ${shownMs(ours.smallMs)}; right after the create ${shownMs(early)})`,
  bareEngine: `p50 ${shownMs(theirs.largeMs)} (100k rows ${shownMs(theirs.smallMs)}: ${timesAsLong(theirs)})`,
  ratio: timesAsLong(ours),
  goal: 'at most 1.5x',
});

const timesAsLong = ({ largeMs, smallMs }: Medians): string => `${(largeMs / smallMs).toFixed(2)}x`;
