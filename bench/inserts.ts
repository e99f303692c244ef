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
import { accepted, type Outcome, runClosedLoop } from './closed-loop.ts';
import { perSecond, shownMs } from './many-writers.ts';
import { percentile } from './measure.ts';
import { startServiceProcess } from './service-process.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '10' }, clients: { type: 'string', default: '64' } },
});
const rowsPerInsert = 100;
const floatsPerRow = 16;
const partOf = (from: number) => bodyOf(vectorTable({ keys: range(from, rowsPerInsert), floatsPerRow }));

const load = (insert: (client: number) => Promise<unknown>): Promise<Outcome> =>
  runClosedLoop({
    clients: Number(values.clients),
    durationMs: Number(values.seconds) * 1_000,
    request: (client) =>
      insert(client).then(
        () => accepted,
        () => ({ isAccepted: false, pauseMs: 0 }),
      ),
  });

const shown = (outcome: Outcome): string => {
  const { acceptedMs, refusedMs } = outcome;
  const p99 = shownMs(percentile(acceptedMs, 0.99));
  return `${perSecond(outcome).toFixed(1)} inserts/s, p99 ${p99}, ${acceptedMs.length} in all, ${refusedMs.length} refused`;
};

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
  console.log(`ratio        ${(perSecond(ours) / perSecond(theirs)).toFixed(1)} (aim: 50)`);
} finally {
  await service.stop();
  await rm(folder, { recursive: true, force: true });
}
