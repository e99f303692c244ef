import { join } from 'node:path';
import { createBare } from './bare-engine.ts';
import { type Outcome, runClosedLoop } from './closed-loop.ts';
import { KeyFeed } from './key-feed.ts';
import { percentile, type Row } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { shownPart, stolenRow } from './stolen-time.ts';
import { countKeys, type KeyCount } from './stored-keys.ts';
import { bareUpserters, floatsPerRow, httpUpserters, type Upserters } from './upserters.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

interface ManyWriters {
  readonly clients: number;
  readonly seconds: number;
  readonly rowsPerRequest: number;
  readonly targetRows: number;
}

interface Side {
  readonly outcome: Outcome;
  readonly keys: KeyCount;
  /** Rows that were acknowledged and are not there; undefined where a refusal leaves open what should be. */
  readonly missing: number | undefined;
}

/** Many clients, one table: first through lancegate, then the same requests into the bare engine. */
export async function compareManyWriters(
  service: ServiceProcess,
  folder: string,
  given: ManyWriters,
): Promise<readonly Row[]> {
  const table = `many_${given.clients}`;
  const first = bodyOf(vectorTable({ keys: range(0, given.targetRows), floatsPerRow }));
  await service.post(`/v1/table/${table}/create`, first.stream);
  const bare = await createBare(join(folder, 'bare'), table, first.file);
  const ours = await load(httpUpserters(service, table, given), await service.folderOf(table), given);
  const theirs = await load(bareUpserters(bare, given), join(folder, 'bare', `${table}.lance`), given);
  return rowsOf(given, ours, theirs);
}

/** lancegate alone: how far it goes. */
export async function measureManyWriters(service: ServiceProcess, given: ManyWriters, goal: string): Promise<Row> {
  const table = `alone_${given.clients}`;
  const first = bodyOf(vectorTable({ keys: range(0, given.targetRows), floatsPerRow }));
  await service.post(`/v1/table/${table}/create`, first.stream);
  const { outcome } = await load(httpUpserters(service, table, given), await service.folderOf(table), given);
  const what = `${given.clients} clients x ${given.rowsPerRequest} rows`;
  const refused = outcome.refusedMs.length === 0 ? '' : `, ${outcome.refusedMs.length} refused`;
  const lancegate = `${perSecond(outcome).toFixed(0)} req/s, ${latency(outcome)}${refused}`;
  return { what, lancegate, bareEngine: '', ratio: '', goal };
}

async function load(upserters: Upserters, tableFolder: string, given: ManyWriters): Promise<Side> {
  const feed = new KeyFeed(given.targetRows, given.rowsPerRequest);
  try {
    const request = (client: number) => upserters.upsert(client, feed.next());
    const outcome = await runClosedLoop({ clients: given.clients, durationMs: given.seconds * 1000, request });
    const keys = await countKeys(tableFolder);
    const isAllAccepted = outcome.refusedMs.length === 0;
    return { outcome, keys, missing: isAllAccepted ? feed.end - (keys.rows - keys.duplicates) : undefined };
  } finally {
    upserters.close();
  }
}

function rowsOf(given: ManyWriters, ours: Side, theirs: Side): readonly Row[] {
  const what = `${given.clients} clients x ${given.rowsPerRequest} rows, ${given.seconds} s`;
  const [our, their] = [perSecond(ours.outcome), perSecond(theirs.outcome)];
  return [
    {
      what,
      lancegate: `${our.toFixed(0)} req/s`,
      bareEngine: `${their.toFixed(1)} req/s`,
      ratio: `${(our / their).toFixed(0)}x`,
      goal: 'at least 50x',
    },
    {
      what: '- latency',
      lancegate: latency(ours.outcome),
      bareEngine: latency(theirs.outcome),
      ratio: '',
      goal: 'p99 under 250 ms',
    },
    {
      what: '- rows whose key is there twice',
      lancegate: String(ours.keys.duplicates),
      bareEngine: `${theirs.keys.duplicates} of ${theirs.keys.rows}`,
      ratio: '',
      goal: 'none',
    },
    {
      what: '- acknowledged keys that are missing',
      lancegate: shownMissing(ours),
      bareEngine: shownMissing(theirs),
      ratio: '',
      goal: 'none',
    },
    stolenRow(shownPart(ours.outcome.stolenPart), shownPart(theirs.outcome.stolenPart)),
  ];
}

const shownMissing = ({ missing, outcome }: Side): string =>
  missing === undefined ? `unknown, ${outcome.refusedMs.length} refused` : String(missing);

export const perSecond = ({ acceptedMs, elapsedMs }: Outcome): number => (acceptedMs.length / elapsedMs) * 1000;

const latency = ({ acceptedMs }: Outcome): string =>
  `p50 ${shownMs(percentile(acceptedMs, 0.5))}, p99 ${shownMs(percentile(acceptedMs, 0.99))}`;

export const shownMs = (ms: number): string =>
  ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
