/**
 * lancegate compared with the bare engine, in one run: `npm run bench`. Every comparison takes turns, so both sides meet the same
 * machine; read the ratios, not the milliseconds.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compareCreates, measureMemory } from './create.ts';
import { type Row, table } from './measure.ts';
import { compareMerges } from './merge.ts';
import { startServiceProcess } from './service-process.ts';
import { countStolenTime, shownPart, stolenRow } from './stolen-time.ts';

const folder = await mkdtemp(join(tmpdir(), 'lancegate-bench-'));
const stolenPart = countStolenTime();
const service = await startServiceProcess(join(folder, 'data'));
try {
  const rows: Row[] = [
    {
      what: 'start to ready',
      lancegate: `${(service.startedAfterMs / 1000).toFixed(2)} s`,
      bareEngine: '',
      ratio: '',
      goal: 'under 3 s',
    },
    ...(await measureMemory(folder, 2000)),
    ...(await compareMerges(service, folder, {
      name: 'merge, 100 rows into 100,000',
      targetRows: 100_000,
      sourceRows: 100,
      floatsPerRow: 4,
      repeats: 40,
      goal: 'at most 1.3x',
      isPeerIndexed: false,
    })),
    ...(await compareMerges(service, folder, {
      name: 'merge, 100,000 rows x 32 floats',
      targetRows: 200_000,
      sourceRows: 100_000,
      floatsPerRow: 32,
      repeats: 12,
      goal: 'at most 1.3x',
      isPeerIndexed: false,
    })),
    ...(await compareMerges(service, folder, {
      name: 'merge, 5,000 rows x 256 floats; peer: with an index',
      targetRows: 100_000,
      sourceRows: 5_000,
      floatsPerRow: 256,
      repeats: 24,
      goal: 'below 1x',
      isPeerIndexed: true,
    })),
    ...(await compareCreates(service, folder, 500)),
    stolenRow(shownPart(stolenPart())),
  ];
  process.stdout.write(`${table(rows)}\n`);
} finally {
  await service.stop();
  await rm(folder, { recursive: true, force: true });
}
