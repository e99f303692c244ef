import { runClosedLoop } from './closed-loop.ts';
import { inTurns } from './in-turns.ts';
import { KeyFeed } from './key-feed.ts';
import { shownMs } from './many-writers.ts';
import { percentile, type Row } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { floatsPerRow, httpUpserters } from './upserters.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const coldTables = 20;
const coldRows = 10_000;
const rowsPerRequest = 100;
/** Twenty requests a second over all cold tables: enough for a p99, too few to be a load themselves. */
const betweenRequestsMs = 1000;
/** Of each kind, so that a disk which is slow for a while is slow for both. */
const turns = 3;
const hot = { clients: 64, rowsPerRequest, targetRows: 100_000 };

/** What a table that is written to now and then notices of a neighbour at full load. */
export async function compareColdTables(service: ServiceProcess, seconds: number): Promise<Row> {
  await createTables(service);
  const feeds = { hot: new KeyFeed(hot.targetRows, rowsPerRequest), cold: range(0, coldTables).map(coldFeed) };
  const turnSeconds = seconds / turns;
  const alone = () => coldLatencies(service, feeds.cold, turnSeconds);
  const beside = async () => {
    const load = loadHot(service, feeds.hot, turnSeconds + 1);
    const latenciesMs = await alone();
    await load;
    return latenciesMs;
  };
  const { first, second } = await inTurns(turns, alone, beside);
  const [before, after] = [percentile(first.flat(), 0.99), percentile(second.flat(), 0.99)];
  return {
    what: `${coldTables} cold tables beside a hot one`,
    lancegate: `p99 ${shownMs(after)} (without it ${shownMs(before)})`,
    bareEngine: '',
    ratio: `${(after / before).toFixed(2)}x`,
    goal: 'at most 3x',
  };
}

async function createTables(service: ServiceProcess): Promise<void> {
  const cold = bodyOf(vectorTable({ keys: range(0, coldRows), floatsPerRow })).stream;
  for (let i = 0; i < coldTables; i++) await service.post(`/v1/table/cold_${i}/create`, cold);
  const hotRows = bodyOf(vectorTable({ keys: range(0, hot.targetRows), floatsPerRow })).stream;
  await service.post('/v1/table/hot/create', hotRows);
}

async function loadHot(service: ServiceProcess, feed: KeyFeed, seconds: number): Promise<void> {
  const upserters = httpUpserters(service, 'hot', hot);
  const request = (client: number) => upserters.upsert(client, feed.next());
  await runClosedLoop({ clients: hot.clients, durationMs: seconds * 1000, request, pauseAfterRefusalMs: 100 });
  upserters.close();
}

const coldFeed = (): KeyFeed => new KeyFeed(coldRows, rowsPerRequest);

async function coldLatencies(
  service: ServiceProcess,
  feeds: readonly KeyFeed[],
  seconds: number,
): Promise<readonly number[]> {
  const tables = feeds.map((feed, index) => writeNowAndThen(service, { index, feed }, seconds));
  return (await Promise.all(tables)).flat();
}

/** At fixed times, whether the last request is answered or not: waiting would hide the slow ones. */
async function writeNowAndThen(
  service: ServiceProcess,
  { index, feed }: { readonly index: number; readonly feed: KeyFeed },
  seconds: number,
): Promise<readonly number[]> {
  const upserters = httpUpserters(service, `cold_${index}`, { clients: 1, rowsPerRequest });
  const startMs = performance.now() + (index / coldTables) * betweenRequestsMs;
  const latenciesMs: number[] = [];
  for (let due = startMs; due < startMs + seconds * 1000; due += betweenRequestsMs) {
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
    await upserters.upsert(0, feed.next());
    latenciesMs.push(performance.now() - due);
  }
  upserters.close();
  return latenciesMs;
}
