/**
 * One part of `bench:writers`, in a process of its own: its load generator has no memory of the parts before, nor the bare
 * engine's tables of ten million rows, whose collections clients would have to wait for. Prints its rows as JSON.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { showProfiles } from './cpu-profile.ts';
import { compareColdTables } from './hot-and-cold.ts';
import { compareLargeTable } from './large-table.ts';
import { compareManyWriters, measureManyWriters } from './many-writers.ts';
import type { Row } from './measure.ts';
import { compareOneWriter } from './one-writer.ts';
import { measureOverload } from './overload.ts';
import { type ServiceProcess, startServiceProcess } from './service-process.ts';
import { countStolenTime, shownPart, stolenRow } from './stolen-time.ts';

const { values } = parseArgs({
  options: {
    part: { type: 'string', default: '' },
    folder: { type: 'string', default: '' },
    seconds: { type: 'string', default: '' },
    upserts: { type: 'string', default: '' },
    rows: { type: 'string', default: '' },
    profile: { type: 'boolean', default: false },
  },
});
const { folder, profile } = values;
const seconds = Number(values.seconds);
const profileLines = 30;
const memoryLimit = '1GiB';
const shape = { rowsPerRequest: 100, targetRows: 100_000 };

type Part = (service: ServiceProcess) => Promise<readonly Row[]>;
const withStolenTime =
  (part: Part): Part =>
  async (service) => {
    const stolenPart = countStolenTime();
    const rows = await part(service);
    return [...rows, stolenRow(shownPart(stolenPart()))];
  };
/** `many` and `overload` are two loads each, and tell them apart. */
const parts: Readonly<Record<string, Part>> = {
  many: (service) => compareManyWriters(service, folder, { ...shape, clients: 64, seconds }),
  far: withStolenTime(async (service) => [
    await measureManyWriters(service, { ...shape, clients: 256, seconds }, 'aim 5,000 req/s'),
  ]),
  one: withStolenTime((service) => compareOneWriter(service, folder, Number(values.upserts))),
  cold: withStolenTime(async (service) => [await compareColdTables(service, seconds)]),
  large: withStolenTime((service) => compareLargeTable(service, folder, Number(values.rows), seconds)),
  overload: (service) => measureOverload(service, { clients: 256, factor: 10, seconds, memoryLimit }),
};
/** All parts have the defaults but this one, whose limit is to be within reach, and whose clients all have one address. */
const settings: Readonly<Record<string, readonly string[]>> = {
  overload: ['--memory-limit', memoryLimit, '--max-connections', '8192'],
};

async function run(name: string): Promise<readonly Row[]> {
  const part = parts[name];
  if (part === undefined) throw new Error(`no part '${name}'; there are ${Object.keys(parts).join(', ')}`);
  const profiles = join(folder, 'profiles');
  const nodeFlags = profile ? ['--cpu-prof', `--cpu-prof-dir=${profiles}`] : [];
  const service = await startServiceProcess(join(folder, 'data'), nodeFlags, settings[name]);
  try {
    return await part(service);
  } finally {
    await service.stop();
    if (profile) process.stderr.write(`${await showProfiles(profiles, profileLines)}\n`);
  }
}

process.stdout.write(JSON.stringify(await run(values.part)));
