/**
 * Upserts into a table on an object store: an S3 gateway that answers each request some time later (`npm run bench:store`).
 * `--delay` are the milliseconds (30), `--seconds` the length of each load (15), `--turns` how often it is measured (3). `--against` is
 * another checkout, which takes turns with this one. It needs the gateway of the tests (`.ci/install-s3-gateway`).
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startS3Gateway } from '#test/fixtures/s3-gateway.ts';
import { type StoreProxy, startStoreProxy } from '#test/fixtures/store-proxy.ts';
import { runClosedLoop } from './closed-loop.ts';
import { median, percentile } from './measure.ts';
import { type ServiceProcess, startServiceProcess } from './service-process.ts';
import { httpUpserters } from './upserters.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const { values } = parseArgs({
  options: {
    delay: { type: 'string', default: '30' },
    seconds: { type: 'string', default: '15' },
    turns: { type: 'string', default: '3' },
    against: { type: 'string' },
  },
});
const tableRows = 100_000;
const rowsPerRequest = 100;
const floatsPerRow = 4;
const warmUpMs = 5_000;

interface Measured {
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Processor time of the service for each request, of all its threads and of the one with the event loop. */
  readonly cpuMs: number;
  readonly mainThreadMs: number;
  /** Requests that share a commit. */
  readonly batch: number;
  /** Requests to the store for each commit, by their kind. */
  readonly perCommit: ReadonlyMap<string, number>;
}

async function measure(service: ServiceProcess, proxy: StoreProxy, table: string, clients: number): Promise<Measured> {
  const upserters = httpUpserters(service, table, { clients, rowsPerRequest });
  let sent = 0;
  const request = (client: number) => {
    sent += 1;
    const first = (sent * 7919 * rowsPerRequest) % tableRows;
    return upserters.upsert(client, range(first, rowsPerRequest));
  };
  await runClosedLoop({ clients, durationMs: warmUpMs, request });
  proxy.reset();
  const [cpu, mainThread] = [await service.cpuSeconds(), await service.mainThreadSeconds()];
  const { acceptedMs, elapsedMs } = await runClosedLoop({
    clients,
    durationMs: Number(values.seconds) * 1000,
    request,
  });
  const counts = new Map(proxy.counts);
  const perRequestMs = (seconds: number) => (seconds * 1000) / acceptedMs.length;
  const cpuMs = perRequestMs((await service.cpuSeconds()) - cpu);
  const mainThreadMs = perRequestMs((await service.mainThreadSeconds()) - mainThread);
  upserters.close();
  const commits = counts.get('PUT manifest') ?? 1;
  return {
    requestsPerSecond: (acceptedMs.length / elapsedMs) * 1000,
    p50Ms: median(acceptedMs),
    p99Ms: percentile(acceptedMs, 0.99),
    cpuMs,
    mainThreadMs,
    batch: acceptedMs.length / commits,
    perCommit: new Map([...counts].sort().map(([kind, count]) => [kind, count / commits])),
  };
}

async function turn(root: string | undefined, folder: string): Promise<readonly Measured[]> {
  const cleanings: (() => unknown)[] = [];
  const after = (clean: () => unknown) => void cleanings.push(clean);
  const gateway = await startS3Gateway(after);
  const proxy = await startStoreProxy(after, gateway.storageOptions);
  process.env.LANCEGATE_STORAGE_OPTIONS = JSON.stringify(proxy.storageOptions); // for the service, which inherits it
  const settings = ['--storage-root', gateway.newRoot()];
  const service = await startServiceProcess(folder, [], settings, root);
  try {
    const body = bodyOf(vectorTable({ keys: range(0, tableRows), floatsPerRow }));
    await service.post('/v1/table/bench/create', body.stream);
    proxy.delayMs = Number(values.delay);
    const measured: Measured[] = [];
    for (const clients of [1, 64]) measured.push(await measure(service, proxy, 'bench', clients));
    return measured;
  } finally {
    await service.stop();
    for (const clean of cleanings.reverse()) await clean();
  }
}

const shown = ({ requestsPerSecond, p50Ms, p99Ms, cpuMs, mainThreadMs, batch, perCommit }: Measured): string => {
  const requests = [...perCommit].map(([kind, count]) => `${kind} ${count.toFixed(1)}`).join(', ');
  const all = perCommit.values().reduce((sum, count) => sum + count, 0);
  return `${requestsPerSecond.toFixed(0)} req/s, p50 ${p50Ms.toFixed(0)} ms, p99 ${p99Ms.toFixed(0)} ms, processor ${cpuMs.toFixed(2)} ms a request (event loop ${mainThreadMs.toFixed(2)}), ${batch.toFixed(1)} requests share a commit, ${all.toFixed(1)} requests to the store a commit (${requests})`;
};

const folder = await mkdtemp(join(tmpdir(), 'lancegate-bench-'));
try {
  const roots = [undefined, ...(values.against === undefined ? [] : [values.against])];
  for (let index = 0; index < Number(values.turns); index++) {
    for (const root of roots) {
      const [one, many] = await turn(root, join(folder, `${index}-${root === undefined ? 'this' : 'other'}`));
      const name = root === undefined ? 'this checkout' : 'the other';
      process.stdout.write(`${name}, 1 client: ${shown(one!)}\n${name}, 64 clients: ${shown(many!)}\n`);
    }
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
