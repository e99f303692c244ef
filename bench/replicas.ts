/**
 * Three replicas on one PostgreSQL and one object store, compared with one replica on the same, and an upsert that is forwarded to
 * the owner of its table compared with one that is sent there: `npm run bench:replicas`. `--turns` is how often each side has its
 * turn (3), `--seconds` the length of a turn (15), `--clients` their number (60), `--upserts` how many of each kind the second
 * comparison has (100), `--delay` the milliseconds that the store takes longer (30). `--processors` gives each replica that many of its
 * own (such as 0.3), as if each had a small machine; without it all replicas share the machine's. It needs the gateway of the tests
 * (`.ci/install-s3-gateway`).
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { type PostgresServer, startPostgres } from '#test/fixtures/postgres.ts';
import { type S3Gateway, startS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { type StoreProxy, startStoreProxy } from '#test/fixtures/store-proxy.ts';
import { accepted, runClosedLoop } from './closed-loop.ts';
import { inTurns } from './in-turns.ts';
import { KeyFeed } from './key-feed.ts';
import { shownMs } from './many-writers.ts';
import { median, percentile, type Row, table, timeMs } from './measure.ts';
import { limitProcessors } from './processor-quota.ts';
import { type ServiceProcess, startReplicaProcess } from './service-process.ts';
import { shownPart } from './stolen-time.ts';
import { countKeys } from './stored-keys.ts';
import { floatsPerRow, httpUpserters, type Upserters } from './upserters.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const { values } = parseArgs({
  options: {
    turns: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '15' },
    clients: { type: 'string', default: '60' },
    upserts: { type: 'string', default: '100' },
    delay: { type: 'string', default: '30' },
    processors: { type: 'string' },
  },
});
const clients = Number(values.clients);
const delayMs = Number(values.delay);
const tables = range(0, 20).map((index) => `table_${index}`);
const targetRows = 10_000;
const rowsPerRequest = 100;
const warmUpMs = 20_000;
const warmUps = 10;

/** What all replicas share. */
interface Shared {
  readonly postgres: PostgresServer;
  readonly gateway: S3Gateway;
  readonly proxy: StoreProxy;
}

interface Cluster {
  readonly replicas: readonly ServiceProcess[];
  readonly catalogUrl: string;
  /** The keys that each table has got. */
  readonly feeds: ReadonlyMap<string, KeyFeed>;
}

interface Turn {
  readonly perSecond: number;
  readonly acceptedMs: readonly number[];
  readonly refused: number;
  /** Processor time of all replicas for each request. */
  readonly cpuMs: number;
  /** How many processors each replica kept busy. */
  readonly busyProcessors: readonly number[];
  /** For how much of the time (0 to 1) the busiest event loop ran. */
  readonly mainThreadPart: number;
  /** Requests that share a commit, maintenance's commits included. */
  readonly batch: number;
  readonly stolenPart: number | undefined;
}

const folder = await mkdtemp(join(tmpdir(), 'lancegate-bench-'));
const cleanings: (() => unknown)[] = [];
const after = (clean: () => unknown): void => void cleanings.push(clean);
try {
  const gateway = await startS3Gateway(after);
  const proxy = await startStoreProxy(after, gateway.storageOptions);
  const shared = { gateway, proxy, postgres: await startPostgres(after) };
  const three = await startCluster(shared, 3);
  const one = await startCluster(shared, 1);
  const shown = [
    ...(await compareClusters(proxy, three, one)),
    ...(await compareForwarded(proxy, three, delayMs)),
    ...(await compareForwarded(proxy, three, 0)),
    await keysRow(gateway, three, one),
  ];
  const titles = { what: '', lancegate: 'this', bareEngine: 'compared with', ratio: 'ratio', goal: 'goal' };
  const loads = loadavg().map((load) => load.toFixed(1));
  process.stdout.write(
    `${table(shown, titles)}\nload of the machine in the last 1, 5 and 15 minutes: ${loads.join(', ')}\n`,
  );
} finally {
  for (const clean of cleanings.reverse()) await clean();
  await rm(folder, { recursive: true, force: true });
}

async function startCluster({ postgres, gateway, proxy }: Shared, count: number): Promise<Cluster> {
  const catalogUrl = await postgres.newDatabase();
  process.env.LANCEGATE_STORAGE_OPTIONS = JSON.stringify(proxy.storageOptions); // for the replicas, which inherit it
  const onStore = ['--storage-root', gateway.newRoot()];
  const start = async (index: number): Promise<ServiceProcess> => {
    const replica = await startReplicaProcess(join(folder, `${index}-of-${count}`), catalogUrl, onStore);
    after(() => replica.stop());
    return replica;
  };
  const replicas: ServiceProcess[] = [];
  for (const index of range(0, count)) replicas.push(await start(index));
  const first = bodyOf(vectorTable({ keys: range(0, targetRows), floatsPerRow }));
  for (const name of tables) await replicas[0]!.post(`/v1/table/${name}/create`, first.stream);
  return {
    replicas,
    catalogUrl,
    feeds: new Map(tables.map((name) => [name, new KeyFeed(targetRows, rowsPerRequest)])),
  };
}

async function compareClusters(proxy: StoreProxy, three: Cluster, one: Cluster): Promise<readonly Row[]> {
  proxy.delayMs = delayMs;
  for (const cluster of [three, one]) await load(cluster, proxy, warmUpMs);
  for (const { pid } of values.processors === undefined ? [] : [...three.replicas, ...one.replicas]) {
    cleanings.unshift(await limitProcessors(pid, Number(values.processors))); // the last to run
  }
  const durationMs = Number(values.seconds) * 1_000;
  const { first, second } = await inTurns(
    Number(values.turns),
    () => load(three, proxy, durationMs),
    () => load(one, proxy, durationMs),
  );
  const owned = await Promise.all(three.replicas.map(async ({ url }) => (await tablesOf(three, url)).length));
  const perSecondOf = (turns: readonly Turn[]): number => median(turns.map(({ perSecond }) => perSecond));
  const [ours, theirs] = [perSecondOf(first), perSecondOf(second)];
  const shown = (turns: readonly Turn[], of: (turn: Turn) => string): string => turns.map(of).join(', ');
  const row = (what: string, of: (turn: Turn) => string): Row => ({
    ...{ what: `- ${what}`, lancegate: shown(first, of), bareEngine: shown(second, of), ratio: '', goal: '' },
  });
  return [
    {
      what: `${clients} clients, ${tables.length} tables, store +${delayMs} ms: 3 replicas and 1`,
      lancegate: `${ours.toFixed(0)} req/s`,
      bareEngine: `${theirs.toFixed(0)} req/s`,
      ratio: `${(ours / theirs).toFixed(2)}x`,
      goal: 'at least 2x',
    },
    row('requests per second of each turn', ({ perSecond }) => perSecond.toFixed(0)),
    row('p50', ({ acceptedMs }) => shownMs(median(acceptedMs))),
    row('p99', ({ acceptedMs }) => shownMs(percentile(acceptedMs, 0.99))),
    row('refused, and sent again', ({ refused }) => String(refused)),
    row('requests that share a commit', ({ batch }) => batch.toFixed(1)),
    row('processor time of all replicas a request', ({ cpuMs }) => `${cpuMs.toFixed(1)} ms`),
    row('processors that each replica kept busy', ({ busyProcessors }) => busyProcessors.map(shownPart).join(' ')),
    row('the busiest event loop ran', ({ mainThreadPart }) => shownPart(mainThreadPart)),
    row('processor time that other machines took', ({ stolenPart }) => shownPart(stolenPart)),
    { what: '- tables that each replica owns', lancegate: owned.join(', '), bareEngine: '', ratio: '', goal: '' },
  ];
}

/** Each client has a table, and sends its requests to one replica after the other. */
async function load({ replicas, feeds }: Cluster, proxy: StoreProxy, durationMs: number): Promise<Turn> {
  const size = { clients: Math.ceil(clients / tables.length), rowsPerRequest };
  const ways = tables.map((name) => replicas.map((replica) => httpUpserters(replica, name, size)));
  let [sent, refused] = [0, 0];
  const request = async (client: number) => {
    const at = client % tables.length;
    const way = ways[at]![sent++ % replicas.length]!;
    refused += await upsert(way, Math.floor(client / tables.length), feeds.get(tables[at]!)!.next());
    return accepted;
  };
  proxy.reset();
  const [cpu, mainThreads] = [await cpuSeconds(replicas), await mainThreadSeconds(replicas)];
  const { acceptedMs, elapsedMs, stolenPart } = await runClosedLoop({ clients, durationMs, request }).finally(() => {
    for (const way of ways.flat()) way.close();
  });
  const busyMs = (await cpuSeconds(replicas)).map((seconds, index) => (seconds - cpu[index]!) * 1_000);
  const mainMs = (await mainThreadSeconds(replicas)).map((seconds, index) => (seconds - mainThreads[index]!) * 1_000);
  return {
    perSecond: (acceptedMs.length / elapsedMs) * 1_000,
    acceptedMs,
    refused,
    cpuMs: sumOf(busyMs) / acceptedMs.length,
    busyProcessors: busyMs.map((ms) => ms / elapsedMs),
    mainThreadPart: Math.max(...mainMs) / elapsedMs,
    batch: acceptedMs.length / (proxy.counts.get('PUT manifest') ?? 1),
    stolenPart,
  };
}

/** Sends the rows again until they are accepted, so that all of them are there at the end; returns how often they were not. */
async function upsert(way: Upserters, client: number, keys: readonly number[]): Promise<number> {
  for (let refused = 0; ; refused++) {
    const { isAccepted, pauseMs } = await way.upsert(client, keys);
    if (isAccepted) return refused;
    await pause(pauseMs);
  }
}

function cpuSeconds(replicas: readonly ServiceProcess[]): Promise<readonly number[]> {
  return Promise.all(replicas.map((replica) => replica.cpuSeconds()));
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function mainThreadSeconds(replicas: readonly ServiceProcess[]): Promise<readonly number[]> {
  return Promise.all(replicas.map((replica) => replica.mainThreadSeconds()));
}

/** The same client sends to the owner and to another replica, one upsert after the other. */
async function compareForwarded(proxy: StoreProxy, cluster: Cluster, heldMs: number): Promise<readonly Row[]> {
  proxy.delayMs = heldMs;
  const [name] = tables as [string];
  const owners = await Promise.all(
    cluster.replicas.map(async ({ url }) => (await tablesOf(cluster, url)).includes(name)),
  );
  const wayTo = (index: number) => httpUpserters(cluster.replicas[index]!, name, { clients: 1, rowsPerRequest });
  const [owner, other] = [wayTo(owners.indexOf(true)), wayTo(owners.indexOf(false))];
  const feed = cluster.feeds.get(name)!;
  const upsertBy = (way: Upserters) => timeMs(() => upsert(way, 0, feed.next()));
  const bothWays = (rounds: number) =>
    inTurns(
      rounds,
      () => upsertBy(other),
      () => upsertBy(owner),
    );
  await bothWays(warmUps);
  const { first, second } = await bothWays(Number(values.upserts));
  for (const way of [owner, other]) way.close();
  const shown = (times: readonly number[]) => `p50 ${shownMs(median(times))}, p99 ${shownMs(percentile(times, 0.99))}`;
  return [
    {
      what: `1 client, store +${heldMs} ms: forwarded, and sent to the owner`,
      lancegate: shown(first),
      bareEngine: shown(second),
      ratio: `${(median(first) / median(second)).toFixed(2)}x`,
      goal: 'at most 1.2x',
    },
  ];
}

/** Those that the replica with this address owns. */
async function tablesOf({ catalogUrl }: Cluster, address: string): Promise<readonly string[]> {
  const client = new pg.Client(catalogUrl);
  await client.connect();
  try {
    const owned =
      'select path from table_owners join replicas on replicas.id = table_owners.replica where address = $1';
    const { rows } = await client.query<{ readonly path: string }>(owned, [address]);
    return rows.map(({ path }) => path);
  } finally {
    await client.end();
  }
}

async function keysRow(gateway: S3Gateway, three: Cluster, one: Cluster): Promise<Row> {
  const [ours, theirs] = [await keysOf(gateway, three), await keysOf(gateway, one)];
  return { what: 'keys with two rows; keys missing', lancegate: ours, bareEngine: theirs, ratio: '', goal: 'none' };
}

async function keysOf({ storageOptions }: S3Gateway, { replicas, feeds }: Cluster): Promise<string> {
  let [expected, duplicates, missing] = [0, 0, 0];
  for (const [name, feed] of feeds) {
    const counted = await countKeys(await replicas[0]!.folderOf(name), storageOptions);
    expected += feed.end;
    duplicates += counted.duplicates;
    missing += feed.end - (counted.rows - counted.duplicates);
  }
  return `${duplicates}; ${missing} of ${expected}`;
}
