/**
 * Many writers, beside the bare engine doing the same in one process, each request its own merge: `npm run bench:writers`.
 * `--seconds` is the length of each load (60), `--upserts` the number of single-row upserts (10,000), `--rows` the size of
 * the large table (10,000,000), `--only` names parts: many, far, one, cold, large, overload; `--profile` adds where
 * the service's threads spent their time.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { showProfiles } from './cpu-profile.ts';
import { compareColdTables } from './hot-and-cold.ts';
import { compareLargeTable } from './large-table.ts';
import { compareManyWriters, measureManyWriters } from './many-writers.ts';
import { type Row, table } from './measure.ts';
import { compareOneWriter } from './one-writer.ts';
import { measureOverload } from './overload.ts';
import { type ServiceProcess, startServiceProcess } from './service-process.ts';
import { countStolenTime, shownPart, stolenRow } from './stolen-time.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    upserts: { type: 'string', default: '10000' },
    rows: { type: 'string', default: '10000000' },
    only: { type: 'string', default: 'many,far,one,cold,large,overload' },
    profile: { type: 'boolean', default: false },
  },
});
const seconds = Number(values.seconds);
const profileLines = 30;
const memoryLimit = '1GiB';
const shape = { rowsPerRequest: 100, targetRows: 100_000 };

type Part = (service: ServiceProcess, folder: string) => Promise<readonly Row[]>;
const withStolenTime =
  (part: Part): Part =>
  async (service, folder) => {
    const stolenPart = countStolenTime();
    const rows = await part(service, folder);
    return [...rows, stolenRow(shownPart(stolenPart()))];
  };
/** `many` and `overload` are two loads each, and tell them apart. */
const parts: Readonly<Record<string, Part>> = {
  many: (service, folder) => compareManyWriters(service, folder, { ...shape, clients: 64, seconds }),
  far: withStolenTime(async (service) => [
    await measureManyWriters(service, { ...shape, clients: 256, seconds }, 'aim 5,000 req/s'),
  ]),
  one: withStolenTime((service, folder) => compareOneWriter(service, folder, Number(values.upserts))),
  cold: withStolenTime(async (service) => [await compareColdTables(service, seconds)]),
  large: withStolenTime((service, folder) => compareLargeTable(service, folder, Number(values.rows), seconds)),
  overload: (service) => measureOverload(service, { clients: 256, factor: 10, seconds, memoryLimit }),
};
/** All parts have the defaults but this one, whose limit is to be within reach. */
const settings: Readonly<Record<string, readonly string[]>> = { overload: ['--memory-limit', memoryLimit] };

/**
 * Each part has a service and a folder of its own, so that none sees what another left behind. The folders stay until all is
 * measured: a disk may be slow for minutes after gigabytes have been removed from it.
 */
async function run(name: string, part: Part, folder: string): Promise<readonly Row[]> {
  const profiles = join(folder, 'profiles');
  const nodeFlags = values.profile ? ['--cpu-prof', `--cpu-prof-dir=${profiles}`] : [];
  const service = await startServiceProcess(join(folder, 'data'), nodeFlags, settings[name]);
  try {
    return await part(service, folder);
  } finally {
    await service.stop();
    if (values.profile) process.stderr.write(`${await showProfiles(profiles, profileLines)}\n`);
  }
}

/** Of the bare engine, too, which leaves that to the kernel. */
const writeAllToDisk = (): Promise<unknown> => promisify(execFile)('sync');

async function runAll(names: readonly string[], root: string): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const name of names) {
    const part = parts[name];
    if (part === undefined) throw new Error(`--only: no part '${name}'; there are ${Object.keys(parts).join(', ')}`);
    process.stderr.write(`${name}\n`);
    await writeAllToDisk();
    rows.push(...(await run(name, part, join(root, name))));
  }
  return rows;
}

const root = await mkdtemp(join(tmpdir(), 'lancegate-bench-'));
try {
  process.stdout.write(`${table(await runAll(values.only.split(','), root))}\n`);
} finally {
  await rm(root, { recursive: true, force: true });
}
