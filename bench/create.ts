import { join } from 'node:path';
import { createBare } from './bare-engine.ts';
import { median, type Row, timeMs } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { range, repeatedFile, repeatedStream, vectorTable } from './workloads.ts';

const rowsPerBatch = 20_000;
const floatsPerRow = 128;
const MB = 1_000_000;

const batchOf = () => vectorTable({ keys: range(0, rowsPerBatch), floatsPerRow });
const batchBytes = rowsPerBatch * (8 + 4 * floatsPerRow);

/** The same bytes: streamed through HTTP here, handed over as one buffer there. */
export async function compareCreates(service: ServiceProcess, folder: string, megabytes: number): Promise<Row> {
  const batch = batchOf();
  const batches = Math.round((megabytes * MB) / batchBytes);
  const file = repeatedFile(batch, batches);
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let turn = 0; turn < 3; turn++) {
    ours.push(await timeMs(() => service.post(`/v1/table/create_${turn}/create`, repeatedStream(batch, batches))));
    theirs.push(await timeMs(() => createBare(join(folder, 'bare'), `create_${turn}`, file)));
  }
  const speed = (ms: number) => (batches * batchBytes) / MB / (ms / 1000);
  const [our, their] = [speed(median(ours)), speed(median(theirs))];
  return {
    what: `create, ${megabytes} MB`,
    lancegate: `${our.toFixed(0)} MB/s`,
    bareEngine: `${their.toFixed(0)} MB/s`,
    ratio: `${(our / their).toFixed(2)}x speed`,
    goal: 'at least 2x',
  };
}

/** Resident memory of the service, above idle, while a large create streams in. */
export async function measureMemory(service: ServiceProcess, megabytes: number): Promise<Row> {
  const idleBytes = await service.residentBytes();
  let peakBytes = idleBytes;
  let busy = true;
  const batch = batchOf();
  const watch = (async () => {
    while (busy) {
      peakBytes = Math.max(peakBytes, await service.residentBytes());
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const batches = Math.round((megabytes * MB) / batchBytes);
  await service.post('/v1/table/large/create', repeatedStream(batch, batches));
  busy = false;
  await watch;
  return {
    what: `memory above idle, create of ${megabytes} MB`,
    lancegate: `${((peakBytes - idleBytes) / MB).toFixed(0)} MB (idle ${(idleBytes / MB).toFixed(0)} MB)`,
    bareEngine: '',
    ratio: '',
    goal: 'at most 400 MB',
  };
}
