/**
 * 64 clients that each insert 100 rows again and again, compared with the bare engine doing the same, where each client has the
 * table open by itself, as programs without a service between have it:
 * `npm run bench:inserts`. `--seconds` is the length of each load (10), `--clients` their number (64).
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createBare } from './bare-engine.ts';
import { startServiceProcess } from './service-process.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '10' }, clients: { type: 'string', default: '64' } },
});
const loadMs = Number(values.seconds) * 1_000;
const rowsPerInsert = 100;
const floatsPerRow = 16;
const partOf = (from: number) => bodyOf(vectorTable({ keys: range(from, rowsPerInsert), floatsPerRow }));

interface Load {
  readonly inserts: number;
  readonly refused: number;
  readonly perSecond: number;
  readonly p99Ms: number;
}

async function load(insert: (client: number) => Promise<unknown>): Promise<Load> {
  const startMs = performance.now();
  const times: number[] = [];
  let refused = 0;
  const client = async (number: number): Promise<void> => {
    while (performance.now() - startMs < loadMs) {
      const sentMs = performance.now();
      await insert(number).then(
        () => times.push(performance.now() - sentMs),
        () => (refused += 1),
      );
    }
  };
  await Promise.all(range(0, Number(values.clients)).map(client));
  const perSecond = times.length / ((performance.now() - startMs) / 1_000);
  const inOrder = times.toSorted((a, b) => a - b);
  return { inserts: times.length, refused, perSecond, p99Ms: inOrder[Math.floor(inOrder.length * 0.99)] ?? Number.NaN };
}

const shown = ({ inserts, refused, perSecond, p99Ms }: Load): string =>
  `${perSecond.toFixed(1)} inserts/s, p99 ${p99Ms.toFixed(0)} ms, ${inserts} in all, ${refused} refused`;

const folder = await mkdtemp(join(tmpdir(), 'lancegate-inserts-'));
const service = await startServiceProcess(join(folder, 'data'));
try {
  const bodies = range(0, Number(values.clients)).map((client) => partOf(client * rowsPerInsert));
  const first = partOf(1_000_000);
  await service.post('/v1/table/t/create', first.stream);
  const ours = await load((client) => service.post('/v1/table/t/insert', bodies[client]!.stream));
  const bare = await createBare(join(folder, 'bare'), 't', first.file);
  const opened = await Promise.all(bodies.map(() => bare.again()));
  const theirs = await load((client) => opened[client]!.append(bodies[client]!.file));
  console.log(`lancegate    ${shown(ours)}`);
  console.log(`bare engine  ${shown(theirs)}`);
  console.log(`ratio        ${(ours.perSecond / theirs.perSecond).toFixed(1)} (aim: 50)`);
} finally {
  await service.stop();
  await rm(folder, { recursive: true, force: true });
}
