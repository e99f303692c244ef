import { setTimeout as pause } from 'node:timers/promises';
import { startHotLoad } from './hot-load.ts';
import { inTurns } from './in-turns.ts';
import { KeyFeed } from './key-feed.ts';
import { perSecond, shownMs } from './many-writers.ts';
import { median, percentile, type Row } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { floatsPerRow, type HttpUpserters, httpUpserters } from './upserters.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const coldTables = 20;
const rowsPerRequest = 100;
/** Twenty requests a second over all cold tables: enough for a p99, too few to be a load themselves. */
const betweenRequestsMs = 1000;
/** A table that has just become busy is another matter: its first merges are the engine's. */
const untilBusyMs = 2000;
/** Of each kind, so that a disk which is slow for a while is slow for both. */
const turns = 3;
const hot = { clients: 64, rowsPerRequest, targetRows: 100_000 };
const cold = { clients: 1, rowsPerRequest, targetRows: 10_000 };

interface Writers {
  readonly upserters: HttpUpserters;
  readonly feed: KeyFeed;
}

/** What a table that is written to now and then notices of a neighbour at full load. */
export async function compareColdTables(service: ServiceProcess, seconds: number): Promise<Row> {
  await createTables(service);
  const load = startHotLoad({ target: service, table: 'hot', size: hot });
  const coldWriters = await Promise.all(range(0, coldTables).map((i) => connected(service, `cold_${i}`, cold)));
  const turnSeconds = seconds / turns;
  const alone = () => coldLatencies(coldWriters, turnSeconds);
  const withHot = async () => {
    const loaded = load.run(untilBusyMs + (turnSeconds + 1) * 1000);
    await pause(untilBusyMs);
    const latenciesMs = await alone();
    return { latenciesMs, hot: await loaded };
  };
  const { first, second } = await inTurns(turns, alone, withHot);
  for (const { upserters } of coldWriters) upserters.close();
  await load.stop();
  const besideMs = second.flatMap(({ latenciesMs }) => latenciesMs);
  const hotPerSecond = median(second.map(({ hot: served }) => perSecond(served)));
  return row(first.flat(), besideMs, hotPerSecond);
}

function row(aloneMs: readonly number[], besideMs: readonly number[], hotPerSecond: number): Row {
  const shown = (part: number): string =>
    `p${part * 100} ${shownMs(percentile(besideMs, part))} (without it ${shownMs(percentile(aloneMs, part))})`;
  return {
    what: `${coldTables} cold tables with a hot one (${hotPerSecond.toFixed(0)} req/s)`,
    lancegate: `${shown(0.99)}, ${shown(0.5)}`,
    bareEngine: '',
    ratio: `${(percentile(besideMs, 0.99) / percentile(aloneMs, 0.99)).toFixed(2)}x`,
    goal: 'at most 3x',
  };
}

async function createTables(service: ServiceProcess): Promise<void> {
  const coldRows = bodyOf(vectorTable({ keys: range(0, cold.targetRows), floatsPerRow })).stream;
  for (let i = 0; i < coldTables; i++) await service.post(`/v1/table/cold_${i}/create`, coldRows);
  const hotRows = bodyOf(vectorTable({ keys: range(0, hot.targetRows), floatsPerRow })).stream;
  await service.post('/v1/table/hot/create', hotRows);
}

/** Connections are kept, as the clients of the service keep them: what is measured is a merge. */
async function connected(service: ServiceProcess, table: string, size: typeof cold): Promise<Writers> {
  const upserters = httpUpserters(service, table, size);
  for (const client of range(0, size.clients)) await upserters.connect(client);
  return { upserters, feed: new KeyFeed(size.targetRows, rowsPerRequest) };
}

async function coldLatencies(tables: readonly Writers[], seconds: number): Promise<readonly number[]> {
  return (await Promise.all(tables.map((table, index) => writeNowAndThen(table, index, seconds)))).flat();
}

/** At fixed times, whether the last request is answered or not: waiting would hide the slow ones. */
async function writeNowAndThen(
  { upserters, feed }: Writers,
  index: number,
  seconds: number,
): Promise<readonly number[]> {
  const startMs = performance.now() + (index / coldTables) * betweenRequestsMs;
  const latenciesMs: number[] = [];
  for (let due = startMs; due < startMs + seconds * 1000; due += betweenRequestsMs) {
    await pause(Math.max(0, due - performance.now()));
    await upserters.upsert(0, feed.next());
    latenciesMs.push(performance.now() - due);
  }
  return latenciesMs;
}
