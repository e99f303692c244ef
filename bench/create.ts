import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createBare } from './bare-engine.ts';
import { median, type Row, timeMs } from './measure.ts';
import { type ServerProcess, startServerProcess } from './server-process.ts';
import { type ServiceProcess, startServiceProcess } from './service-process.ts';
import { range, repeatedAsOneBatch, repeatedFile, repeatedStream, vectorTable } from './workloads.ts';

const rowsPerBatch = 20_000;
const floatsPerRow = 128;
const MB = 1_000_000;

const batchOf = () => vectorTable({ keys: range(0, rowsPerBatch), floatsPerRow });
const batchBytes = rowsPerBatch * (8 + 4 * floatsPerRow);

const receiver = fileURLToPath(new URL('./receiver.ts', import.meta.url));
const turns = 3;

interface Run {
  readonly ms: number;
  /** Processor time of all processes that took part. */
  readonly cpuSeconds: number;
}

/**
 * The same rows four ways, turn about: streamed through HTTP into lancegate; streamed to a server that drops them; handed
 * to the bare engine as one record batch, which is what a program has that built its table in memory; and handed to it
 * with the batches of the stream. What receiving alone costs says how much of the distance could be made up at all.
 */
export async function compareCreates(
  service: ServiceProcess,
  folder: string,
  megabytes: number,
): Promise<readonly Row[]> {
  const batches = Math.round((megabytes * MB) / batchBytes);
  const stream = () => repeatedStream(batchOf(), batches);
  const oneBatch = repeatedAsOneBatch(range(0, rowsPerBatch), floatsPerRow, batches);
  const sameBatches = repeatedFile(batchOf(), batches);
  const drop = await startServerProcess([receiver]);
  const bare = join(folder, 'bare');
  const runs: Record<'ours' | 'receive' | 'oneBatch' | 'sameBatches', Run[]> = {
    ours: [],
    receive: [],
    oneBatch: [],
    sameBatches: [],
  };
  for (let turn = 0; turn < turns; turn++) {
    runs.ours.push(await observe(() => service.post(`/v1/table/create_${turn}/create`, stream()), service));
    runs.receive.push(await observe(() => drop.post('/', stream(), {}), drop));
    runs.oneBatch.push(await observe(() => createBare(bare, `one_batch_${turn}`, oneBatch)));
    runs.sameBatches.push(await observe(() => createBare(bare, `same_batches_${turn}`, sameBatches)));
  }
  await drop.stop();
  const typical = { bytes: batches * batchBytes, ours: middle(runs.ours), receive: middle(runs.receive) };
  return [
    rowOf(`create, ${megabytes} MB; peer: one record batch`, typical, middle(runs.oneBatch), 'at least 2x'),
    rowOf(`- peer: the stream's ${batches} batches`, typical, middle(runs.sameBatches), 'at least 2x'),
    receiveRow(typical),
  ];
}

async function observe(run: () => Promise<unknown>, server?: ServerProcess): Promise<Run> {
  const used = async () => (await server?.cpuSeconds()) ?? 0;
  const before = await used();
  const own = process.cpuUsage();
  const ms = await timeMs(run);
  const { user, system } = process.cpuUsage(own);
  return { ms, cpuSeconds: (await used()) - before + (user + system) / 1e6 };
}

const middle = (runs: readonly Run[]): Run => ({
  ms: median(runs.map(({ ms }) => ms)),
  cpuSeconds: median(runs.map(({ cpuSeconds }) => cpuSeconds)),
});

interface Typical {
  readonly bytes: number;
  readonly ours: Run;
  readonly receive: Run;
}

const shown = (bytes: number, { ms, cpuSeconds }: Run): string =>
  `${(bytes / 1000 / ms).toFixed(0)} MB/s (${(ms / 1000).toFixed(2)} s, CPU ${cpuSeconds.toFixed(2)} s)`;

const rowOf = (what: string, { bytes, ours }: Typical, theirs: Run, goal: string): Row => ({
  what,
  lancegate: shown(bytes, ours),
  bareEngine: shown(bytes, theirs),
  ratio: `${(theirs.ms / ours.ms).toFixed(2)}x speed`,
  goal,
});

const receiveRow = ({ bytes, receive }: Typical): Row => ({
  what: '- received and dropped by node:http',
  lancegate: shown(bytes, receive),
  bareEngine: '',
  ratio: '',
  goal: '',
});

/** What a large stream of rows can be for. */
const largeWrites = {
  create: '/v1/table/large/create',
  insert: '/v1/table/grown/insert',
  overwrite: '/v1/table/grown/insert?mode=overwrite',
} as const;

/** Resident memory of a service of its own, above idle, while each of the large streams comes in. */
export async function measureMemory(folder: string, megabytes: number): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const [write, path] of Object.entries(largeWrites)) {
    const service = await startServiceProcess(join(folder, `memory_${write}`));
    try {
      await service.post('/v1/table/grown/create', repeatedStream(batchOf(), 1));
      rows.push(
        await memoryRow(service, `memory above idle, ${write} of ${megabytes} MB`, () =>
          service.post(path, repeatedStream(batchOf(), Math.round((megabytes * MB) / batchBytes))),
        ),
      );
    } finally {
      await service.stop();
    }
  }
  return rows;
}

async function memoryRow(service: ServiceProcess, what: string, write: () => Promise<unknown>): Promise<Row> {
  const idleBytes = await service.residentBytes();
  let peakBytes = idleBytes;
  let busy = true;
  const watch = (async () => {
    while (busy) {
      peakBytes = Math.max(peakBytes, await service.residentBytes());
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  await write();
  busy = false;
  await watch;
  return {
    what,
    lancegate: `${((peakBytes - idleBytes) / MB).toFixed(0)} MB (idle ${(idleBytes / MB).toFixed(0)} MB)`,
    bareEngine: '',
    ratio: '',
    goal: 'at most 400 MB',
  };
}
