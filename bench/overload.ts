import { runClosedLoop } from './closed-loop.ts';
import { KeyFeed } from './key-feed.ts';
import { perSecond, shownMs } from './many-writers.ts';
import { percentile, type Row } from './measure.ts';
import type { ServiceProcess } from './service-process.ts';
import { floatsPerRow, httpUpserters } from './upserters.ts';
import { bodyOf, range, vectorTable } from './workloads.ts';

const targetRows = 100_000;
const rowsPerRequest = 100;

export interface Overload {
  /** As many as are served without a refusal. */
  readonly clients: number;
  readonly factor: number;
  readonly seconds: number;
}

/** Ten times the clients: is as much accepted as before, are the others told at once, does memory hold? */
export async function measureOverload(service: ServiceProcess, given: Overload): Promise<readonly Row[]> {
  const table = 'overload';
  const first = bodyOf(vectorTable({ keys: range(0, targetRows), floatsPerRow })).stream;
  await service.post(`/v1/table/${table}/create`, first);
  const feed = new KeyFeed(targetRows, rowsPerRequest);
  const load = async (clients: number) => {
    const upserters = httpUpserters(service, table, { clients, rowsPerRequest });
    const request = (client: number) => upserters.upsert(client, feed.next());
    const outcome = await runClosedLoop({
      clients,
      durationMs: given.seconds * 1000,
      request,
      pauseAfterRefusalMs: 1000, // what Retry-After says
    });
    upserters.close();
    return outcome;
  };
  const usual = await load(given.clients);
  const residentBefore = await service.residentBytes();
  const over = await load(given.clients * given.factor);
  const resident = await service.residentBytes();
  const kept = perSecond(over) / perSecond(usual);
  const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`;
  return [
    {
      what: `${given.clients * given.factor} clients instead of ${given.clients}`,
      lancegate: `${perSecond(over).toFixed(0)} req/s (before ${perSecond(usual).toFixed(0)})`,
      bareEngine: '',
      ratio: `${kept.toFixed(2)}x`,
      goal: 'throughput kept',
    },
    {
      what: '- refused',
      lancegate:
        over.refusedMs.length === 0
          ? 'none'
          : `${over.refusedMs.length}, p99 after ${shownMs(percentile(over.refusedMs, 0.99))}`,
      bareEngine: '',
      ratio: '',
      goal: 'within 100 ms',
    },
    {
      what: '- resident memory',
      lancegate: `${megabytes(resident)} (before ${megabytes(residentBefore)})`,
      bareEngine: '',
      ratio: '',
      goal: '',
    },
  ];
}
