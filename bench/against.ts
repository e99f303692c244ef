/**
 * This checkout compared with another, `--other <root>`, in turns: `node bench/against.ts --other ../before`. While one has
 * its turn the other is stopped, so neither cleans up at the expense of the other. Read the ratios, and on a busy
 * machine those of processor time. `--turns` (5) of `--seconds` (4) each, `--only` names loads, `--profile` adds where
 * the threads of both spent their time.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type AgainstLoad, loads, type Requests } from './against-loads.ts';
import { runClosedLoop } from './closed-loop.ts';
import { showProfiles } from './cpu-profile.ts';
import { inTurns } from './in-turns.ts';
import { median, percentile, type Row, table } from './measure.ts';
import { type ServiceProcess, startServiceProcess } from './service-process.ts';

const { values } = parseArgs({
  options: {
    other: { type: 'string' },
    turns: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '4' },
    only: { type: 'string', default: Object.keys(loads).join(',') },
    profile: { type: 'boolean', default: false },
  },
});
if (values.other === undefined) throw new Error('--other: the root of another checkout is required');
const turns = Number(values.turns);
const durationMs = Number(values.seconds) * 1000;
const profileLines = 40;
const lookEveryMs = 200;
const mostLooks = 20;

interface Turn {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Processor time for each request. */
  readonly cpuMs: number;
  readonly mainThreadMs: number;
  /** Resident at its end. */
  readonly megabytes: number;
}

async function turn(service: ServiceProcess, load: AgainstLoad, { send, close }: Requests): Promise<Turn> {
  service.resume();
  const [cpu, mainThread] = [await service.cpuSeconds(), await service.mainThreadSeconds()];
  const limit = load.maxRequests === undefined ? {} : { maxRequestsPerClient: load.maxRequests };
  const { acceptedMs, elapsedMs } = await runClosedLoop({ clients: load.clients, durationMs, request: send, ...limit });
  const perRequest = (seconds: number): number => (seconds * 1000) / acceptedMs.length;
  const measured = {
    perSecond: (acceptedMs.length * 1000) / elapsedMs,
    p50Ms: median(acceptedMs),
    p99Ms: percentile(acceptedMs, 0.99),
    cpuMs: perRequest((await service.cpuSeconds()) - cpu),
    mainThreadMs: perRequest((await service.mainThreadSeconds()) - mainThread),
    megabytes: (await service.residentBytes()) / 1e6,
  };
  close();
  await settled(service);
  service.pause();
  return measured;
}

/** What is stopped in the middle of maintenance would take it for slow, and do less of it from then on. */
async function settled(service: ServiceProcess): Promise<void> {
  for (let look = 0; look < mostLooks; look++) {
    const before = await service.cpuSeconds();
    await setTimeout(lookEveryMs);
    if (((await service.cpuSeconds()) - before) * 1000 < lookEveryMs / 10) return;
  }
}

/** Each side has a turn before those that count, in which it fills what it keeps. */
async function compare(load: AgainstLoad, ours: ServiceProcess, others: ServiceProcess): Promise<readonly Row[]> {
  const side = async (service: ServiceProcess): Promise<() => Promise<Turn>> => {
    service.resume();
    const requests = await load.prepare(service);
    await turn(service, load, requests);
    return () => turn(service, load, requests);
  };
  const measured = await inTurns(turns, await side(ours), await side(others));
  const row = (what: string, of: (turn: Turn) => number): Row => {
    const [our, other] = [median(measured.first.map(of)), median(measured.second.map(of))];
    return { what, lancegate: shown(our), bareEngine: shown(other), ratio: `${(our / other).toFixed(2)}x`, goal: '' };
  };
  return [
    row(`${load.what}: requests a second`, ({ perSecond }) => perSecond),
    row('- p50, ms', ({ p50Ms }) => p50Ms),
    row('- p99, ms', ({ p99Ms }) => p99Ms),
    row('- processor time of the service, ms a request', ({ cpuMs }) => cpuMs),
    row('- of that the main thread, ms a request', ({ mainThreadMs }) => mainThreadMs),
    row('- resident memory, MB', ({ megabytes }) => megabytes),
  ];
}

const shown = (value: number): string => String(Number(value.toPrecision(3)));

const folder = await mkdtemp(join(tmpdir(), 'lancegate-against-'));
const start = (name: string, root?: string): Promise<ServiceProcess> => {
  const profiling = values.profile ? ['--cpu-prof', `--cpu-prof-dir=${join(folder, `profiles-${name}`)}`] : [];
  return startServiceProcess(join(folder, name), profiling, [], root);
};
const ours = await start('here');
const others = await start('other', resolve(values.other));
try {
  const rows: Row[] = [];
  for (const name of values.only.split(',')) {
    const load = loads[name];
    if (load === undefined) throw new Error(`--only: no load '${name}'; there are ${Object.keys(loads).join(', ')}`);
    rows.push(...(await compare(load, ours, others)));
    process.stderr.write(`${name}\n`);
  }
  const titles: Row = {
    what: `medians of ${turns} turns`,
    lancegate: 'this checkout',
    bareEngine: 'the other',
    ratio: 'this / other',
    goal: '',
  };
  process.stdout.write(`${table(rows, titles)}\n`);
} finally {
  for (const service of [ours, others]) {
    service.resume();
    await service.stop();
  }
  if (values.profile)
    for (const name of ['here', 'other'])
      process.stderr.write(`${name}\n${await showProfiles(join(folder, `profiles-${name}`), profileLines)}\n`);
  await rm(folder, { recursive: true, force: true });
}
