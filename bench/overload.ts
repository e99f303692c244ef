import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { type Outcome, runClosedLoop, type Served } from './closed-loop.ts';
import { inTurns } from './in-turns.ts';
import { KeyFeed } from './key-feed.ts';
import { perSecond, shownMs } from './many-writers.ts';
import { percentile, type Row } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { shownPart, stolenRow } from './stolen-time.ts';
import { floatsPerRow, type HttpUpserters, httpUpserters } from './upserters.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const targetRows = 100_000;
const rowsPerRequest = 100;
/** Clients begin one after the other: all at once would measure how fast the load generator sends thousands of requests. */
const spreadMs = 1000;
const pauseAfterFailureMs = 1000;
const sampleEveryMs = 100;
/** Of each load. */
const turns = 2;

interface Overload {
  /** As many as are served without a refusal. */
  readonly clients: number;
  readonly factor: number;
  readonly seconds: number;
  /** Of resident memory, as `--memory-limit` has it. */
  readonly memoryLimit: string;
}

interface Loaded {
  readonly accepted: Outcome;
  /** Milliseconds from the send over a connection that was there to the whole answer. */
  readonly refusedMs: readonly number[];
  /** Requests that got no answer. */
  readonly unanswered: number;
  /** Connections that had to be made anew, after each client's first. */
  readonly reconnected: number;
  readonly peakBytes: number;
}

/**
 * Ten times the clients: is as much accepted as before, are the others refused at once, does memory hold? Each turn has a table
 * of its own, since one that was written to for a minute is another table.
 */
export async function measureOverload(service: ServiceProcess, given: Overload): Promise<readonly Row[]> {
  const target = bodyOf(vectorTable({ keys: range(0, targetRows), floatsPerRow })).stream;
  const seconds = given.seconds / turns;
  const loadNewTable = async (clients: number): Promise<Loaded> => {
    const table = `overload_${clients}_${randomUUID()}`;
    await service.post(`/v1/table/${table}/create`, target);
    return load(service, { table, clients, seconds });
  };
  const { first, second } = await inTurns(
    turns,
    () => loadNewTable(given.clients),
    () => loadNewTable(given.clients * given.factor),
  );
  return rows(given, together(first), together(second));
}

function together(loads: readonly Loaded[]): Loaded {
  const sum = (of: (load: Loaded) => number): number => loads.reduce((total, load) => total + of(load), 0);
  return {
    accepted: {
      acceptedMs: loads.flatMap(({ accepted }) => accepted.acceptedMs),
      refusedMs: loads.flatMap(({ accepted }) => accepted.refusedMs),
      elapsedMs: sum(({ accepted }) => accepted.elapsedMs),
      stolenPart: mostStolen(loads.map(({ accepted }) => accepted.stolenPart)),
    },
    refusedMs: loads.flatMap(({ refusedMs }) => refusedMs),
    unanswered: sum(({ unanswered }) => unanswered),
    reconnected: sum(({ reconnected }) => reconnected),
    peakBytes: Math.max(...loads.map(({ peakBytes }) => peakBytes)),
  };
}

const mostStolen = (parts: readonly (number | undefined)[]): number | undefined =>
  parts.some((part) => part === undefined) ? undefined : Math.max(...(parts as number[]));

interface Turn {
  readonly table: string;
  readonly clients: number;
  readonly seconds: number;
}

async function load(service: ServiceProcess, { table, clients, seconds }: Turn): Promise<Loaded> {
  const feed = new KeyFeed(targetRows, rowsPerRequest);
  const upserters = httpUpserters(service, table, { clients, rowsPerRequest });
  await Promise.all(Array.from({ length: clients }, (_, client) => upserters.connect(client)));
  const memory = watchMemory(service);
  const refusedMs: number[] = [];
  let unanswered = 0;
  const begun = new Set<number>();
  const request = async (client: number): Promise<Served> => {
    if (!begun.has(client)) await pause((client / clients) * spreadMs);
    begun.add(client);
    const answer = await ask(upserters, client, feed).catch(() => undefined);
    if (answer === undefined) unanswered += 1;
    else if (!answer.isAccepted) refusedMs.push(answer.ms);
    return answer ?? { isAccepted: false, pauseMs: pauseAfterFailureMs };
  };
  const accepted = await runClosedLoop({ clients, durationMs: seconds * 1000, request });
  const reconnected = upserters.connections() - clients;
  upserters.close();
  return { accepted, refusedMs, unanswered, reconnected, peakBytes: await memory.stop() };
}

async function ask(upserters: HttpUpserters, client: number, feed: KeyFeed) {
  await upserters.connect(client);
  const keys = feed.next();
  const sent = performance.now();
  const served = await upserters.upsert(client, keys);
  return { ...served, ms: performance.now() - sent };
}

function watchMemory(service: ServiceProcess): { stop(): Promise<number> } {
  let peakBytes = 0;
  const sample = async () => {
    peakBytes = Math.max(peakBytes, await service.residentBytes());
  };
  const timer = setInterval(() => void sample(), sampleEveryMs);
  return {
    stop: async () => {
      clearInterval(timer);
      await sample();
      return peakBytes;
    },
  };
}

function rows({ clients, factor, memoryLimit }: Overload, usual: Loaded, over: Loaded): readonly Row[] {
  const [before, after] = [perSecond(usual.accepted), perSecond(over.accepted)];
  const latency = ({ accepted }: Loaded, part: number) => shownMs(percentile(accepted.acceptedMs, part));
  const refused = (part: number) => shownMs(percentile(over.refusedMs, part));
  const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`;
  const row = (what: string, lancegate: string, goal: string, ratio = ''): Row => ({
    ...{ what, lancegate, bareEngine: '', ratio, goal },
  });
  return [
    row(
      `${clients * factor} clients instead of ${clients}`,
      `${after.toFixed(0)} req/s (before ${before.toFixed(0)})`,
      'throughput kept',
      `${(after / before).toFixed(2)}x`,
    ),
    row(
      '- latency of what is served',
      `p50 ${latency(over, 0.5)}, p99 ${latency(over, 0.99)} (before ${latency(usual, 0.5)}, ${latency(usual, 0.99)})`,
      '',
    ),
    row(
      '- refused',
      over.refusedMs.length === 0 ? 'none' : `${over.refusedMs.length}: p50 ${refused(0.5)}, p99 ${refused(0.99)}`,
      'within 100 ms',
    ),
    row('- connections lost, requests unanswered', `${over.reconnected}, ${over.unanswered}`, 'none'),
    row(
      '- resident memory at most',
      `${megabytes(over.peakBytes)} (before ${megabytes(usual.peakBytes)})`,
      `under ${memoryLimit}`,
    ),
    stolenRow(`${shownPart(over.accepted.stolenPart)} (before ${shownPart(usual.accepted.stolenPart)})`),
  ];
}
