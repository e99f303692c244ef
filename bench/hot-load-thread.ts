/** The clients of one busy table, on a thread of their own: who measures others must not wait for them, too. */
import { parentPort, workerData } from 'node:worker_threads';
import { runClosedLoop } from './closed-loop.ts';
import type { HotTable, Served } from './hot-load.ts';
import { KeyFeed } from './key-feed.ts';
import { httpUpserters } from './upserters.ts';
import { range } from './workloads.ts';

const { target, table, size } = workerData as HotTable;
const upserters = httpUpserters(target, table, size);
for (const client of range(0, size.clients)) await upserters.connect(client);
const feed = new KeyFeed(size.targetRows, size.rowsPerRequest);

parentPort?.on('message', (durationMs: number) => {
  void runClosedLoop({
    clients: size.clients,
    durationMs,
    request: (client) => upserters.upsert(client, feed.next()),
  }).then(({ acceptedMs, elapsedMs }) =>
    parentPort?.postMessage({ requests: acceptedMs.length, elapsedMs } satisfies Served),
  );
});
