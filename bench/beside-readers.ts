/** What writers lose to readers of the same service: the same writers alone and beside readers, in turns. */
import { accepted, type Outcome, runClosedLoop } from './closed-loop.ts';
import { inTurns } from './in-turns.ts';
import { KeyFeed } from './key-feed.ts';
import { perSecond, shownMs } from './many-writers.ts';
import { percentile, type Row } from './measure.ts';
import { RawClient } from './raw-client.ts';
import type { ServiceProcess } from './service-process.ts';
import { floatsPerRow, httpUpserters } from './upserters.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

interface BesideReaders {
  readonly writers: number;
  readonly readers: number;
  /** Of each turn; there are two of each kind. */
  readonly seconds: number;
  /** The query of one reader's turn, ready to be sent. */
  readonly query: (reader: number, turn: number) => Buffer;
}

const table = 'beside';
const rowsPerRequest = 100;
const targetRows = 100_000;

export async function compareBesideReaders(service: ServiceProcess, given: BesideReaders): Promise<readonly Row[]> {
  const first = bodyOf(vectorTable({ keys: range(0, targetRows), floatsPerRow }));
  await service.post(`/v1/table/${table}/create`, first.stream);
  const feed = new KeyFeed(targetRows, rowsPerRequest);
  const size = { clients: given.writers, rowsPerRequest };
  const durationMs = given.seconds * 1_000;
  const write = async (): Promise<Outcome> => {
    const upserters = httpUpserters(service, table, size);
    const request = (client: number) => upserters.upsert(client, feed.next());
    return runClosedLoop({ clients: given.writers, durationMs, request }).finally(() => upserters.close());
  };
  const read = readerLoad(service, given, durationMs);
  const { first: alone, second: both } = await inTurns(2, write, async () => {
    const [writes, reads] = await Promise.all([write(), read()]);
    return { writes, reads };
  });
  return rowsOf(given, alone, both);
}

function readerLoad(service: ServiceProcess, given: BesideReaders, durationMs: number): () => Promise<Outcome> {
  return async () => {
    const clients = Array.from({ length: given.readers }, () => new RawClient(service.port));
    let turn = 0;
    const request = async (reader: number) => {
      const { status, retryAfterSeconds = 0, body } = await clients[reader]!.send(given.query(reader, ++turn));
      if (status === 200) return accepted;
      if (status === 503) return { isAccepted: false, pauseMs: retryAfterSeconds * 1_000 };
      throw new Error(`${status}: ${body.toString()}`);
    };
    try {
      return await runClosedLoop({ clients: given.readers, durationMs, request });
    } finally {
      for (const client of clients) client.close();
    }
  };
}

function rowsOf(
  { writers, readers }: BesideReaders,
  alone: readonly Outcome[],
  both: readonly { readonly writes: Outcome; readonly reads: Outcome }[],
): readonly Row[] {
  const beside = both.map(({ writes }) => writes);
  const reads = both.map(({ reads: outcome }) => outcome);
  const p99 = (outcomes: readonly Outcome[]) =>
    percentile(
      outcomes.flatMap(({ acceptedMs }) => acceptedMs),
      0.99,
    );
  const ratio = (one: number, other: number) => `${(one / other).toFixed(2)}x`;
  const refused = (outcomes: readonly Outcome[]) => outcomes.reduce((sum, { refusedMs }) => sum + refusedMs.length, 0);
  const shown = (outcomes: readonly Outcome[]) => `${mean(outcomes).toFixed(0)} req/s`;
  return [
    {
      what: `${writers} writers beside ${readers} readers, and alone`,
      lancegate: shown(beside),
      bareEngine: `alone ${shown(alone)}`,
      ratio: ratio(mean(beside), mean(alone)),
      goal: 'at least 0.6x',
    },
    {
      what: '- p99 of the writers',
      lancegate: shownMs(p99(beside)),
      bareEngine: `alone ${shownMs(p99(alone))}`,
      ratio: ratio(p99(beside), p99(alone)),
      goal: 'under 2x',
    },
    {
      what: '- the readers meanwhile',
      lancegate: `${shown(reads)}, p99 ${shownMs(p99(reads))}`,
      bareEngine: `${refused(reads)} refused`,
      ratio: '',
      goal: '',
    },
  ];
}

const mean = (outcomes: readonly Outcome[]): number =>
  outcomes.reduce((sum, outcome) => sum + perSecond(outcome), 0) / outcomes.length;
