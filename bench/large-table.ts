import { runClosedLoop } from './closed-loop.ts';
import { KeyFeed } from './key-feed.ts';
import { shownMs } from './many-writers.ts';
import { median, type Row } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { floatsPerRow, httpUpserters, type Upserters } from './upserters.ts';
import { bodyOf, keyedStream, range, vectorTable } from './workloads.ts';

const size = { clients: 1, rowsPerRequest: 100 };
const smallRows = 100_000;
const measuredUpserts = 60;

/**
 * The same upserts into a large and a small table, turn about, once the large one has had `settleSeconds` of them: by then
 * the service should have seen that the table deserves an index.
 */
export async function compareLargeTable(
  service: ServiceProcess,
  largeRows: number,
  settleSeconds: number,
): Promise<readonly Row[]> {
  await service.post('/v1/table/large_table/create', keyedStream(largeRows, floatsPerRow));
  const small = bodyOf(vectorTable({ keys: range(0, smallRows), floatsPerRow })).stream;
  await service.post('/v1/table/small_table/create', small);
  const large = client(service, 'large_table', largeRows);
  const other = client(service, 'small_table', smallRows);
  const early = median(await large.run(measuredUpserts));
  await large.runFor(settleSeconds);
  await other.runFor(2);
  const [inLarge, inSmall]: number[][] = [[], []];
  for (let turn = 0; turn < measuredUpserts; turn++) {
    inLarge?.push(...(await large.run(1)));
    inSmall?.push(...(await other.run(1)));
  }
  large.upserters.close();
  other.upserters.close();
  return [rowOf(largeRows, median(inLarge ?? []), median(inSmall ?? []), early)];
}

interface Client {
  readonly upserters: Upserters;
  run(count: number): Promise<readonly number[]>;
  runFor(seconds: number): Promise<void>;
}

function client(service: ServiceProcess, table: string, rows: number): Client {
  const upserters = httpUpserters(service, table, size);
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

const rowOf = (largeRows: number, inLarge: number, inSmall: number, early: number): Row => ({
  what: `100 rows into ${(largeRows / 1e6).toFixed(0)}M rows`,
  lancegate: `p50 ${shownMs(inLarge)} (100k rows ${shownMs(inSmall)}; right after the create ${shownMs(early)})`,
  bareEngine: '',
  ratio: `${(inLarge / inSmall).toFixed(2)}x`,
  goal: 'at most 1.5x',
});
